//go:build e2e

package nspawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/grafana"
	"spore/wire/machine"
)

// shownAfter is the age at which the store shows samples (-search.latencyOffset). By then they are on its disk as well.
const shownAfter = 30 * time.Second

// metricsReachAll waits until the store shows that it reaches all three, and returns when it was asked for that.
func (b *brokers) metricsReachAll(t *testing.T) time.Time {
	var shown time.Time
	require.Eventually(t, func() bool {
		shown = time.Now()
		up := b.metrics(t, "up{job=\"node\"}")
		return up["kafka-1"] == "1" && up["kafka-2"] == "1" && up["kafka-3"] == "1" && len(up) == 3
	}, 3*time.Minute, time.Second, "the store reaches all three")
	return shown
}

// metricsAreKept asks the store, as an operator does, for what nodes and their brokers say of themselves. Two of the
// three have lost power since the store has shown all of them.
func (b *brokers) metricsAreKept(t *testing.T, shown time.Time) {
	b.metricsReachAll(t)
	require.Eventually(t, func() bool {
		brokers := b.metrics(t, "kafka_brokers")
		return brokers["kafka-1"] == "3" && brokers["kafka-2"] == "3" && brokers["kafka-3"] == "3"
	}, 3*time.Minute, time.Second, "each broker knows three")
	// A broker's first sample may have come between shown and the store's answer: half of the delay is added.
	ago := (time.Since(shown) - shownAfter/2).Milliseconds()
	kept := b.metrics(t, fmt.Sprintf("max_over_time(up{job=\"node\"}[1h] offset %dms)", ago))
	if len(kept) != 3 {
		t.Logf("the store's first samples, as Unix times: %v; it showed all after %d", b.metrics(t, "tfirst_over_time(up{job=\"node\"}[1h])"), shown.Unix())
	}
	require.Equal(t, map[string]string{"kafka-1": "1", "kafka-2": "1", "kafka-3": "1"}, kept, "from before the losses of power")

	out, said, ok := b.spore(t.Context(), "metrics", "count(node_systemd_unit_state{name=\"kafka.service\",state=\"active\"})")
	require.True(t, ok, said)
	require.Equal(t, "{}  3\n", out)
	_, said, ok = b.spore(t.Context(), "metrics", "sum(")
	require.False(t, ok)
	require.Contains(t, said, "the store says: ")
	_, said, ok = b.spore(t.Context(), "metrics", "up", "--node", "kafka-2")
	require.False(t, ok)
	require.Contains(t, said, "no node that is asked has the role metrics-store")
	b.dashboardsShowThem(t)
}

// dashboardsShowThem evaluates the queries of docs/grafana that nodes and brokers have data for.
func (b *brokers) dashboardsShowThem(t *testing.T) {
	dashboards, err := grafana.Load("../../docs/grafana")
	require.NoError(t, err)
	values := map[string]string{"instance": "kafka-1|kafka-2|kafka-3", "job": "node"}
	silent := grafana.Brokers.Silent(dashboards, values, func(expr string) (found []map[string]string, _ error) {
		out, said, ok := b.spore(t.Context(), "metrics", expr) // a line for each, which JSON is not in the log
		if !ok {
			return nil, errors.New(said)
		}
		for _, m := range counted.FindAllStringSubmatch(out, -1) {
			found = append(found, map[string]string{"query": m[1]})
		}
		return found, nil
	})
	require.Empty(t, silent)
}

// counted is a line of spore metrics about one of several queries that are asked at once.
var counted = regexp.MustCompile(`(?m)^\{query="([0-9]+[A-Z])"\} +[1-9]`)

// metrics is the value of a query now, by instance; nothing where the store does not answer.
func (b *brokers) metrics(t *testing.T, query string) map[string]string {
	out, _, ok := b.spore(t.Context(), "metrics", query, "--json")
	var answers []struct{ Results [][]machine.Series }
	if !ok || json.NewDecoder(strings.NewReader(out)).Decode(&answers) != nil {
		return nil
	}
	values := map[string]string{}
	for _, answer := range answers {
		for _, part := range answer.Results {
			for _, s := range part {
				if len(s.Samples) == 1 {
					values[s.Labels["instance"]] = s.Samples[0].Value
				}
			}
		}
	}
	return values
}
