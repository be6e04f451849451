package dhcp

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inNamespace runs the test again in a network of its own.
func inNamespace(t *testing.T, body func()) {
	const variable = "SPORE_TEST_DHCP_NETNS"
	if os.Getenv(variable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if uid := os.Geteuid(); uid != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "in a network namespace of its own:\n%s", out)
		return
	}
	body()
}

// up takes an interface up and gives it an address.
func up(t *testing.T, name, address string) *net.Interface {
	l, err := netlink.LinkByName(name)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(l))
	a, err := netlink.ParseAddr(address)
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(l, a))
	i, err := net.InterfaceByName(name)
	require.NoError(t, err)
	return i
}

func TestOverRealInterfaces(t *testing.T) {
	inNamespace(t, func() {
		require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "ours"}, PeerName: "theirs"}))
		ours := up(t, "ours", "10.77.0.2/24")
		found, err := Probe(t.Context(), "ours", ours.HardwareAddr)
		require.NoError(t, err)
		require.False(t, found.IsValid(), "nobody is there yet")

		b := newBench(t, Full)
		sockets, err := b.Listen(t.Context(), "ours")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- sockets.Serve(ctx) }()

		// The other machine is a thread with a network of its own; the thread ends with this goroutine.
		other, tid := make(chan error), make(chan int, 1)
		go func() {
			runtime.LockOSThread()
			err := unix.Unshare(unix.CLONE_NEWNET)
			tid <- unix.Gettid()
			other <- err
			<-other
			theirs := up(t, "theirs", "10.77.0.50/24")
			found, err = Probe(t.Context(), "theirs", theirs.HardwareAddr)
			other <- err
		}()
		require.NoError(t, <-other)
		l, err := netlink.LinkByName("theirs")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetNsPid(l, <-tid))
		other <- nil
		require.NoError(t, <-other)
		require.Equal(t, netip.MustParseAddr("10.77.0.2"), found, "a machine hears the offer")
		cancel()
		require.NoError(t, <-done)
	})
}

func TestAProxyIsNoOtherServer(t *testing.T) {
	question := ask(dhcpv4.MessageTypeDiscover, mac)
	give := func(more ...dhcpv4.Modifier) []byte {
		p, err := dhcpv4.NewReplyFromRequest(question, more...)
		require.NoError(t, err)
		return p.ToBytes()
	}
	offer, address := dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer), dhcpv4.WithYourIP(net.IPv4(10, 0, 0, 9))
	require.True(t, offers(give(offer, address), question))
	require.False(t, offers(give(offer), question))
	require.False(t, offers(give(address, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak)), question))
	require.False(t, offers(give(offer, address, dhcpv4.WithTransactionID(dhcpv4.TransactionID{1})), question))
	require.False(t, offers([]byte("x"), question))
}
