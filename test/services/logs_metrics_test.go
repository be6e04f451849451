//go:build e2e

package services

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/service"
	"spore/agent/metrics/source"
	"spore/agent/paths"
	"spore/services/logs"
	"spore/services/logs/days"
)

// neverGiven are families of receivers, of whom this store has none.
var neverGiven = []string{
	"spore_logs_given_total", "spore_logs_give_filtered_total", "spore_logs_give_refused_total", "spore_logs_give_failures_total",
}

// The collector of a node reads what the store of logs, its keeper and the program before it tell, and the table has
// all of that.
func TestMetricsOfTheStoreOfLogs(t *testing.T) {
	s := newLogsStore(t)
	_, counters, end := s.limited(days.Limits{Days: 10}, plenty, time.Now)
	defer end()
	s.answers()
	k := newLogsTaker(t, s, t.TempDir(), 0)
	k.start()
	pack, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	batch := pack.EncodeAll(journalOf(0, 1, 100), nil)
	require.Eventually(t, func() bool {
		code, err := k.bring("node-0", batch)
		return err == nil && code == http.StatusNoContent
	}, 20*time.Second, 100*time.Millisecond)
	s.becomes("*", 100)

	root := paths.Root(t.TempDir())
	secret := root.At(filepath.Join(paths.Secrets, logs.Program, logs.PasswordEntry))
	require.NoError(t, os.MkdirAll(filepath.Dir(secret), 0o700))
	require.NoError(t, os.WriteFile(secret, []byte("swordfish"), 0o600))
	copied := map[string]string{}
	var endpoints []service.Endpoint
	for _, e := range service.Endpoints() {
		switch e.Program {
		case logs.Program:
			copied[counters] = root.At(e.File)
			e.URL = "http://" + s.address + "/metrics"
		case logs.Taker:
			copied[k.o.metrics()] = root.At(e.File)
		default:
			continue
		}
		endpoints = append(endpoints, e)
	}
	require.Len(t, endpoints, 2)
	var said []string
	sources := source.New(service.Sources(root, endpoints), time.Now, func(text string) { said = append(said, text) })
	var all []*dto.MetricFamily
	require.Eventually(t, func() bool {
		for from, to := range copied {
			data, err := os.ReadFile(from)
			if err != nil {
				return false
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
			require.NoError(t, os.WriteFile(to, data, 0o600))
		}
		var err error
		all, err = sources.Gather(t.Context(), ask.Question{Programs: []string{logs.Program, logs.Taker}})
		require.NoError(t, err)
		return value(all, "spore_logs_store_taken_total") == 100 && value(all, "spore_logs_store_partitions") == 1
	}, time.Minute, time.Second, "%v", said)
	var missing []string
	for _, program := range []string{logs.Program, logs.Taker} {
		for _, f := range service.Table()[program] {
			if !slices.Contains(neverGiven, f.Name) && value(all, f.Name) < 0 {
				missing = append(missing, program+" "+f.Name)
			}
		}
	}
	require.Empty(t, missing, "%v", said)
	require.EqualValues(t, 100, value(all, "vl_rows_ingested_total"))
	require.EqualValues(t, 2, value(all, "spore_source_up"), "%v", said)
	require.Zero(t, value(all, "spore_logs_store_read_only"))
	require.InDelta(t, logsAhead.Seconds(), value(all, logs.ClockAhead), 2, "the clock of the one node")
	require.Zero(t, value(all, "vl_storage_is_read_only"))
	lint(t, all)
}

// value is the sum of a family, -1 where there is none.
func value(all []*dto.MetricFamily, name string) float64 {
	sum := -1.0
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		sum = 0
		for _, m := range f.Metric {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return sum
}
