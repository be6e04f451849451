package station

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"spore/builder/vm/lan"
)

// start plugs a station in whose address ends with a number.
func start(ctx context.Context, t *testing.T, dir string, name string, number byte, more ...string) *Station {
	t.Helper()
	s, err := Start(ctx, Config{
		Dir: dir, Name: lan.Card(name, 0), Address: netip.PrefixFrom(address(number), 24),
		MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, number},
	})
	require.NoError(t, err)
	for _, a := range more {
		own := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(netip.MustParseAddr(a).As4()).WithPrefix()}
		require.Nil(t, s.stack.AddProtocolAddress(card, own, stack.AddressProperties{}))
	}
	return s
}

func address(number byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, number}) }

// echo answers every connection to a port with what comes by it, after a name.
func (s *Station) echo(t *testing.T, port uint16, name string) {
	t.Helper()
	l, err := gonet.ListenTCP(s.stack, tcpip.FullAddress{Port: port}, ipv4.ProtocolNumber)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, name)
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
}

// ask sends a text and returns all that comes.
func ask(ctx context.Context, from *Station, to netip.AddrPort, text []byte) ([]byte, error) {
	conn, err := from.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	go func() {
		_, _ = conn.Write(text)
		_ = conn.(*gonet.TCPConn).CloseWrite()
	}()
	return io.ReadAll(conn)
}

func TestAStationReachesItsNeighboursAndHearsWhenTheyRefuse(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, lan.Join(t.Context(), dir))
	host, node := start(t.Context(), t, dir, ".host", 254), start(t.Context(), t, dir, "node", 11, "10.99.0.1")
	node.echo(t, 80, "node ")

	much := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	got, err := ask(t.Context(), host, netip.AddrPortFrom(address(11), 80), much)
	require.NoError(t, err)
	require.Equal(t, append([]byte("node "), much...), got, "a megabyte there and back")

	got, err = ask(t.Context(), host, netip.MustParseAddrPort("10.99.0.1:80"), []byte("hello"))
	require.NoError(t, err)
	require.Equal(t, "node hello", string(got), "an address of another network is a neighbour's")

	_, err = ask(t.Context(), host, netip.AddrPortFrom(address(11), 81), nil)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = ask(t.Context(), host, netip.AddrPortFrom(address(99), 80), nil)
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	_, err = host.Dial(t.Context(), netip.MustParseAddrPort("[fd00::1]:80"))
	require.ErrorIs(t, err, syscall.EAFNOSUPPORT)

	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	_, err = host.Dial(given, netip.AddrPortFrom(address(98), 80))
	require.ErrorIs(t, err, context.Canceled)
}

func TestAnAddressThatMovesIsFoundAgain(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, lan.Join(t.Context(), dir))
	host := start(t.Context(), t, dir, ".host", 254)
	first, off := context.WithCancel(t.Context())
	const virtual = "10.77.0.9"
	start(first, t, dir, "a", 11, virtual).echo(t, 80, "a")
	to := netip.MustParseAddrPort(virtual + ":80")
	got, err := ask(t.Context(), host, to, nil)
	require.NoError(t, err)
	require.Equal(t, "a", string(got))

	// The node is off, and the next one has its address and says so, as those who move one do.
	off()
	b := start(t.Context(), t, dir, "b", 12, virtual)
	b.echo(t, 80, "b")
	b.announce(virtual, 12)
	require.Eventually(t, func() bool {
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err = ask(limited, host, to, nil)
		return err == nil && string(got) == "b"
	}, 20*time.Second, 100*time.Millisecond)
}

// announce sends a gratuitous ARP (RFC 5227, 3).
func (s *Station) announce(address string, number byte) {
	ip := netip.MustParseAddr(address).As4()
	mac := []byte{0x52, 0x54, 0, 0, 0, number}
	frame := append(bytes.Repeat([]byte{0xff}, 6), mac...)
	frame = append(frame, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
	frame = append(append(frame, mac...), ip[:]...)
	frame = append(append(frame, make([]byte, 6)...), ip[:]...)
	s.cable.Send(frame)
}

func TestAStationWithoutAnIPv4AddressIsNone(t *testing.T) {
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), Address: netip.MustParsePrefix("fd00::1/64")})
	require.ErrorContains(t, err, "not an IPv4 address")
	_, err = Start(t.Context(), Config{Dir: t.TempDir() + "/none", Address: netip.MustParsePrefix("10.77.0.254/24")})
	require.Error(t, err)
}

func FuzzAnnounced(f *testing.F) {
	f.Add([]byte("\xff\xff\xff\xff\xff\xffabcdef\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01abcdef\x0a\x4d\x00\x09\x00\x00\x00\x00\x00\x00\x0a\x4d\x00\x09"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xffabcdef\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01abcdef\x0a\x4d\x00\x09\x00\x00\x00\x00\x00\x00\x0a\x4d\x00\x0a"))
	f.Add([]byte("abcdefABCDEF\x08\x06"))
	f.Add([]byte("abcdefABCDEF\x08\x00\x45"))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, frame []byte) {
		address, ok := announced(frame)
		if ok {
			require.Equal(t, address[:], frame[14+14:14+18], "the sender's")
			require.Equal(t, address[:], frame[14+24:14+28], "the target's")
		}
	})
}
