package netboot

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func card(name, prefix string) Card {
	return Card{Name: name, Prefix: netip.MustParsePrefix(prefix), loopback: name == "lo"}
}

func TestTheInterfaceThatMachinesAreAt(t *testing.T) {
	lo, lan, plant, second := card("lo", "127.0.0.1/8"), card("eth0", "192.0.2.7/24"), card("eth1", "10.77.0.2/24"), card("eth2", "10.77.0.3/24")
	subnets := []string{"fd00::/64", "10.77.0.0/24"}
	for _, tt := range []struct {
		name  string
		cards []Card
		named string
		want  string
		err   string
	}{
		{"the one in the nodes' network", []Card{lo, lan, plant}, "", "eth1", ""},
		{"the only one, wherever it is", []Card{lo, lan}, "", "eth0", ""},
		{"the named one", []Card{lo, lan, plant}, "eth0", "eth0", ""},
		{"the one with the address", []Card{lo, lan, plant}, "192.0.2.7", "eth0", ""},
		{"the loopback when it is named", []Card{lo, lan}, "127.0.0.1", "lo", ""},
		{"of two addresses the one in the nodes' network", []Card{lan, card("eth0", "10.77.0.9/24")}, "eth0", "10.77.0.9", ""},
		{"two in the nodes' network", []Card{plant, second}, "", "", "eth1 (10.77.0.2/24), eth2 (10.77.0.3/24) are all in the nodes' network; name one with --interface"},
		{"two elsewhere", []Card{lan, card("wlan0", "198.51.100.1/24")}, "", "", "none of eth0 (192.0.2.7/24), wlan0 (198.51.100.1/24) is in the nodes' network"},
		{"one that is not there", []Card{lo, lan}, "eth9", "", "eth9 is neither an interface that is up"},
		{"none", []Card{lo}, "", "", "no IPv4 address but its loopback's"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Choose(tt.cards, tt.named, subnets)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Contains(t, []string{got.Name, got.Prefix.Addr().String()}, tt.want)
		})
	}
}
