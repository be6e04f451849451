package serve

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"spore/services/metrics/bridge"
)

// metricsPath is where the node's collector asks how many messages there were.
const metricsPath = "/metrics"

// count is how many messages for a path there were, and how many of them did not arrive.
type count struct{ all, failed uint64 }

func (b *Bridge) counted(path string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.counts[path]
	c.all++
	if err != nil {
		c.failed++
	}
}

// metrics answers with the counts in the text format of Prometheus (0.0.4).
func (b *Bridge) metrics(w http.ResponseWriter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all, failed strings.Builder
	for _, path := range slices.Sorted(maps.Keys(b.counts)) {
		// Names of receivers have nothing that a label would have to quote (package metrics).
		name := strings.TrimPrefix(strings.TrimPrefix(path, bridge.ReceiverPath), "/")
		fmt.Fprintf(&all, "spore_alerts_messages_total{receiver=%q} %d\n", name, b.counts[path].all)
		fmt.Fprintf(&failed, "spore_alerts_messages_failed_total{receiver=%q} %d\n", name, b.counts[path].failed)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "# TYPE spore_alerts_messages_total counter\n%s# TYPE spore_alerts_messages_failed_total counter\n%s",
		all.String(), failed.String())
}
