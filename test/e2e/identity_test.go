//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// isFoundByItsDHCPHostname makes sure that a machine is dns-01 by the name that DHCP gives it, and serves.
func isFoundByItsDHCPHostname(t *testing.T, g *guest, s vm.Status) {
	t.Helper()
	require.Equal(t, "dns-01", s.Node)
	require.Equal(t, "hostname", s.Matched.By)
	require.Equal(t, "dns-01", s.Matched.Value)
	require.Equal(t, 2, s.Matched.Phase)
	require.Equal(t, []string{"dns-server"}, s.Roles, "its own role and no other")
	require.NotContains(t, s.Services, "mosquitto.service")
	require.Empty(t, s.Held, "a DNS server needs no secret")
	require.Subset(t, s.Addresses, []string{dnsIP, dnsOwnIP}, "the lease's address, and its own of cluster.yaml")
	checkDNS(t, g, dnsIP)
	checkDNS(t, g, dnsOwnIP)
}

// requireNobodyListens makes sure that the kernel of a guest refused a connection: QEMU had accepted it, and cuts it
// off then. A guest that is silent, and a server that answers something else, are errors of another kind.
func requireNobodyListens(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.Regexp(t, `(EOF|connection reset by peer|broken pipe)$`, err.Error())
}
