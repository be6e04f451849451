package network

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
)

func TestANodeKnownByItsLeaseTakesItsOwnAddressesToo(t *testing.T) {
	c := &facts.Cluster{Network: spec.Network{NodeSubnets: []string{"10.77.0.0/24", "fd00::/64"}}}
	const one, two = "52:54:00:00:00:01", "52:54:00:00:00:02"
	cards := []string{one, two}
	for _, tt := range []struct {
		name   string
		node   facts.Node
		leased string
		given  []string
		want   []spec.Interface
	}{
		{"known by its host name", facts.Node{IPs: []string{"10.77.0.13", "fd00::13"}}, two, []string{"10.77.0.140"}, []spec.Interface{
			{MAC: one, DHCP: true}, {MAC: two, DHCP: true, Addresses: []string{"10.77.0.13/24", "fd00::13/64"}},
		}},
		{"DHCP gave the address", facts.Node{IPs: []string{"10.77.0.13"}}, two, []string{"10.77.0.13"}, nil},
		{"no address of its own", facts.Node{}, two, []string{"10.77.0.140"}, nil},
		{"not known by a lease", facts.Node{IPs: []string{"10.77.0.13"}}, "", nil, nil},
		{"its interfaces are described", facts.Node{IPs: []string{"10.77.0.13"}, Interfaces: []spec.Interface{{MAC: one}}}, two, nil, []spec.Interface{{MAC: one}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, Complete(c, &tt.node, tt.leased, cards, tt.given).Interfaces)
		})
	}
}

func TestTheNetworkOfAHypervisorIsForANodeThatHasNone(t *testing.T) {
	given := []spec.Interface{{MAC: "52:54:00:00:00:01", Addresses: []string{"10.77.0.14/24"}}}
	own := []spec.Interface{{MAC: "52:54:00:00:00:02", DHCP: true}}
	without, with := facts.Node{Name: "a"}, facts.Node{Name: "b", Interfaces: own}
	require.Equal(t, given, Given(&without, given).Interfaces)
	require.Empty(t, without.Interfaces, "the configuration's node is not changed")
	require.Equal(t, own, Given(&with, given).Interfaces)
	require.Empty(t, Given(&without, nil).Interfaces)
}
