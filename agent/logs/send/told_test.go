package send

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	row "spore/agent/metrics/family"
	"spore/agent/metrics/service"
	"spore/services/logs"
)

// TestTheCollectorKnowsAllCounters holds the table of the node's collector to what the sender writes.
func TestTheCollectorKnowsAllCounters(t *testing.T) {
	kinds := map[row.Type]string{row.Counter: "counter", row.Gauge: "gauge"}
	table := service.Table()[logs.Sender]
	require.Len(t, table, len(families))
	for _, f := range families {
		i := slices.IndexFunc(table, func(r row.Family) bool { return r.Name == f.name })
		require.GreaterOrEqual(t, i, 0, f.name)
		require.Equal(t, f.kind, kinds[table[i].Type], f.name)
	}
}
