package boot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/vm"
	"spore/cluster/facts"
	"spore/cluster/spec"
)

func TestTheNetworkMakesTheNodeKnown(t *testing.T) {
	c := &facts.Cluster{Network: spec.Network{NodeSubnets: []string{"fd00::/64", "10.1.2.0/24"}}}
	for _, tt := range []struct {
		name string
		node facts.Node
		want vm.NIC
	}{
		{"by its MAC", facts.Node{MACs: []string{"52:54:00:00:00:09"}, Hostname: "a", IPs: []string{"10.1.2.9"}, Roles: []string{"dns-server"}}, vm.NIC{
			MAC: "52:54:00:00:00:09", Hostname: "a", Net: "10.1.2.0/24", DHCPStart: "10.1.2.9",
			Forwards: []vm.Forward{{Protocol: "udp", Guest: "10.1.2.9:53"}, {Protocol: "tcp", Guest: "10.1.2.9:53"}},
		}},
		{"by its address", facts.Node{Hostname: "b", IPs: []string{"10.1.2.7"}}, vm.NIC{MAC: defaultMAC, Hostname: "b", Net: "10.1.2.0/24", DHCPStart: "10.1.2.7"}},
		{"by its host name", facts.Node{Hostname: "c"}, vm.NIC{MAC: defaultMAC, Hostname: "c", Net: "10.1.2.0/24"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := network(c, &tt.node)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	_, err := network(&facts.Cluster{Network: spec.Network{NodeSubnets: []string{"fd00::/64"}}}, &facts.Node{})
	require.ErrorContains(t, err, "IPv4 node subnet")
}

func TestCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c")
	require.NoError(t, os.WriteFile(file, []byte("secret=1"), 0o600))
	got, err := readCredentials([]string{"spore.bundle=" + file})
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"spore.bundle": []byte("secret=1")}, got)

	_, err = readCredentials([]string{"nothing"})
	require.Equal(t, exit.Misuse, exit.Code(err))
	_, err = readCredentials([]string{"a=" + file + ".not"})
	require.Equal(t, exit.Failed, exit.Code(err))
}
