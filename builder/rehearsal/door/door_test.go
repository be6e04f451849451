package door

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/proxy"

	"spore/builder/vm/lan"
)

// network is a network that nobody is in, and the door that a process opens there.
func network(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, lan.Join(t.Context(), dir))
	return Config{
		Dir: dir, Address: netip.MustParsePrefix("10.77.0.254/24"), MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1},
		Lookup: func(host string) []netip.Addr {
			switch host {
			case "edge-01":
				return []netip.Addr{netip.MustParseAddr("10.77.0.11")}
			case "old":
				return []netip.Addr{netip.MustParseAddr("fd00::1")}
			}
			return nil
		},
		Moved: func(string) { panic("it has not moved") },
	}
}

func TestANetworkHasOneDoorAndAnotherProcessGoesOnWithIt(t *testing.T) {
	c := network(t)
	first, end := context.WithCancel(t.Context())
	at, err := Open(first, c)
	require.NoError(t, err)
	require.NoError(t, CheckListen(at))
	second, err := Open(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, at, second)

	c.Listen = "127.0.0.1:1"
	_, err = Open(t.Context(), c)
	require.ErrorContains(t, err, "the network has its SOCKS5 proxy at "+at+" already")
	for _, same := range []string{at, "127.0.0.1:0"} {
		c.Listen = same
		third, err := Open(first, c)
		require.NoError(t, err)
		require.Equal(t, at, third)
	}

	refuses := func(host, why string) func() bool {
		return func() bool {
			client, err := proxy.SOCKS5("tcp", at, nil, proxy.Direct)
			require.NoError(t, err)
			_, err = client.Dial("tcp", host)
			return err != nil && err.Error() == "socks connect tcp "+at+"->"+host+": unknown error "+why
		}
	}
	require.Eventually(t, refuses("old:80", "address type not supported"), time.Minute, time.Millisecond)
	require.Eventually(t, refuses("example.org:80", "host unreachable"), time.Minute, time.Millisecond)
	end()
	require.Eventually(t, refuses("edge-01:80", "host unreachable"), time.Minute, 10*time.Millisecond, "nobody has its address")
}

func TestTheAddressStaysFromOneRehearsalToTheNext(t *testing.T) {
	c := network(t)
	open := func() (string, func()) {
		ctx, end := context.WithCancel(t.Context())
		at, err := Open(ctx, c)
		require.NoError(t, err)
		return at, func() {
			end()
			require.Eventually(t, func() bool {
				l, err := net.Listen("tcp", at)
				if err == nil {
					l.Close()
				}
				return err == nil
			}, time.Minute, time.Millisecond)
		}
	}
	first, end := open()
	end()
	again, end := open()
	require.Equal(t, first, again)
	end()

	other, err := net.Listen("tcp", first)
	require.NoError(t, err)
	moved, end := open()
	require.NotEqual(t, first, moved, "another program has taken the port")
	end()
	require.NoError(t, other.Close())

	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, addressName), []byte("0.0.0.0:1080\n"), 0o600))
	at, end := open()
	require.NoError(t, CheckListen(at), "nobody else is let in by a file")
	end()
}

func TestWhoGoesOnElsewhereSaysSo(t *testing.T) {
	c := network(t)
	first, end := context.WithCancel(t.Context())
	at, err := Open(first, c)
	require.NoError(t, err)
	moved := make(chan string, 1)
	c.Moved = func(address string) { moved <- address }
	_, err = Open(t.Context(), c)
	require.NoError(t, err)
	// As if another program had taken the port in between.
	require.NoError(t, os.Remove(filepath.Join(c.Dir, addressName)))
	end()
	require.NotEqual(t, at, <-moved)
}

func TestTheDoorIsOnLoopbackAlone(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:1080": true, "127.0.0.1:0": true, "[::1]:1080": true,
		"0.0.0.0:1080": false, ":1080": false, "192.168.1.1:1080": false, "localhost": false, "": false, "127.0.0.1": false,
	} {
		require.Equal(t, ok, CheckListen(address) == nil, address)
	}
}
