package give

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Metrics are counts by the name of the receiver, in the text format of Prometheus (exposition formats).
func Metrics(counts map[string]Counts) []byte {
	var b strings.Builder
	for _, m := range []struct {
		name, kind, help string
		value            func(Counts) string
	}{
		{"given_total", "counter", "Entries that a receiver has.", func(c Counts) string { return fmt.Sprint(c.Given) }},
		{"give_filtered_total", "counter", "Entries that a receiver does not want.",
			func(c Counts) string { return fmt.Sprint(c.Filtered) }},
		{"give_refused_total", "counter", "Entries that a receiver refused for ever.",
			func(c Counts) string { return fmt.Sprint(c.Refused) }},
		{"give_dropped_total", "counter", "Entries that went from the full queue before a receiver had them.",
			func(c Counts) string { return fmt.Sprint(c.Dropped) }},
		{"give_failures_total", "counter", "How often a receiver was away or took nothing.",
			func(c Counts) string { return fmt.Sprint(c.Failures) }},
		{"give_behind_seconds", "gauge", "Age of the oldest entry that waits for a receiver; 0 when none waits.",
			func(c Counts) string { return fmt.Sprintf("%.3f", c.Behind.Seconds()) }},
	} {
		if len(counts) == 0 {
			break
		}
		fmt.Fprintf(&b, "# HELP spore_logs_%s %s\n# TYPE spore_logs_%s %s\n", m.name, m.help, m.name, m.kind)
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "spore_logs_%s{receiver=%q} %s\n", m.name, name, m.value(counts[name]))
		}
	}
	return []byte(b.String())
}
