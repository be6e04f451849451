package send

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Why the journal of a node does not have what was written.
const (
	lostGap    = "full"   // removed from a full journal before it was read
	lostRate   = "rate"   // a unit wrote more than journald takes of one
	lostKernel = "kernel" // the kernel's buffer was full
)

// family is a metric: name, type and help of the text format of Prometheus.
type family struct{ name, kind, help string }

var families = []family{
	{"spore_logs_sent_total", "counter", "Entries that were taken up for a store, by source."},
	{"spore_logs_acknowledged_total", "counter", "Entries that a store has on its disk, by source."},
	{"spore_logs_dropped_by_journal_total", "counter", "Entries that the journal of the node has lost: full, rate or kernel."},
	{"spore_logs_cut_total", "counter", "Entries of which something was cut, by source."},
	{"spore_logs_malformed_total", "counter", "Entries that a store called malformed or too large, and that were dropped."},
	{"spore_logs_unreadable_total", "counter", "Uploads that were not in the Journal Export Format."},
	{"spore_logs_lost_files_total", "counter", "Files of a source that went before they were read to their end."},
	{"spore_logs_lost_bytes_total", "counter", "Bytes of such files, as far as they are known."},
	{"spore_logs_malformed_lines_total", "counter", "Lines of a source's files that were left out because they are malformed."},
	{"spore_logs_duplicates_total", "counter", "Entries that journal-upload brought again, and that were left out."},
	{"spore_logs_refused_peers_total", "counter", "Connections of other programs than journal-upload."},
	{"spore_logs_sent_bytes_total", "counter", "Bytes of compressed entries that were sent."},
	{"spore_logs_batches_total", "counter", "Batches that were sent, by answer: taken, later or refused."},
	{"spore_logs_behind_seconds", "gauge", "Age of the oldest entry that a store has not acknowledged."},
	{"spore_logs_acknowledged_timestamp_seconds", "gauge", "When a store acknowledged something last."},
	{"spore_logs_store_reached", "gauge", "1 when the last batch was taken, 0 when it waits."},
}

// counters are values by family and labels, as they stand in the text.
type counters struct {
	mu     sync.Mutex
	values map[string]map[string]float64
}

func newCounters() *counters { return &counters{values: map[string]map[string]float64{}} }

func (c *counters) add(name, labels string, n float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(name)[labels] += n
}

func (c *counters) set(name, labels string, v float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(name)[labels] = v
}

func (c *counters) of(name string) map[string]float64 {
	if c.values[name] == nil {
		c.values[name] = map[string]float64{}
	}
	return c.values[name]
}

// text is all of them in the text format of Prometheus (0.0.4).
func (c *counters) text() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, f := range families {
		if len(c.values[f.name]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, labels := range slices.Sorted(maps.Keys(c.values[f.name])) {
			fmt.Fprintf(&b, "%s%s %g\n", f.name, labels, c.values[f.name][labels])
		}
	}
	return []byte(b.String())
}

// label writes labels as the text has them; values are names of nodes, sources and words of ours.
func label(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%q", pairs[i], pairs[i+1])
	}
	return "{" + b.String() + "}"
}
