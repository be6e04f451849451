package sockets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/service"
)

var (
	rows = []service.Program{
		{Name: "dns", Unit: "dns.service", Ports: []service.Port{{Protocol: "udp", First: 53, At: service.Node}}},
		{Name: "mqtt", Unit: "mqtt.service", Ports: []service.Port{{Protocol: "tcp", First: 8883}}},
		{Name: "kubelet", Unit: "kubelet.service", Ports: []service.Port{{Protocol: "tcp", First: 10248, At: service.Loopback}}},
		{Name: "osd", Unit: "osd@.service", Ports: []service.Port{{Protocol: "tcp", First: 6800, Last: 7568, At: service.Node}}},
		{Name: "calico-node", Unit: tunnels, Ports: []service.Port{{Protocol: "udp", First: 4789}}},
	}
	good = []Socket{
		at("udp", "10.0.0.1:53", "dns.service"), at("tcp", "[::]:8883", "mqtt.service"), at("tcp", "127.0.0.1:10248", "kubelet.service"),
		at("tcp", "10.0.0.1:6801", "osd@.service"), at("udp", "0.0.0.0:4789", Kernel), at("tcp", "10.0.0.1:7568", Unknown),
	}
)

func at(protocol, address, unit string) Socket {
	return Socket{protocol, netip.MustParseAddrPort(address), unit}
}

func TestWhatIsOfARow(t *testing.T) {
	require.Empty(t, Foreign(rows, good))
	for _, row := range rows {
		require.Empty(t, Silent(row, good))
	}
	// A row of every address also has what is on one of them.
	require.Empty(t, Foreign(rows, []Socket{at("tcp", "127.0.0.1:8883", "mqtt.service")}))
}

func TestWhatIsOfNoRow(t *testing.T) {
	for name, s := range map[string]Socket{
		"another port":                       at("tcp", "[::]:8884", "mqtt.service"),
		"another protocol":                   at("udp", "[::]:8883", "mqtt.service"),
		"another unit":                       at("tcp", "[::]:8883", "dns.service"),
		"every address, for the node's":      at("udp", "0.0.0.0:53", "dns.service"),
		"loopback, for the node's":           at("udp", "127.0.0.1:53", "dns.service"),
		"the node's, for loopback":           at("tcp", "10.0.0.1:10248", "kubelet.service"),
		"behind the range":                   at("tcp", "10.0.0.1:7569", "osd@.service"),
		"the kernel's, for a program's port": at("tcp", "[::]:8883", Kernel),
		"nobody knows whose, at no port":     at("tcp", "[::]:22", Unknown),
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, []Socket{s}, Foreign(rows, append([]Socket{s}, good...))) })
	}
}

func TestWhoIsSilent(t *testing.T) {
	require.Equal(t, []string{"mqtt: 8883/tcp"}, Silent(rows[1], []Socket{at("tcp", "[::]:8883", "dns.service")}))
	require.Equal(t, []string{"kubelet: 127.0.0.1:10248/tcp"}, Silent(rows[2], nil))
	require.Empty(t, Silent(rows[3], nil), "a range may be empty")
}

func TestWhatSSPrints(t *testing.T) {
	groups := map[string]string{
		"7": "0::/lab/edge-1/system.slice/mosquitto.service\n", "8": "12:cpu:/x\n0::/system.slice/system-osd.slice/osd@b.service/sub\n", "9": "0::/\n",
	}
	got, err := FromSS(`udp UNCONN 0 0 10.78.0.11%host0:68 0.0.0.0:* users:(("systemd-network",pid=9,fd=3))
udp UNCONN 0 0 [fe80::1%eth0]:546 [::]:*
udp UNCONN 0 0 0.0.0.0:4789 0.0.0.0:*
tcp LISTEN 0 100 *:8883 *:* users:(("mosquitto",pid=7,fd=5))
tcp LISTEN 0 100 [::ffff:10.0.0.1]:6800 *:* users:(("ceph-osd",pid=8,fd=5))
tcp LISTEN 0 100 0.0.0.0:1 0.0.0.0:* users:(("gone",pid=1,fd=5))
`, func(pid string) (string, error) {
		if g, ok := groups[pid]; ok {
			return g, nil
		}
		return "", errors.New("it has ended")
	})
	require.NoError(t, err)
	require.Equal(t, []Socket{
		at("udp", "10.78.0.11:68", Unknown), at("udp", "[fe80::1]:546", Kernel), at("udp", "0.0.0.0:4789", Kernel),
		at("tcp", "[::]:8883", "mosquitto.service"), at("tcp", "10.0.0.1:6800", "osd@.service"),
	}, got)
	for _, wrong := range []string{"tcp LISTEN\n", "tcp LISTEN 0 0 here:80 *:*\n"} {
		_, err := FromSS(wrong, nil)
		require.Error(t, err, wrong)
	}
}

// The tables are this process's own.
func TestTheKernelsTables(t *testing.T) {
	for _, tc := range []struct{ table, network, address string }{
		{"tcp", "tcp4", "127.0.0.1:0"}, {"tcp6", "tcp6", "[::1]:0"}, {"udp", "udp4", "127.0.0.1:0"}, {"udp6", "udp6", "[::1]:0"},
	} {
		var own net.Addr
		if tc.table[0] == 't' {
			l, err := net.Listen(tc.network, tc.address)
			require.NoError(t, err)
			defer l.Close()
			own = l.Addr()
		} else {
			l, err := net.ListenPacket(tc.network, tc.address)
			require.NoError(t, err)
			defer l.Close()
			own = l.LocalAddr()
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/self/net/%s", tc.table))
		require.NoError(t, err)
		got, err := FromKernel(tc.table, string(data))
		require.NoError(t, err)
		require.Contains(t, got, at(tc.table[:3], own.String(), Unknown))
	}
	for _, wrong := range []string{"1: 0100007F:0016\n", "1: 0100007:0016 00000000:0000 0A\n", "1: 0100007F:X 00000000:0000 0A\n"} {
		_, err := FromKernel("tcp", wrong)
		require.Error(t, err, wrong)
	}
	got, err := FromKernel("tcp", "  sl  local_address rem_address   st\n   0: 0100007F:0016 0100007F:D2F0 01\n")
	require.NoError(t, err)
	require.Empty(t, got, "a connection waits for nobody")
}
