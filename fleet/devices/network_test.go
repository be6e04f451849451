package devices

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/machine"
)

func TestHowANodeIsConnectedIsShown(t *testing.T) {
	data, err := json.Marshal(machine.Network{
		Links: []machine.Link{
			{Name: "lo", Kind: "device", Up: true, Carrier: true, MTU: 65536, Addresses: []string{"127.0.0.1/8"}},
			{Name: "eth0", Kind: "device", MAC: "02:00:00:00:00:01", Permanent: "02:00:00:00:00:09", Up: true, MTU: 1500, Speed: 1000, Duplex: "full", Master: "bond0"},
			{Name: "bond0", Kind: "bond", Mode: "active-backup", Active: "eth1", Up: true, Carrier: true, MTU: 1500, Counters: machine.Counters{ReceivedBytes: 2048, SentDropped: 3}},
			{Name: "v12", Kind: "vlan", VLAN: 12, Parent: "bond0", MTU: 1500},
		},
		Routes:     []machine.Route{{To: "0.0.0.0/0", Via: "10.77.0.1", Link: "bond0", Kind: "unicast", Protocol: "dhcp", Metric: 100}},
		Neighbours: []machine.Neighbour{{IP: "10.77.0.1", MAC: "02:00:00:00:00:02", Link: "bond0", State: "reachable"}},
		LLDP:       []machine.Station{{Link: "eth0", Name: "switch\x1b[2J", Port: "Gi1/0/7", Chassis: "aa:bb"}},
		DNS:        []string{"10.77.0.53"}, Left: 2,
	})
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, ShowNetwork(&out, "edge-01", []json.RawMessage{data}))
	text := out.String()
	for _, want := range []string{
		"02:00:00:00:00:01 (card 02:00:00:00:00:09)", "no carrier", "1000 Mbit/s full", "bond active-backup", "uses eth1", "vlan 12", "on bond0",
		"2.0 KiB", `switch\x1b[2J`, "DNS servers: 10.77.0.53", "2 more rows were left out", "reachable", "dhcp",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "\x1b")
	out.Reset()
	require.NoError(t, ShowNetwork(&out, "edge-01", []json.RawMessage{[]byte(`{"warning":"networkd does not run"}`)}))
	require.Contains(t, out.String(), "LLDP: networkd does not run\nDNS servers: none\n")
	require.ErrorContains(t, ShowNetwork(&out, "edge-01", []json.RawMessage{[]byte(`1`)}), "malformed")
}
