package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spore/agent/netnstest"
	"spore/agent/stage1/netif"
)

// segment is a network card of this namespace whose other end is in another one, with servers' sockets.
type segment struct {
	card Card
	conn net.PacketConn
	mu   sync.Mutex
	got  []layers.DHCPv4
}

// newSegment makes the card name and answers on its other end with what respond makes of each message.
func newSegment(t *testing.T, name string, last byte, respond func(*layers.DHCPv4) [][]byte) *segment {
	hw := [6]byte{0x52, 0x54, 0, 0, 0, last}
	peer := name + "p"
	netnstest.Veth(t, name, net.HardwareAddr(hw[:]).String(), peer, fmt.Sprintf("52:54:00:00:01:%02x", last))
	s := &segment{card: Card{Name: name, MAC: hw}}
	listening := make(chan error)
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread ends with its namespace.
		listening <- s.listen(peer)
	}()
	require.NoError(t, <-listening)
	t.Cleanup(func() { s.conn.Close() })
	require.Eventually(t, func() bool { // The kernel takes up to a second to say that a link is up, and drops until then.
		l, err := netlink.LinkByName(name)
		return err == nil && l.Attrs().OperState == netlink.OperUp
	}, 10*time.Second, 5*time.Millisecond)
	go func() {
		for {
			b := make([]byte, 2000)
			n, _, err := s.conn.ReadFrom(b)
			if err != nil {
				return
			}
			var d layers.DHCPv4
			if d.DecodeFromBytes(b[:n], gopacket.NilDecodeFeedback) != nil {
				continue
			}
			s.mu.Lock()
			s.got = append(s.got, d)
			s.mu.Unlock()
			for _, a := range respond(&d) {
				_, _ = s.conn.WriteTo(a, &net.UDPAddr{IP: net.IPv4bcast, Port: clientPort})
			}
		}
	}()
	return s
}

// listen moves peer into a new namespace of this thread, with the address 10.0.0.1, and opens the server's socket there.
func (s *segment) listen(peer string) error {
	link, err := netlink.LinkByName(peer)
	if err != nil {
		return err
	}
	outside, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer outside.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	own, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return err
	}
	defer own.Close()
	if err := outside.LinkSetNsFd(link, int(own.Fd())); err != nil {
		return err
	}
	inside, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer inside.Close()
	if link, err = inside.LinkByName(peer); err != nil {
		return err
	}
	address, err := netlink.ParseAddr("10.0.0.1/24")
	if err != nil {
		return err
	}
	if err := inside.AddrAdd(link, address); err != nil {
		return err
	}
	if err := inside.LinkSetUp(link); err != nil {
		return err
	}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		fail := raw.Control(func(fd uintptr) {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1), unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, peer))
		})
		return errors.Join(fail, err)
	}}
	s.conn, err = lc.ListenPacket(context.Background(), "udp4", "0.0.0.0:67")
	return err
}

func (s *segment) kinds() (out []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.got {
		for _, o := range d.Options {
			if o.Type == layers.DHCPOptMessageType {
				out = append(out, o.Data[0])
			}
		}
	}
	return out
}

// reply answers one message.
func reply(t testing.TB, to *layers.DHCPv4, kind layers.DHCPMsgType, server byte, client string, options ...layers.DHCPOption) []byte {
	return answer(t, kind, func(d *layers.DHCPv4) {
		d.Xid, d.ClientHWAddr = to.Xid, to.ClientHWAddr
		d.YourClientIP = net.ParseIP(client).To4()
		d.Options[1] = layers.NewDHCPOption(layers.DHCPOptServerID, []byte{10, 0, 0, server})
	}, options...)
}

func isKind(d *layers.DHCPv4, kind layers.DHCPMsgType) bool {
	return len(d.Options) > 0 && d.Options[0].Type == layers.DHCPOptMessageType && d.Options[0].Data[0] == byte(kind)
}

func asks(cards ...Card) Options {
	return Options{Cards: cards, XID: 77, NeedURL: true, Bound: 3 * time.Second, First: 100 * time.Millisecond, Longest: 300 * time.Millisecond, Say: func(string) {}}
}

var mask24 = opt(1, "\xff\xff\xff\x00")

const image = "http://10.0.0.2/spore.efi"

func TestAnAddressAndAURLAreGot(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		first := true
		s := newSegment(t, "eth0", 1, func(d *layers.DHCPv4) [][]byte {
			switch {
			case isKind(d, layers.DHCPMsgTypeDiscover) && first:
				first = false
				return [][]byte{[]byte("noise"), reply(t, &layers.DHCPv4{Xid: 1, ClientHWAddr: d.ClientHWAddr}, layers.DHCPMsgTypeOffer, 1, "10.0.0.66", opt(67, "http://evil/x"))}
			case isKind(d, layers.DHCPMsgTypeDiscover):
				return [][]byte{reply(t, d, layers.DHCPMsgTypeOffer, 1, "10.0.0.9", mask24, opt(67, image))}
			case isKind(d, layers.DHCPMsgTypeRequest):
				return [][]byte{reply(t, d, layers.DHCPMsgTypeAck, 1, "10.0.0.9", mask24, opt(3, "\x0a\x00\x00\x01"), opt(67, image))}
			}
			return nil
		})
		l, err := Acquire(context.Background(), asks(s.card))
		require.NoError(t, err)
		require.Equal(t, "10.0.0.9/24 on eth0 (52:54:00:00:00:01) from 10.0.0.1, "+image+" from 10.0.0.1", l.String())
		require.Equal(t, []byte{discover, discover, request}, s.kinds(), "an answer to another's question is none")

		require.NoError(t, netif.Configure("eth0", l.Address, l.Routers[0]))
		routes, err := netlink.RouteGet(net.ParseIP("192.0.2.1"))
		require.NoError(t, err)
		require.Equal(t, "10.0.0.1", routes[0].Gw.String())
		require.Equal(t, "10.0.0.9", routes[0].Src.String())
		require.NoError(t, l.Release(context.Background()))
		require.Eventually(t, func() bool { k := s.kinds(); return k[len(k)-1] == release }, 3*time.Second, 10*time.Millisecond)
		require.NoError(t, netif.Clear("eth0"))
		require.NoError(t, netif.Down("eth0"))
		link, err := netlink.LinkByName("eth0")
		require.NoError(t, err)
		require.Zero(t, link.Attrs().Flags&net.FlagUp)
		left, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		require.NoError(t, err)
		require.Empty(t, left, "networkd begins anew")
		require.ErrorContains(t, netif.Up("nothing"), "network card nothing: bring it up or down: no such device")

		// A router beyond the prefix, as clouds have it.
		require.NoError(t, netif.Up("eth0"))
		require.NoError(t, netif.Configure("eth0", netip.MustParsePrefix("10.0.0.9/32"), netip.MustParseAddr("10.0.9.1")))
		routes, err = netlink.RouteGet(net.ParseIP("192.0.2.1"))
		require.NoError(t, err)
		require.Equal(t, "10.0.9.1", routes[0].Gw.String())
	})
}

func TestAProxyGivesTheURLBesideAServerOfAddresses(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		s := newSegment(t, "eth0", 1, func(d *layers.DHCPv4) [][]byte {
			if isKind(d, layers.DHCPMsgTypeDiscover) {
				return [][]byte{
					reply(t, d, layers.DHCPMsgTypeOffer, 3, "10.0.0.9", mask24, opt(67, "pxelinux.0")),
					reply(t, d, layers.DHCPMsgTypeOffer, 5, "0.0.0.0", opt(67, "http://10.0.0.7/other")),
					reply(t, d, layers.DHCPMsgTypeOffer, 4, "0.0.0.0", opt(60, "HTTPClient"), opt(67, image)),
				}
			}
			return [][]byte{reply(t, d, layers.DHCPMsgTypeAck, 3, "10.0.0.9", mask24)}
		})
		time.Sleep(50 * time.Millisecond)
		o := asks(s.card)
		l, err := Acquire(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, netip.MustParseAddr("10.0.0.3"), l.Server)
		require.Contains(t, []string{image, "http://10.0.0.7/other"}, l.URL)
	})
}

func TestTheFirstCardIsPreferredAndAnyWillDo(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		serve := func(address string) func(d *layers.DHCPv4) [][]byte {
			return func(d *layers.DHCPv4) [][]byte {
				kind := layers.DHCPMsgTypeAck
				if isKind(d, layers.DHCPMsgTypeDiscover) {
					kind = layers.DHCPMsgTypeOffer
				}
				return [][]byte{reply(t, d, kind, 1, address, mask24, opt(67, image))}
			}
		}
		silent := newSegment(t, "eth0", 1, func(*layers.DHCPv4) [][]byte { return nil })
		one := newSegment(t, "eth1", 2, serve("10.0.0.21"))
		two := newSegment(t, "eth2", 3, serve("10.0.0.22"))
		l, err := Acquire(context.Background(), asks(silent.card, two.card, one.card))
		require.NoError(t, err)
		require.Equal(t, "eth2", l.Card.Name)
		require.Equal(t, "10.0.0.22/24", l.Address.String())
		l, err = Acquire(context.Background(), asks(one.card, silent.card, two.card))
		require.NoError(t, err)
		require.Equal(t, "eth1", l.Card.Name)
	})
}

func TestWhatDidNotComeIsSaid(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		for i, c := range []struct {
			respond func(d *layers.DHCPv4) [][]byte
			want    []string
		}{
			{func(*layers.DHCPv4) [][]byte { return nil }, []string{"no DHCP server gave an address and the http:// URL of an image within 700ms; asked as HTTPClient:Arch:00016:UNDI:003001 on eth0 (52:54:00:00:00:01); came: nothing"}},
			{func(d *layers.DHCPv4) [][]byte {
				return [][]byte{reply(t, d, layers.DHCPMsgTypeOffer, 3, "10.0.0.9", mask24, opt(67, "pxelinux.0"))}
			}, []string{`came: 10.0.0.9 and the boot file "pxelinux.0", which is no http:// URL from 10.0.0.3 on eth1`}},
			{func(d *layers.DHCPv4) [][]byte {
				if isKind(d, layers.DHCPMsgTypeDiscover) {
					return [][]byte{reply(t, d, layers.DHCPMsgTypeOffer, 3, "10.0.0.9", mask24, opt(67, image))}
				}
				return [][]byte{reply(t, d, layers.DHCPMsgTypeNak, 3, "0.0.0.0", opt(56, "taken"))}
			}, []string{"a refusal taken from 10.0.0.3 on eth2"}},
		} {
			s := newSegment(t, fmt.Sprintf("eth%d", i), byte(i+1), c.respond)
			o := asks(s.card)
			o.Bound = 700 * time.Millisecond
			var said []string
			o.Say = func(text string) { said = append(said, text) }
			_, err := Acquire(context.Background(), o)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			if i < 2 {
				require.NotEmpty(t, said)
				require.True(t, strings.HasPrefix(said[0], "waiting for an address and the URL of the image from a DHCP server; asked as "), said[0])
			}
		}
		_, err := Acquire(context.Background(), asks())
		require.ErrorContains(t, err, "no network card")
		_, err = Acquire(context.Background(), asks(Card{Name: "nothing"}))
		require.ErrorContains(t, err, "listen for DHCP on nothing")
	})
}

func TestAnAddressAloneWillDoWhereTheURLIsKnown(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		s := newSegment(t, "eth0", 1, func(d *layers.DHCPv4) [][]byte {
			if isKind(d, layers.DHCPMsgTypeDiscover) {
				return [][]byte{reply(t, d, layers.DHCPMsgTypeOffer, 1, "10.0.0.9", mask24)}
			}
			return [][]byte{reply(t, d, layers.DHCPMsgTypeAck, 1, "10.0.0.9", mask24)}
		})
		o := asks(s.card)
		o.NeedURL = false
		l, err := Acquire(context.Background(), o)
		require.NoError(t, err)
		require.Empty(t, l.URL)
		require.Equal(t, "10.0.0.9/24", l.Address.String())
	})
}
