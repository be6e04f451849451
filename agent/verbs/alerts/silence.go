package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"spore/agent/verbs"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// wanted is postableSilence of the API.
type wanted struct {
	Matchers  []matcher `json:"matchers"`
	StartsAt  time.Time `json:"startsAt"`
	EndsAt    time.Time `json:"endsAt"`
	CreatedBy string    `json:"createdBy"`
	Comment   string    `json:"comment"`
}

// Silence has nobody told of alerts with some labels, for a while.
func (a Alertmanager) Silence(ctx context.Context, r *verbs.Run) (string, error) {
	labels, err := silenced(r)
	if err != nil {
		return "", err
	}
	firing, err := get(ctx, a, r, "/api/v2/alerts", parseAlerts)
	if err != nil {
		return "", err
	}
	if err := guard(r, labels, firing); err != nil {
		return "", err
	}
	now := 0
	for _, one := range firing {
		if matches(labels, one) {
			now++
		}
	}
	order := request(r, labels)
	if r.Order.DryRun {
		return fmt.Sprintf("would silence %s until %s (%d of %d alerts now); nothing was done",
			said(labels), order.EndsAt.Format(time.RFC3339), now, len(firing)), nil
	}
	id, err := a.make(ctx, r, order)
	if err != nil {
		return "", err
	}
	made := silence{
		ID: id, CreatedBy: order.CreatedBy, Comment: order.Comment, StartsAt: order.StartsAt, EndsAt: order.EndsAt, Matchers: order.Matchers,
	}
	if err := r.Result([]machine.Silence{made.shown()}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is silenced until %s (%d of %d alerts now); spore alerts unsilence %s ends it",
		said(labels), order.EndsAt.Format(time.RFC3339), now, len(firing), clip(id, maxName)), nil
}

// silenced are the labels that the order has silenced, by their names.
func silenced(r *verbs.Run) (map[string]string, error) {
	labels := map[string]string{}
	if text := r.Argument("labels", ""); text != "" {
		given, err := nodeapi.ParseLabels(text)
		if err != nil {
			return nil, err
		}
		labels = given
	}
	for argument, label := range map[string]string{"name": machine.AlertName, "node": machine.AlertNode} {
		value := r.Argument(argument, "")
		if value == "" {
			continue
		}
		if _, has := labels[label]; has {
			return nil, fmt.Errorf("the label %s is given twice: it is what %s says", label, argument)
		}
		labels[label] = value
	}
	if len(labels) == 0 {
		return nil, errors.New("that would silence every alert; name an alert, a node or a label")
	}
	return labels, nil
}

// guard refuses what would silence the alert by which others see that alerts arrive.
func guard(r *verbs.Run, labels map[string]string, firing []alert) error {
	if f := r.Order.Force; f != "" && f != nodeapi.ForceWatchdog {
		return fmt.Errorf("force is %.64q, and what can be forced here is %s", f, nodeapi.ForceWatchdog)
	}
	if r.Order.Force == nodeapi.ForceWatchdog {
		return nil
	}
	why := reachesWatchdog(labels, firing)
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s; --force %s does it nevertheless: nobody sees then that alerts do not arrive",
		why, nodeapi.ForceWatchdog)
}

// reachesWatchdog says why labels are, or may be, those of Watchdog; nothing where they are not.
func reachesWatchdog(labels map[string]string, firing []alert) string {
	switch labels[machine.AlertName] {
	case metrics.Watchdog:
		return fmt.Sprintf("the alert %s says that alerts arrive, and fires always", metrics.Watchdog)
	case "":
	default:
		return ""
	}
	fires := false
	for _, one := range firing {
		if one.Labels[machine.AlertName] != metrics.Watchdog {
			continue
		}
		if matches(labels, one) {
			return fmt.Sprintf("%s would also silence the alert %s", said(labels), metrics.Watchdog)
		}
		fires = true
	}
	// What labels it has cannot be looked at. It is of no node.
	if !fires && labels[machine.AlertNode] == "" {
		return fmt.Sprintf("the alert %s does not fire now, so nobody knows whether %s would silence it; "+
			"name an alert or a node", metrics.Watchdog, said(labels))
	}
	return ""
}

// matches tells whether an alert has all the labels.
func matches(labels map[string]string, one alert) bool {
	for name, value := range labels {
		if one.Labels[name] != value {
			return false
		}
	}
	return true
}

// said is the labels as PromQL has them.
func said(labels map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

// request is what Alertmanager is told.
func request(r *verbs.Run, labels map[string]string) wanted {
	length, _ := time.ParseDuration(r.Argument("for", "")) // It was checked.
	begin := r.Machine.Now().UTC().Truncate(time.Second)
	out := wanted{StartsAt: begin, EndsAt: begin.Add(length), CreatedBy: r.Caller, Comment: r.Argument("comment", "")}
	equal := true
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out.Matchers = append(out.Matchers, matcher{Name: name, Value: labels[name], IsEqual: &equal})
	}
	return out
}

// make has Alertmanager make a silence, and returns its ID.
func (a Alertmanager) make(ctx context.Context, r *verbs.Run, order wanted) (string, error) {
	got, err := a.ask(ctx, r, http.MethodPost, "/api/v2/silences", order)
	if err != nil {
		return "", err
	}
	if got.status != http.StatusOK {
		return "", got.problem()
	}
	var made struct {
		ID string `json:"silenceID"`
	}
	if err := json.Unmarshal(got.data, &made); err != nil || made.ID == "" {
		return "", errors.New("the answer of Alertmanager is malformed: it has no silenceID; see spore alerts silences")
	}
	return made.ID, nil
}

// Unsilence ends a silence.
func (a Alertmanager) Unsilence(ctx context.Context, r *verbs.Run) (string, error) {
	id := r.Argument("id", "")
	got, err := a.ask(ctx, r, http.MethodGet, "/api/v2/silence/"+id, nil)
	switch {
	case err != nil:
		return "", err
	case got.status == http.StatusNotFound:
		return "", fmt.Errorf("there is no silence %s; spore alerts silences lists them", id)
	case got.status != http.StatusOK:
		return "", got.problem()
	}
	found, err := parseSilence(got.data)
	if err != nil {
		return "", err
	}
	shown := found.shown()
	whose := fmt.Sprintf("%s, made by %s (%s)", id, nodeapi.Harmless(shown.By), nodeapi.Harmless(shown.Comment))
	switch {
	case found.Status.State == expired:
		return fmt.Sprintf("the silence %s ended already, at %s", whose, shown.Ends.Format(time.RFC3339)), nil
	case r.Order.DryRun:
		return fmt.Sprintf("would end the silence %s; nothing was done", whose), nil
	}
	got, err = a.ask(ctx, r, http.MethodDelete, "/api/v2/silence/"+id, nil)
	switch {
	case err != nil:
		return "", err
	case got.status != http.StatusOK:
		return "", got.problem()
	}
	return fmt.Sprintf("the silence %s has ended", whose), nil
}
