package alerts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"spore/fleet"
	"spore/fleet/verbs"
	"spore/wire/machine"
)

// Merged is what several Alertmanagers say as if one said it: as a rule they know the same, and while they cannot reach
// each other each has what the other may lack.
func Merged(answers []fleet.Answer[verbs.Reply]) (fleet.Answer[verbs.Reply], error) {
	out := answers[0]
	var names, done []string
	at := map[string]int{}
	var all []machine.Alert
	for _, a := range answers {
		names, done = append(names, a.Node.Name), append(done, a.Value.Done)
		list, err := Read[machine.Alert](a.Value.Results)
		if err != nil {
			return out, fmt.Errorf("%s: %w", a.Node.Name, err)
		}
		for _, one := range list {
			key, err := json.Marshal(one.Labels) // with the names sorted
			if err != nil {
				return out, fmt.Errorf("internal error: %w", err)
			}
			i, known := at[string(key)]
			if !known {
				at[string(key)] = len(all)
				all = append(all, one)
				continue
			}
			all[i] = both(all[i], one)
		}
	}
	slices.SortStableFunc(all, machine.Worse)
	part, err := json.Marshal(all)
	if err != nil {
		return out, fmt.Errorf("internal error: %w", err)
	}
	out.Node.Name = strings.Join(names, ", ")
	out.Value = verbs.Reply{Results: []json.RawMessage{part}, Done: strings.Join(slices.Compact(done), "; ")}
	return out, nil
}

// states are those of an alert: what one Alertmanager tells people, people are told.
var states = []string{machine.Fires, machine.HeldBack, machine.Silenced}

// both is one alert as two Alertmanagers have it, since the one or the other has had it.
func both(x, y machine.Alert) machine.Alert {
	out := x
	if slices.Index(states, y.State) < slices.Index(states, x.State) {
		out = y
	}
	if y.Since.Before(out.Since) {
		out.Since = y.Since
	}
	if x.Since.Before(out.Since) {
		out.Since = x.Since
	}
	return out
}

// Read puts the parts of a result together.
func Read[T any](results []json.RawMessage) ([]T, error) {
	var all []T
	for _, part := range results {
		var some []T
		if err := json.Unmarshal(part, &some); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		all = append(all, some...)
	}
	return all, nil
}
