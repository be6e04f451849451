package netboot

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/netboot/dhcp"
	"spore/builder/netboot/roster"
	"spore/cluster/facts"
	"spore/cluster/spec"
)

func TestTheAddressesOfNodes(t *testing.T) {
	subnet := netip.MustParsePrefix("10.77.0.0/24")
	lease := func(a string) dhcp.Lease { return dhcp.Lease{Address: netip.MustParseAddr(a), Hostname: "a"} }
	for _, tt := range []struct {
		name string
		node facts.Node
		want []dhcp.Fixed
	}{
		{"a card with its address", facts.Node{Hostname: "a", MACs: []string{"m1"}, IPs: []string{"10.77.0.5"}, Interfaces: []spec.Interface{{MAC: "m1", Addresses: []string{"10.77.0.5/24"}}}},
			[]dhcp.Fixed{{MACs: []string{"m1"}, Lease: lease("10.77.0.5")}}},
		{"each member of a bond", facts.Node{Hostname: "a", IPs: []string{"10.77.0.5"}, Interfaces: []spec.Interface{{Name: "bond0", Bond: &spec.Bond{Members: []string{"m1", "m2"}}, Addresses: []string{"fd00::5/64", "10.77.0.5/24"}}}},
			[]dhcp.Fixed{{MACs: []string{"m1", "m2"}, Lease: lease("10.77.0.5")}}},
		{"a card of another network has none here", facts.Node{Hostname: "a", MACs: []string{"m2"}, IPs: []string{"192.0.2.5"}, Interfaces: []spec.Interface{{MAC: "m2", Addresses: []string{"192.0.2.5/24"}}}}, nil},
		{"a machine that is known by its UUID", facts.Node{Hostname: "a", UUID: "u", IPs: []string{"10.77.0.6"}}, []dhcp.Fixed{{UUID: "u", Lease: lease("10.77.0.6")}}},
		{"one that is known by its address alone", facts.Node{Hostname: "a", IPs: []string{"10.77.0.6"}}, nil},
		{"one with DHCP", facts.Node{Hostname: "a", MACs: []string{"m1"}, IPs: []string{"10.77.0.6"}, Interfaces: []spec.Interface{{MAC: "m1", DHCP: true}}}, []dhcp.Fixed{{MACs: []string{"m1"}, Lease: lease("10.77.0.6")}}},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, nodeAddresses(&tt.node, subnet)) })
	}
}

func TestAnIsolatedNetworkIsTheNodes(t *testing.T) {
	n := &roster.Nodes{Cluster: facts.Cluster{Domain: "plant.example", Network: spec.Network{
		NodeSubnets: []string{"10.77.0.0/24"}, Gateways: []string{"10.77.0.1"}, Nameservers: []string{"10.77.0.3", "fd00::3"}, NTPServers: []string{"ntp.example", "10.77.0.1"}, ControlPlaneEndpoint: "10.77.0.254",
	}}, All: []*facts.Node{{Name: "a", Hostname: "a", IPs: []string{"10.77.0.253"}}}}
	eth1 := Card{Name: "eth1", Prefix: netip.MustParsePrefix("10.77.0.252/24")}
	got, leases, err := network(n, eth1, netip.Addr{}, netip.Addr{}, time.Now)
	require.NoError(t, err)
	require.Equal(t, dhcp.Network{
		Subnet: netip.MustParsePrefix("10.77.0.0/24"), Domain: "plant.example", Routers: []netip.Addr{netip.MustParseAddr("10.77.0.1")},
		DNS: []netip.Addr{netip.MustParseAddr("10.77.0.3"), netip.MustParseAddr("fd00::3")}, NTP: []netip.Addr{netip.MustParseAddr("10.77.0.1")},
	}, got)
	require.NotNil(t, leases)

	_, _, err = network(n, Card{Name: "eth0", Prefix: netip.MustParsePrefix("192.0.2.7/24")}, netip.Addr{}, netip.Addr{}, time.Now)
	require.ErrorContains(t, err, "give the interface an address of that network")
	_, _, err = network(n, eth1, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.9"), time.Now)
	require.ErrorContains(t, err, "does not lie in the network 10.77.0.0/24")
}
