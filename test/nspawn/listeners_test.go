//go:build e2e

package nspawn

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services"
	"spore/services/service"
	"spore/test/sockets"
)

// listenWhereTheirRowsSay holds the nodes that run against the table of package services: no socket is without a row,
// and whoever is up listens at each port that its row says.
func (l *Lab) listenWhereTheirRowsSay(t *testing.T) {
	t.Helper()
	for _, n := range l.Nodes() {
		if !n.Up() {
			continue
		}
		rows := services.Listening(&l.Cluster, &n.Facts)
		var open []sockets.Socket
		var missing []string
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
			open = n.sockets(t)
			missing = n.unheard(rows, open)
			if len(missing) == 0 || time.Now().After(end) {
				break
			}
		}
		t.Logf("%s listens at %v", n.Facts.Name, open)
		require.Empty(t, missing, "ports of rows at which %s does not listen", n.Facts.Name)
		require.Empty(t, sockets.Foreign(rows, open), "sockets of %s that are of no row of package services", n.Facts.Name)
	}
}

// sockets are those of the node that wait for anybody.
func (n *Node) sockets(t *testing.T) []sockets.Socket {
	t.Helper()
	leader, err := n.leader()
	require.NoError(t, err)
	// The host's ss, since the image has none. It finds the processes, which are in a namespace below this one.
	text, err := exec.Command("nsenter", "-t", leader, "-n", "--", "ss", "-H", "-lntup").Output()
	require.NoError(t, err)
	out, err := sockets.FromSS(string(text), func(pid string) (string, error) {
		group, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
		return string(group), err
	})
	require.NoError(t, err)
	return out
}

// unheard are the ports of units that are up at which nobody listens. The system asks for time and addresses only in
// networks that it is not in here.
func (n *Node) unheard(rows []service.Program, open []sockets.Socket) []string {
	var out []string
	for _, row := range rows {
		if row.Name == services.DHCPClient {
			continue
		}
		if _, err := n.Exec("systemctl", "is-active", "--quiet", row.Unit); err == nil {
			out = append(out, sockets.Silent(row, open)...)
		}
	}
	return out
}
