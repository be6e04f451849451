//go:build e2e

package nspawn

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/grafana"
	"spore/wire/machine"
)

// metricsAreKept asks the store, as an operator does, for what nodes and their brokers say of themselves. Two of the
// three have lost power since the store began.
func (b *brokers) metricsAreKept(t *testing.T) {
	require.Eventually(t, func() bool {
		up := b.metrics(t, "up{job=\"node\"}")
		return up["kafka-1"] == "1" && up["kafka-2"] == "1" && up["kafka-3"] == "1" && len(up) == 3
	}, 3*time.Minute, time.Second, "the store reaches all three")
	require.Eventually(t, func() bool {
		brokers := b.metrics(t, "kafka_brokers")
		return brokers["kafka-1"] == "3" && brokers["kafka-2"] == "3" && brokers["kafka-3"] == "3"
	}, 3*time.Minute, time.Second, "each broker knows three")
	kept := b.metrics(t, "count_over_time(up{job=\"node\"}[1h]) > bool 10")
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
		series, err := b.series(t, expr)
		for _, s := range series {
			found = append(found, s.Labels)
		}
		return found, err
	})
	require.Empty(t, silent)
}

// metrics is the value of a query now, by instance; nothing where the store does not answer.
func (b *brokers) metrics(t *testing.T, query string) map[string]string {
	series, err := b.series(t, query)
	if err != nil {
		return nil
	}
	values := map[string]string{}
	for _, s := range series {
		if len(s.Samples) == 1 {
			values[s.Labels["instance"]] = s.Samples[0].Value
		}
	}
	return values
}

// series are those of a query now.
func (b *brokers) series(t *testing.T, query string) ([]machine.Series, error) {
	out, said, ok := b.spore(t.Context(), "metrics", query, "--json")
	if !ok {
		return nil, errors.New(said)
	}
	var answers []struct{ Results [][]machine.Series }
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&answers); err != nil {
		return nil, err
	}
	var all []machine.Series
	for _, answer := range answers {
		for _, part := range answer.Results {
			all = append(all, part...)
		}
	}
	return all, nil
}
