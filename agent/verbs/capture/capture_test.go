package capture

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spore/agent/arp"
	"spore/agent/netnstest"
	"spore/agent/nodetest"
	"spore/agent/verbs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
	"spore/wire/pcapfilter"
)

// capture asks for packets as a caller does, and calls traffic once the capture has begun.
func capture(t *testing.T, o nodeapi.Order, traffic func()) (parts []machine.Captured, done string, err error) {
	t.Helper()
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	call, err := json.Marshal(verbs.Call{Verb: "capture", Order: o, Caller: "anna", Roles: []nodeapi.Role{nodeapi.Operator}})
	require.NoError(t, err)
	in, stay := io.Pipe()
	defer stay.Close()
	go func() { _, _ = stay.Write(append(call, '\n')) }()
	out, answer := io.Pipe()
	go func() {
		_ = verbs.Serve(t.Context(), m, nodeapi.Looks, map[string]verbs.Handler{"capture": Packets}, in, answer)
		_ = answer.Close()
	}()
	done, err = nodeapi.ReadEvents(out, func(e nodeapi.Event) error {
		if e.Say != "" {
			go traffic()
			return nil
		}
		var c machine.Captured
		require.NoError(t, json.Unmarshal(e.Result, &c))
		parts = append(parts, c)
		return nil
	})
	return parts, done, err
}

// order is one with arguments in turn: name, value.
func orderOf(arguments ...string) nodeapi.Order {
	o := nodeapi.Order{Arguments: map[string]string{}}
	for i := 0; i < len(arguments); i += 2 {
		o.Arguments[arguments[i]] = arguments[i+1]
	}
	return o
}

// send sends count datagrams with a text to an address, from the loopback or a link.
func send(t *testing.T, to, text string, count int) {
	c, err := net.Dial("udp", to)
	require.NoError(t, err)
	defer c.Close()
	for range count {
		_, _ = c.Write([]byte(text)) // Nobody listens: an answer of ICMP makes the next one fail.
	}
}

// sendTagged sends an ARP packet in a VLAN.
func sendTagged(t *testing.T, from string, number uint16) {
	link, err := netlink.LinkByName(from)
	require.NoError(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	frame := arp.Probe([6]byte{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("10.77.0.1")).Frame()
	tag := binary.BigEndian.AppendUint16([]byte{0x81, 0x00}, number)
	frame = slices.Insert(frame, 12, tag...)
	require.NoError(t, unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index}))
}

func packets(parts []machine.Captured) (out []machine.Packet) {
	for _, c := range parts {
		out = append(out, c.Packets...)
	}
	return out
}

func loopback(t *testing.T) {
	l, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(l))
}

func TestPacketsThatTheFilterTakesAreCaptured(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		loopback(t)
		traffic := func() {
			send(t, "127.0.0.1:9", "another port", 3)
			send(t, "127.0.0.1:9999", "a question", 5)
		}
		parts, done, err := capture(t, orderOf("interface", "lo", "filter", "udp dst port 9999", "packets", "3", "snap", "64"), traffic)
		require.NoError(t, err)
		require.Contains(t, done, "captured 3 packets")
		require.Contains(t, done, "on lo in ")
		require.Contains(t, done, "the kernel dropped 0; it ended because 3 packets were asked for")
		require.Equal(t, machine.Captured{Link: machine.LinkEthernet, Snap: 64, Interface: "lo"}, parts[0])
		all := packets(parts)
		require.Len(t, all, 3, "each is seen once, though the loopback sends and gets it")
		for _, p := range all {
			require.Equal(t, 14+20+8+len("a question"), p.Length)
			require.WithinDuration(t, time.Now(), time.Unix(0, p.At), time.Minute)
			frame := gopacket.NewPacket(p.Data, layers.LayerTypeEthernet, gopacket.Default)
			require.Equal(t, "a question", string(frame.ApplicationLayer().Payload()))
		}
	})
}

func TestOfAPacketNoMoreIsKeptThanAskedFor(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		loopback(t)
		traffic := func() { send(t, "127.0.0.1:9999", strings.Repeat("x", 1000), 1) }
		parts, _, err := capture(t, orderOf("interface", "lo", "filter", "udp", "packets", "1", "snap", "100"), traffic)
		require.NoError(t, err)
		require.Len(t, packets(parts)[0].Data, 100)
		require.Equal(t, 14+20+8+1000, packets(parts)[0].Length)
	})
}

func TestOfAllInterfacesPacketsHaveLinuxHeader(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		loopback(t)
		traffic := func() { send(t, "127.0.0.1:9999", "a question", 1) }
		o := orderOf("interface", "any", "filter", "udp and dst host 127.0.0.1 and port 9999", "packets", "1")
		parts, _, err := capture(t, o, traffic)
		require.NoError(t, err)
		require.Equal(t, machine.LinkCooked, parts[0].Link)
		p := packets(parts)[0]
		require.Equal(t, 16+20+8+len("a question"), p.Length)
		frame := gopacket.NewPacket(p.Data, layers.LayerTypeLinuxSLL, gopacket.Default)
		require.Nil(t, frame.ErrorLayer())
		require.Equal(t, "a question", string(frame.ApplicationLayer().Payload()))
		_, _, err = capture(t, orderOf("interface", "any", "filter", "ether host 02:00:00:00:00:01"), nil)
		require.ErrorContains(t, err, "ether is for interfaces with Ethernet frames")
	})
}

func TestTheTagOfAVLANIsInTheFile(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		netnstest.Veth(t, "near", "02:00:00:00:00:01", "far", "02:00:00:00:00:02")
		traffic := func() {
			sendTagged(t, "near", 6)
			sendTagged(t, "near", 5)
		}
		parts, _, err := capture(t, orderOf("interface", "far", "filter", "vlan 5 and arp", "packets", "1"), traffic)
		require.NoError(t, err)
		frame := gopacket.NewPacket(packets(parts)[0].Data, layers.LayerTypeEthernet, gopacket.Default)
		require.Nil(t, frame.ErrorLayer())
		require.EqualValues(t, 5, frame.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q).VLANIdentifier)
		require.NotNil(t, frame.Layer(layers.LayerTypeARP))
	})
}

func TestWhatTheKernelDropsIsCounted(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		loopback(t)
		l, err := choose("lo", nil)
		require.NoError(t, err)
		filter, err := pcapfilter.Parse("udp dst port 9999")
		require.NoError(t, err)
		code, err := order{filter: filter, link: l, snap: machine.MaxSnap}.code()
		require.NoError(t, err)
		s, err := open(l, code)
		require.NoError(t, err)
		defer s.close()
		const sent = 2000
		receiver, err := net.ListenPacket("udp", "127.0.0.1:9999")
		require.NoError(t, err)
		defer receiver.Close()
		send(t, "127.0.0.1:9999", strings.Repeat("x", 60000), sent)
		dropped, err := s.dropped()
		require.NoError(t, err)
		require.Positive(t, dropped, "%d MiB do not fit into the buffer", sent*60000>>20)
		again, err := s.dropped()
		require.NoError(t, err)
		require.Equal(t, dropped, again, "the kernel counts from the last question on")
	})
}

func TestWhereItCaptures(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		netnstest.Veth(t, "near", "02:00:00:00:00:01", "far", "02:00:00:00:00:02")
		netnstest.Address(t, "near", "10.77.0.1/24")
		netnstest.Address(t, "far", "10.78.0.1/24")
		l, err := choose("", []string{"10.78.0.1"})
		require.NoError(t, err)
		require.Equal(t, "far", l.name, "it has the node's address")
		require.True(t, l.framed)
		_, err = choose("", []string{"10.79.0.1"})
		require.ErrorIs(t, err, errNoInterface)
		via := net.IPv4(10, 77, 0, 2)
		near, err := netlink.LinkByName("near")
		require.NoError(t, err)
		require.NoError(t, netlink.RouteAdd(&netlink.Route{LinkIndex: near.Attrs().Index, Gw: via}))
		l, err = choose("", nil)
		require.NoError(t, err)
		require.Equal(t, "near", l.name, "it has the default route")
		_, err = choose("eth9", nil)
		require.ErrorContains(t, err, "there is no interface eth9")
		done := ""
		o := orderOf("interface", "near", "filter", "arp")
		o.DryRun = true
		_, done, err = capture(t, o, nil)
		require.NoError(t, err)
		require.Contains(t, done, "would capture on near until 30 seconds, 100000 packets or 104857600 bytes")
	})
}

// fake gives packets of 1000 bytes, and says after how many that there are none now.
type fake struct{ left int }

func (f *fake) next() (machine.Packet, bool, error) {
	if f.left--; f.left < 0 {
		time.Sleep(time.Millisecond)
		return machine.Packet{}, false, nil
	}
	return machine.Packet{Length: 1000, Data: make([]byte, 1000)}, true, nil
}

func (f *fake) dropped() (uint64, error) { return 7, nil }

func TestItEndsAtEachBound(t *testing.T) {
	for _, tc := range []struct {
		o      order
		from   fake
		want   int
		reason string
	}{
		{order{seconds: 60, packets: 10, bytes: 1 << 30}, fake{50}, 10, "10 packets were asked for"},
		{order{seconds: 60, packets: 100, bytes: 5500}, fake{50}, 5, "5500 bytes were asked for"},
		{order{seconds: 1, packets: 100, bytes: 1 << 30}, fake{20}, 20, "the time was over"},
		{order{seconds: 60, packets: 2000, bytes: 1 << 30}, fake{5000}, 2000, "2000 packets were asked for"},
	} {
		var got, largest int
		done, err := tc.o.run(t.Context(), &tc.from, func(c machine.Captured) error {
			got += len(c.Packets)
			largest = max(largest, len(c.Packets))
			require.EqualValues(t, 7, c.Dropped)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
		require.LessOrEqual(t, largest, partBytes/1000+1, "a part is bounded")
		require.Contains(t, done, "the kernel dropped 7; it ended because "+tc.reason)
	}
}

func TestItEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := order{seconds: 60, packets: 10, bytes: 1000}
	_, err := o.run(ctx, &fake{}, func(machine.Captured) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
	gone := errors.New("gone")
	_, err = order{seconds: 60, packets: 1, bytes: 5000}.run(t.Context(), &fake{5}, func(machine.Captured) error { return gone })
	require.ErrorIs(t, err, gone)
}
