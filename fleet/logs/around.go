package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/cluster/facts"
	"spore/fleet"
	"spore/fleet/verbs"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// MaxSpan bounds a time around an alert.
const MaxSpan = 24 * time.Hour

const (
	// past is how far back an alert is looked for that does not fire now, and step what lies between two looks: with a
	// longer one, a short alert may be missed, and a shorter one makes a series too long (metrics-query).
	past = 7 * 24 * time.Hour
	step = 2 * time.Minute
	// maxTime is in Unix seconds, and later than any alert.
	maxTime = 1 << 40
	// together is how far apart the beginnings of an alert on several nodes may be that are one event.
	together = 10 * time.Minute
)

// fired is that an alert began to fire.
type fired struct {
	at     time.Time
	labels map[string]string
}

// Event is the time around an alert.
type Event struct {
	Alert string
	// Span is how long a time is meant, half of it before the alert.
	Span time.Duration
	// Chosen says that the nodes are chosen already.
	Chosen bool
}

// Find looks for an alert, reduces the cluster to its nodes where these are not chosen, and returns the time around it.
// What a person is to know goes to said.
func Find(ctx context.Context, c *fleet.Cluster, e Event, now time.Time, said io.Writer) (since, until time.Time, err error) {
	all, err := firing(ctx, said, c, e.Alert)
	if err != nil {
		fmt.Fprintf(said, "it is not known whether %s fires now: %s\n", nodeapi.Harmless(e.Alert), nodeapi.HarmlessLines(err.Error()))
	}
	if len(all) == 0 {
		if all, err = didFire(ctx, said, c, e.Alert, now); err != nil {
			return since, until, fmt.Errorf("look when %s has fired: %w", e.Alert, err)
		}
	}
	if len(all) == 0 {
		return since, until, fmt.Errorf("no alert %s fires, and none has in the last 7 days; see the names of alerts with `spore alerts`, "+
			"and in docs/alerts.md", e.Alert)
	}
	at := slices.MaxFunc(all, func(a, b fired) int { return a.at.Compare(b.at) }).at
	all = slices.DeleteFunc(all, func(f fired) bool { return at.Sub(f.at) > together })
	since, until = slices.MinFunc(all, func(a, b fired) int { return a.at.Compare(b.at) }).at.Add(-e.Span/2), at.Add(e.Span/2)
	if !e.Chosen {
		of := func(n facts.Node) bool {
			return slices.ContainsFunc(all, func(f fired) bool { return f.labels[machine.AlertNode] == n.Name || f.labels["node"] == n.Name })
		}
		if slices.ContainsFunc(c.Nodes, of) {
			c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n facts.Node) bool { return !of(n) })
		} else {
			fmt.Fprintf(said, "the alert is of no node that can be asked; all are shown\n")
		}
	}
	fmt.Fprintf(said, "%s began to fire at %s; this is what was said from %s to %s\n", nodeapi.Harmless(e.Alert),
		at.UTC().Format(time.RFC3339), since.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	return since, until, nil
}

// firing are the alerts of a name that fire now; none where the cluster has no role that knows.
func firing(ctx context.Context, said io.Writer, c *fleet.Cluster, name string) ([]fired, error) {
	if len(c.Facts.Members[metrics.AlertsRole]) == 0 {
		return nil, nil
	}
	parts, err := askFirst[machine.Alert](ctx, said, c, metrics.AlertsRole, "alerts", nodeapi.Order{})
	var out []fired
	for _, a := range parts {
		if a.Labels[machine.AlertName] == name {
			out = append(out, fired{a.Since, a.Labels})
		}
	}
	return out, err
}

// didFire are the last times when alerts of a name began to fire (Prometheus, alerting rules: the series ALERTS).
func didFire(ctx context.Context, said io.Writer, c *fleet.Cluster, name string, now time.Time) ([]fired, error) {
	if len(c.Facts.Members[metrics.Role]) == 0 {
		return nil, errors.New("no node has the role " + metrics.Role + ", which knows what has fired")
	}
	alerts := fmt.Sprintf(`ALERTS{%s=%s,alertstate="firing"}`, machine.AlertName, strconv.Quote(name))
	ask := func(arguments map[string]string) ([]machine.Series, error) {
		return askFirst[machine.Series](ctx, said, c, metrics.Role, "metrics-query", nodeapi.Order{Arguments: arguments})
	}
	series, err := ask(map[string]string{
		"query": alerts,
		"from":  strconv.FormatInt(now.Add(-past).Unix(), 10), "until": strconv.FormatInt(now.Unix(), 10),
		"step": strconv.Itoa(int(step / time.Second)),
	})
	if err != nil {
		return nil, err
	}
	// Between two looks, and after the last of them, an alert may have begun: the store puts the value of the one before
	// in the place of the last (VictoriaMetrics, -search.latencyOffset).
	recent, err := ask(map[string]string{"query": fmt.Sprintf("tfirst_over_time(%s[%ds])", alerts, int(2*step/time.Second))})
	if err != nil {
		return nil, err
	}
	if series, err = with(series, recent); err != nil {
		return nil, err
	}
	var out []fired
	for _, s := range series {
		if at, found := lastBegin(s.Samples); found {
			out = append(out, fired{at, s.Labels})
		}
	}
	return out, nil
}

// with adds to series the times that others have for their values.
func with(series, times []machine.Series) ([]machine.Series, error) {
	for _, t := range times {
		for _, sample := range t.Samples {
			seconds, err := strconv.ParseFloat(sample.Value, 64)
			if err != nil || !(seconds > 0 && seconds < maxTime) {
				return nil, fmt.Errorf("the store of metrics says %q for a time", sample.Value)
			}
			i := slices.IndexFunc(series, func(s machine.Series) bool {
				labels := maps.Clone(s.Labels)
				delete(labels, "__name__") // A function of a metric has no name.
				return maps.Equal(labels, t.Labels)
			})
			if i < 0 {
				series = append(series, machine.Series{Labels: t.Labels})
				i = len(series) - 1
			}
			s := &series[i]
			if n := len(s.Samples); n == 0 || s.Samples[n-1].At < seconds {
				s.Samples = append(s.Samples, machine.Sample{At: seconds, Value: "1"})
			}
		}
	}
	return series, nil
}

// lastBegin is when the last time without a gap in samples began.
func lastBegin(samples []machine.Sample) (at time.Time, found bool) {
	if len(samples) == 0 {
		return at, false
	}
	begin := samples[len(samples)-1].At
	for i := len(samples) - 2; i >= 0 && begin-samples[i].At <= 1.5*step.Seconds(); i-- {
		begin = samples[i].At
	}
	return time.UnixMilli(int64(begin * 1000)), true
}

// askFirst asks the nodes with a role one after the other, until one answers, and puts the parts of its answer
// together. The nodes that were chosen do not matter for that.
func askFirst[T any](ctx context.Context, said io.Writer, c *fleet.Cluster, role, name string, order nodeapi.Order) (out []T, err error) {
	v := verbs.Row(name)
	if err := v.Check(order); err != nil {
		return nil, err
	}
	var problems []error
	for _, node := range c.Facts.Members[role] {
		one := *c
		one.Nodes = []facts.Node{{Name: node}}
		answer := verbs.Send(ctx, said, &one, v, verbs.MaxResults, verbs.Same(order), nil)[0]
		if answer.Err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", node, answer.Err))
			continue
		}
		for _, part := range answer.Value.Results {
			var some []T
			if err := json.Unmarshal(part, &some); err != nil {
				return nil, fmt.Errorf("the answer of %s is malformed: %w", node, err)
			}
			out = append(out, some...)
		}
		return out, nil
	}
	return nil, errors.Join(problems...)
}

// AlertName tells whether a text can be the name of an alert.
func AlertName(text string) bool {
	return text != "" && len(text) <= 256 && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
