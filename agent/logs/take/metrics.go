package take

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"spore/services/logs"
)

// clockHolds is for how long it is told what the clock of a node was that is silent since.
const clockHolds = 10 * time.Minute

// Metrics are the counts of each node, in the text format of Prometheus.
func (t *Taker) Metrics() []byte {
	t.mu.Lock()
	of, ahead := map[string]counts{}, map[string]float64{}
	now := t.o.Now()
	for name, n := range t.nodes {
		of[name] = n.counts
		if !n.heard.IsZero() && now.Sub(n.heard).Abs() < clockHolds {
			ahead[name] = n.ahead.Seconds()
		}
	}
	t.mu.Unlock()
	var b strings.Builder
	for _, m := range []struct {
		name, help string
		value      func(counts) int64
	}{
		{"taken_total", "Entries of a node that the store has taken.", func(c counts) int64 { return c.lines }},
		{"taken_bytes_total", "Bytes of those entries, as lines of JSON.", func(c counts) int64 { return c.bytes }},
		{"duplicates_total", "Entries of a node that came again and were left out.",
			func(c counts) int64 { return c.twice }},
		{"malformed_total", "Batches and entries of a node that could not be read.",
			func(c counts) int64 { return c.malformed }},
		{"clamped_total", "Entries of a node whose time is too far from that of the store.",
			func(c counts) int64 { return c.clamped }},
		{"taken_cut_total", "Entries of a node of which something was cut off.", func(c counts) int64 { return c.cut }},
		{"refused_total", "Batches of a node that were refused; it keeps those that it may send again.",
			func(c counts) int64 { return c.refused }},
	} {
		name := "spore_logs_store_" + m.name
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s counter\n", name, m.help, name)
		for _, node := range slices.Sorted(maps.Keys(of)) {
			fmt.Fprintf(&b, "%s{node=%q} %d\n", name, node, m.value(of[node]))
		}
	}
	fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s gauge\n", logs.ClockAhead,
		"By how many seconds a node's clock is ahead of the store's, to the second; negative where it is behind.")
	for _, node := range slices.Sorted(maps.Keys(ahead)) {
		fmt.Fprintf(&b, "%s{node=%q} %g\n", logs.ClockAhead, node, ahead[node])
	}
	return []byte(b.String())
}
