package announce

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/arp"
	"spore/agent/netnstest"
)

var (
	mac  = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	four = netip.MustParseAddr("10.77.0.100")
	six  = netip.MustParseAddr("fd00:77::100")
)

func TestAGratuitousARPIsOneToTheAgentsOwnParser(t *testing.T) {
	frames, err := Frames(mac, four)
	require.NoError(t, err)
	require.Len(t, frames, 2)
	for i, op := range []uint16{arp.Request, arp.Reply} {
		p, err := arp.Parse(frames[i])
		require.NoError(t, err)
		require.Equal(t, op, p.Op)
		require.Equal(t, [6]byte(mac), p.SenderMAC)
		require.Equal(t, four, p.SenderIP)
		require.Equal(t, four, p.TargetIP)
		require.Len(t, frames[i], 60)
		require.Equal(t, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, frames[i][:6])
	}
}

func TestANeighbourAdvertisementIsAsTheRFCSays(t *testing.T) {
	frames, err := Frames(mac, six)
	require.NoError(t, err)
	require.Len(t, frames, 1)
	p := gopacket.NewPacket(frames[0], layers.LayerTypeEthernet, gopacket.Default)
	require.Nil(t, p.ErrorLayer())
	ip := p.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
	require.EqualValues(t, 255, ip.HopLimit, "others drop it otherwise (RFC 4861, section 7.1.2)")
	require.Equal(t, "ff02::1", ip.DstIP.String())
	na := p.Layer(layers.LayerTypeICMPv6NeighborAdvertisement).(*layers.ICMPv6NeighborAdvertisement)
	require.True(t, na.Override())
	require.False(t, na.Solicited())
	require.False(t, na.Router())
	require.Equal(t, six.String(), na.TargetAddress.String())
}

func TestOnlyEthernetIsAnnouncedOn(t *testing.T) {
	_, err := Frames(net.HardwareAddr{1, 2, 3}, four)
	require.ErrorContains(t, err, "is no Ethernet address")
	require.Error(t, Send(1, nil, four))
}

// The kernel at the other end is the judge: it knows the address with another MAC, and is to send to the new one.
func TestAKernelThatKnewTheAddressElsewhereLearnsIt(t *testing.T) {
	for _, ip := range []netip.Addr{four, six} {
		t.Run(ip.String()[:2], func(t *testing.T) {
			netnstest.Run(t, func(t *testing.T) {
				index, far := netnstest.Veth(t, "host0", mac.String(), "far0", "02:00:00:00:00:02")
				old := net.HardwareAddr{2, 0, 0, 0, 0, 9}
				require.NoError(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: far, State: netlink.NUD_REACHABLE, IP: ip.AsSlice(), HardwareAddr: old}))
				require.Equal(t, old.String(), neighbour(t, far, ip))
				// IPv6 drops what comes from an address without a route back, and IPv4 what comes where it has no address.
				netnstest.Address(t, "far0", map[bool]string{true: "10.77.0.2/24", false: "fd00:77::2/64"}[ip.Is4()])
				require.Eventually(t, func() bool {
					require.NoError(t, Send(index, mac, ip))
					return neighbour(t, far, ip) == mac.String()
				}, 5*time.Second, 100*time.Millisecond)
			})
		})
	}
}

func neighbour(t *testing.T, index int, ip netip.Addr) string {
	t.Helper()
	list, err := netlink.NeighList(index, netlink.FAMILY_ALL)
	require.NoError(t, err)
	for _, n := range list {
		if n.IP.Equal(ip.AsSlice()) {
			return n.HardwareAddr.String()
		}
	}
	return ""
}
