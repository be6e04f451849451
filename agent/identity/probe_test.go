package identity

import (
	"context"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/arp"
	"spore/agent/netnstest"
	"spore/agent/network"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/cluster/facts"
	"spore/cluster/spec"
)

// onABond is a node with its addresses on a bond.
var onABond = &facts.Node{Name: "metal-01", Interfaces: []spec.Interface{{
	Name: "bond0", Addresses: []string{"10.77.0.21/24", "10.77.0.3/24"}, Bond: &spec.Bond{Members: []string{"02:00:00:00:00:09"}},
}}}

func networkFile(t *testing.T, m *node.Machine) string {
	data, err := os.ReadFile(m.Root.At(network.Dir + "/10-spore-bond0.network"))
	require.NoError(t, err)
	return string(data)
}

func TestAnAddressOfABondThatAnotherMachineHasIsReportedAndUsedOnceItIsFree(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		// What stands for the bond is a veth: it has a name that it was made with, and a carrier.
		netnstest.Veth(t, "bond0", "02:00:00:00:00:01", "far0", "02:00:00:00:00:02")
		netnstest.Address(t, "far0", "10.77.0.3/24")
		m, _ := nodetest.New(t, 1)
		c, err := m.Part.Cluster()
		require.NoError(t, err)
		ctx := context.Background()
		taken := arp.Used{IP: staticIP(t, "10.77.0.3"), MAC: "02:00:00:00:00:02", Card: "02:00:00:00:00:01"}

		require.NoError(t, ProbeMade(ctx, m, c, onABond))
		require.Equal(t, []arp.Used{taken}, Conflicts(m))
		require.Equal(t, []netip.Addr{staticIP(t, "10.77.0.21")}, ExpectedAddresses(m, onABond), "nobody waits for it")
		require.NotContains(t, networkFile(t, m), "10.77.0.3/24")

		freed, err := ProbeTaken(ctx, m, c, onABond)
		require.NoError(t, err)
		require.False(t, freed)
		require.Equal(t, []arp.Used{taken}, Conflicts(m))

		far, err := netlink.LinkByName("far0")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetDown(far))
		freed, err = ProbeTaken(ctx, m, c, onABond)
		require.NoError(t, err)
		require.False(t, freed, "without a cable nobody can say that it is free")
		require.Equal(t, []arp.Used{taken}, Conflicts(m))

		require.NoError(t, netlink.LinkSetUp(far))
		address, err := netlink.ParseAddr("10.77.0.3/24")
		require.NoError(t, err)
		require.NoError(t, netlink.AddrDel(far, address))
		freed, err = ProbeTaken(ctx, m, c, onABond)
		require.NoError(t, err)
		require.True(t, freed)
		require.Empty(t, Conflicts(m))
		require.Contains(t, networkFile(t, m), "10.77.0.3/24")
	})
}

func TestAddressesThatABondHasAreNotProbed(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		netnstest.Veth(t, "bond0", "02:00:00:00:00:01", "far0", "02:00:00:00:00:02")
		netnstest.Address(t, "bond0", "10.77.0.21/24")
		netnstest.Address(t, "bond0", "10.77.0.3/24")
		m, _ := nodetest.New(t, 1)
		c, err := m.Part.Cluster()
		require.NoError(t, err)
		require.NoError(t, ProbeMade(context.Background(), m, c, onABond))
		require.Empty(t, Conflicts(m))
		require.NoFileExists(t, m.Root.At(network.Dir+"/10-spore-bond0.network"), "nothing was written")
	})
}
