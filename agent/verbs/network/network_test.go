package network

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/netnstest"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/verbs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// lldp is what systemd-networkd answers.
const lldp = `{"parameters":{"Neighbors":[{"InterfaceIndex":2,"InterfaceName":"eth0","Neighbors":[{"ChassisID":"52:54:00:aa:bb:cc",` +
	`"RawChassisID":[4,82],"PortID":"Gi1/0/7","RawPortID":[5],"PortDescription":"rack 3","SystemName":"switch-1","SystemDescription":"a switch",` +
	`"EnabledCapabilities":4,"VlanID":12}]}]}}`

func put(t *testing.T, m *node.Machine, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(name)), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At(name), []byte(text), 0o644))
}

// networkdSays answers one call on networkd's socket.
func networkdSays(t *testing.T, m *node.Machine, text string) {
	t.Helper()
	// The name of a socket has room for 107 bytes.
	dir, err := os.MkdirTemp("", "lldp")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := m.Root.At(networkd)
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(t, os.Symlink(dir+"/s", at))
	l, err := net.Listen("unix", dir+"/s")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		asked, _ := bufio.NewReader(c).ReadString(0)
		if strings.Contains(asked, `"io.systemd.Network.GetLLDPNeighbors"`) {
			_, _ = io.WriteString(c, text)
		}
	}()
}

func show(t *testing.T, m *node.Machine) (out machine.Network, done string) {
	t.Helper()
	call, err := json.Marshal(verbs.Call{Verb: "net", Caller: "anna", Roles: []nodeapi.Role{nodeapi.Reader}})
	require.NoError(t, err)
	in, stay := io.Pipe()
	defer stay.Close()
	go func() { _, _ = stay.Write(append(call, '\n')) }()
	var text strings.Builder
	require.NoError(t, verbs.Serve(t.Context(), m, nodeapi.Looks, map[string]verbs.Handler{"net": Show}, in, &text))
	done, err = nodeapi.ReadEvents(strings.NewReader(text.String()), func(e nodeapi.Event) error { return json.Unmarshal(e.Result, &out) })
	require.NoError(t, err)
	return out, done
}

func TestHowAMachineIsConnected(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		netnstest.Veth(t, "near", "02:00:00:00:00:01", "far", "02:00:00:00:00:02")
		netnstest.Address(t, "near", "10.77.0.1/24")
		netnstest.Address(t, "near", "2001:db8::1/64")
		near, err := netlink.LinkByName("near")
		require.NoError(t, err)
		require.NoError(t, netlink.RouteAdd(&netlink.Route{LinkIndex: near.Attrs().Index, Gw: net.IPv4(10, 77, 0, 2), Priority: 100}))
		hw, _ := net.ParseMAC("02:00:00:00:00:09")
		require.NoError(t, netlink.NeighAdd(&netlink.Neigh{LinkIndex: near.Attrs().Index, IP: net.IPv4(10, 77, 0, 9), HardwareAddr: hw, State: netlink.NUD_PERMANENT}))
		m, _ := nodetest.New(t, 1)
		nodetest.Is(t, m, "node-00000")
		put(t, m, "/etc/resolv.conf", "search plant.example\nnameserver 10.77.0.53\n")
		put(t, m, "/sys/class/net/near/speed", "10000\n")
		put(t, m, "/sys/class/net/near/duplex", "full\n")
		put(t, m, "/sys/class/net/near/carrier_changes", "3\n")
		put(t, m, "/sys/class/net/far/speed", "-1\n")
		networkdSays(t, m, lldp+"\x00")
		out, done := show(t, m)
		require.Contains(t, done, "3 interfaces, ")
		require.Contains(t, done, "1 neighbours, 1 that speak LLDP")
		require.Empty(t, out.Warning)
		link := map[string]machine.Link{}
		for _, l := range out.Links {
			link[l.Name] = l
		}
		got := link["near"]
		require.Equal(t, "veth", got.Kind)
		require.Equal(t, "02:00:00:00:00:01", got.MAC)
		require.True(t, got.Up && got.Carrier)
		require.Equal(t, 10000, got.Speed)
		require.Equal(t, "full", got.Duplex)
		require.EqualValues(t, 3, got.Counters.CarrierChanges)
		require.Contains(t, got.Addresses, "10.77.0.1/24")
		require.Contains(t, got.Addresses, "2001:db8::1/64")
		require.Zero(t, link["far"].Speed, "it is not known")
		require.False(t, link["lo"].Up)
		require.Contains(t, out.Routes, machine.Route{To: "0.0.0.0/0", Via: "10.77.0.2", Link: "near", Metric: 100, Kind: "unicast", Protocol: "boot"})
		require.Contains(t, out.Routes, machine.Route{To: "10.77.0.0/24", Link: "near", Source: "10.77.0.1", Kind: "unicast", Protocol: "kernel"})
		require.Equal(t, []machine.Neighbour{{IP: "10.77.0.9", MAC: "02:00:00:00:00:09", Link: "near", State: "permanent"}}, out.Neighbours)
		require.Equal(t, []machine.Station{{Link: "eth0", Name: "switch-1", About: "a switch", Chassis: "52:54:00:aa:bb:cc", Port: "Gi1/0/7", PortIs: "rack 3", VLAN: 12}}, out.LLDP)
		require.Equal(t, []string{"10.77.0.53"}, out.DNS)
		require.Equal(t, []string{"plant.example"}, out.Search)
	})
}

func TestWhatIsMadeOfCards(t *testing.T) {
	names := map[int]string{2: "eth0", 3: "eth1", 5: "bond0"}
	m, _ := nodetest.New(t, 1)
	bond := netlink.NewLinkBond(netlink.LinkAttrs{Index: 5, Name: "bond0"})
	bond.Mode, bond.ActiveSlave = netlink.BOND_MODE_ACTIVE_BACKUP, 3
	got := describeOne(m.Root, bond, names)
	require.Equal(t, "active-backup", got.Mode)
	require.Equal(t, "eth1", got.Active)
	got = describeOne(m.Root, &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 3, Name: "eth1", MasterIndex: 5}}, names)
	require.Equal(t, "bond0", got.Master)
	require.Equal(t, "device", got.Kind)
	got = describeOne(m.Root, &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Index: 6, Name: "v12", ParentIndex: 5}, VlanId: 12}, names)
	require.Equal(t, machine.Link{Index: 6, Name: "v12", Kind: "vlan", Parent: "bond0", VLAN: 12}, got)
}

func TestWithoutNetworkdTheRestIsShown(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	out, _ := show(t, m)
	require.Contains(t, out.Warning, "ask systemd-networkd for LLDP neighbours: ")
	require.NotEmpty(t, out.Links)
	for answer, want := range map[string]string{
		"":                                       "cut off",
		lldp:                                     "cut off",
		"no JSON\x00":                            "malformed",
		`{"error":"io.systemd.Broken"}` + "\x00": "io.systemd.Broken",
		strings.Repeat(" ", maxLLDP+1):           "cut off or is too large",
	} {
		m, _ := nodetest.New(t, 1)
		networkdSays(t, m, answer)
		_, err := stations(t.Context(), m.Root)
		require.ErrorContains(t, err, want)
	}
}

func TestDNSServersAreThoseOfResolvConf(t *testing.T) {
	servers, search := parseResolver("# a comment\nnameserver 10.0.0.1\nnameserver nonsense\nnameserver 2001:db8::53\nnameserver\nsearch a b\nsearch c\n")
	require.Equal(t, []string{"10.0.0.1", "2001:db8::53"}, servers)
	require.Equal(t, []string{"c"}, search)
	servers, _ = parseResolver(strings.Repeat("nameserver 10.0.0.1\n", 100))
	require.Len(t, servers, maxServers)
}

func FuzzParseLLDP(f *testing.F) {
	f.Add([]byte(lldp))
	f.Add([]byte(`{"error":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := parseLLDP(data)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(out), maxStations)
		for _, s := range out {
			require.LessOrEqual(t, len(s.About), 512)
		}
		parseResolver(string(data))
	})
}
