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
		name, help string
		value      func(Counts) uint64
	}{
		{"given_total", "Entries that a receiver has.", func(c Counts) uint64 { return c.Given }},
		{"give_filtered_total", "Entries that a receiver does not want.",
			func(c Counts) uint64 { return c.Filtered }},
		{"give_refused_total", "Entries that a receiver refused for ever.",
			func(c Counts) uint64 { return c.Refused }},
		{"give_failures_total", "How often a receiver was away or took nothing.",
			func(c Counts) uint64 { return c.Failures }},
	} {
		if len(counts) == 0 {
			break
		}
		fmt.Fprintf(&b, "# HELP spore_logs_%s %s\n# TYPE spore_logs_%s counter\n", m.name, m.help, m.name)
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "spore_logs_%s{receiver=%q} %d\n", m.name, name, m.value(counts[name]))
		}
	}
	return []byte(b.String())
}
