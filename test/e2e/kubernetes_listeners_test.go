//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services"
	"spore/test/sockets"
)

// listensWhereItsRowsSay holds both nodes against the table of package services: no socket is without a row, and
// everything of Kubernetes listens at each port that its row says.
func (l *lab) listensWhereItsRowsSay(t *testing.T) {
	for i := range l.nodes {
		node := &l.nodes[i]
		pod, ok := map[string]string{masterName: lookMaster, workerName: lookWorker}[node.Name]
		if !ok {
			continue
		}
		var open []sockets.Socket
		for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
			text, err := l.in(pod, "cat", "/proc/1/net/"+table) // of the node's systemd: the pod has its processes
			require.NoError(t, err)
			some, err := sockets.FromKernel(table, text)
			require.NoError(t, err)
			open = append(open, some...)
		}
		t.Logf("%s listens at %v", node.Name, open)
		rows := services.Listening(&l.shared, node)
		require.Empty(t, sockets.Foreign(rows, open), "sockets of %s that are of no row of package services", node.Name)
		for _, row := range rows {
			if row.Name != services.DHCPClient {
				require.Empty(t, sockets.Silent(row, open), "ports of rows at which %s does not listen", node.Name)
			}
		}
	}
}
