package alerts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"spore/agent/verbs"
	"spore/services/metrics"
	"spore/wire/machine"
)

const (
	// maxAlerts and maxSilences are how many are shown: the worst, and those that end first.
	maxAlerts, maxSilences = 2000, 1000
	// maxLabels, maxMatchers and maxMatching are how many labels, matchers and silences one of them is shown with.
	maxLabels, maxMatchers, maxMatching = 64, 32, 4
	// maxName, maxValue and maxText bound a label's name, its value and a text, in bytes. As JSON, a byte may take six.
	maxName, maxValue, maxText = 128, 1 << 10, 4 << 10
)

// Show answers with the alerts that fire now, the worst first.
func (a Alertmanager) Show(ctx context.Context, r *verbs.Run) (string, error) {
	// First the silences: one that is made meanwhile is shown by its ID alone, and never is one that ended shown as none.
	silences, err := get(ctx, a, r, "/api/v2/silences", parseSilences)
	if err != nil {
		return "", err
	}
	all, err := get(ctx, a, r, "/api/v2/alerts", parseAlerts)
	if err != nil {
		return "", err
	}
	list := make([]machine.Alert, 0, len(all))
	for _, one := range all {
		list = append(list, one.shown(silences))
	}
	slices.SortStableFunc(list, machine.Worse)
	if err := verbs.Results(r, list[:min(len(list), maxAlerts)]); err != nil {
		return "", err
	}
	return summary(list), nil
}

// summary says how many alerts do what.
func summary(list []machine.Alert) string {
	count := map[string]int{}
	for _, one := range list {
		if one.Labels[machine.AlertName] != metrics.Watchdog {
			count[one.State]++
		}
	}
	text := fmt.Sprintf("firing: %d, silenced: %d, held back: %d", count[machine.Fires], count[machine.Silenced], count[machine.HeldBack])
	if len(list) > maxAlerts {
		text += fmt.Sprintf("; the worst %d are shown", maxAlerts)
	}
	return text
}

// Silences answers with the silences that hold or will hold, those that end first at the top.
func (a Alertmanager) Silences(ctx context.Context, r *verbs.Run) (string, error) {
	all, err := get(ctx, a, r, "/api/v2/silences", parseSilences)
	if err != nil {
		return "", err
	}
	var list []machine.Silence
	for _, one := range all {
		if one.Status.State != expired {
			list = append(list, one.shown())
		}
	}
	slices.SortFunc(list, func(x, y machine.Silence) int {
		return cmp.Or(x.Ends.Compare(y.Ends), cmp.Compare(x.ID, y.ID))
	})
	if err := verbs.Results(r, list[:min(len(list), maxSilences)]); err != nil {
		return "", err
	}
	if len(list) > maxSilences {
		return fmt.Sprintf("%d silences; the first %d are shown", len(list), maxSilences), nil
	}
	if len(list) == 1 {
		return "1 silence", nil
	}
	return fmt.Sprintf("%d silences", len(list)), nil
}

// alert is gettableAlert of the API.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	Status      struct {
		State       string   `json:"state"`
		SilencedBy  []string `json:"silencedBy"`
		InhibitedBy []string `json:"inhibitedBy"`
	} `json:"status"`
}

func parseAlerts(data []byte) ([]alert, error) {
	var all []alert
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("the answer of Alertmanager is malformed: %w", err)
	}
	return all, nil
}

// shown is the alert as people get it, within bounds.
func (a alert) shown(silences []silence) machine.Alert {
	out := machine.Alert{
		Labels: map[string]string{}, State: machine.Fires, Since: second(a.StartsAt),
		Summary: clip(a.Annotations["summary"], maxText), Description: clip(a.Annotations["description"], maxText),
		Runbook: clip(cmp.Or(a.Annotations["runbook"], a.Annotations["runbook_url"]), maxValue),
	}
	for _, name := range labelsFirst(a.Labels) {
		out.Labels[clip(name, maxName)] = clip(a.Labels[name], maxValue)
	}
	switch {
	case len(a.Status.SilencedBy) > 0:
		out.State = machine.Silenced
	case len(a.Status.InhibitedBy) > 0:
		out.State = machine.HeldBack
	}
	for _, id := range a.Status.SilencedBy[:min(len(a.Status.SilencedBy), maxMatching)] {
		one := machine.Silence{ID: clip(id, maxName)}
		if i := slices.IndexFunc(silences, func(s silence) bool { return s.ID == id }); i >= 0 {
			one = silences[i].shown()
			one.Matchers = nil // The alert has its labels already.
		}
		out.Silences = append(out.Silences, one)
	}
	return out
}

// labelsFirst are the names of the labels that are shown, those that say what the alert is before all others.
func labelsFirst(labels map[string]string) []string {
	known := []string{machine.AlertName, machine.AlertNode, machine.Severity}
	var names []string
	for _, name := range append(known, slices.Sorted(maps.Keys(labels))...) {
		if _, has := labels[name]; has && !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) == maxLabels {
			break
		}
	}
	return names
}

// expired is the state of a silence that has ended (silenceStatus of the API), and pending of one that will begin.
const (
	expired = "expired"
	pending = "pending"
)

// silence is gettableSilence of the API.
type silence struct {
	ID        string    `json:"id"`
	CreatedBy string    `json:"createdBy"`
	Comment   string    `json:"comment"`
	StartsAt  time.Time `json:"startsAt"`
	EndsAt    time.Time `json:"endsAt"`
	Matchers  []matcher `json:"matchers"`
	Status    struct {
		State string `json:"state"`
	} `json:"status"`
}

// matcher is that of the API.
type matcher struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	IsRegex bool   `json:"isRegex"`
	// IsEqual is true where it is left out.
	IsEqual *bool `json:"isEqual,omitempty"`
}

func (m matcher) operator() string {
	operator := "="
	if m.IsEqual != nil && !*m.IsEqual {
		operator = "!"
	}
	switch {
	case m.IsRegex:
		return operator + "~"
	case operator == "!":
		return "!="
	}
	return operator
}

func parseSilences(data []byte) ([]silence, error) {
	var all []silence
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("the answer of Alertmanager is malformed: %w", err)
	}
	return all, nil
}

func parseSilence(data []byte) (one silence, err error) {
	if err := json.Unmarshal(data, &one); err != nil {
		return silence{}, fmt.Errorf("the answer of Alertmanager is malformed: %w", err)
	}
	return one, nil
}

// shown is the silence as people get it, within bounds.
func (s silence) shown() machine.Silence {
	out := machine.Silence{
		ID: clip(s.ID, maxName), Pending: s.Status.State == pending,
		By: clip(s.CreatedBy, maxValue), Comment: clip(s.Comment, maxText),
		Begins: second(s.StartsAt), Ends: second(s.EndsAt),
	}
	for _, m := range s.Matchers[:min(len(s.Matchers), maxMatchers)] {
		out.Matchers = append(out.Matchers, machine.Matcher{
			Name: clip(m.Name, maxName), Value: clip(m.Value, maxValue), Operator: m.operator(),
		})
	}
	return out
}

// second is a time in whole seconds; none where JSON has no form for it (RFC 3339: years of four digits).
func second(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second)
	if t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
