//go:build e2e

package nspawn

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// reachable bounds how long after its start a node may seem to be away: whoever asked for a machine while it had no power is told
// for some seconds more that there is no way to it (EHOSTUNREACH of ARP).
const reachable = 30 * time.Second

// silent watches a node for a while. It must make no such directory, and its kernel must say that nobody listens at the port.
func (n *Node) silent(long time.Duration, dir, port string) {
	t := n.lab.t
	t.Helper()
	refused, began := false, time.Now()
	for ; time.Since(began) < long || !refused; time.Sleep(time.Second) {
		require.NoDirExists(t, dir, "it made a quorum of its own")
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(n.IP(), port), time.Second)
		if err == nil {
			conn.Close()
			require.FailNow(t, n.Facts.Name+" serves at port "+port)
		}
		refused = refused || errors.Is(err, syscall.ECONNREFUSED)
		require.Less(t, time.Since(began), long+reachable, "the last error of %s: %v", n.Facts.Name, err)
	}
}
