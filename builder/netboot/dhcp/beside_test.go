//go:build integration

package dhcp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// theirs is the address of the server that is on the network already.
var theirs = netip.MustParseAddr("10.77.0.1")

// TestBesideDnsmasq puts our proxy, Debian's dnsmasq and a client on one bridge, each with a network of its own.
func TestBesideDnsmasq(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("three machines on a bridge take root")
	}
	inNamespace(t, func() {
		add := func(l netlink.Link) { require.NoError(t, netlink.LinkAdd(l)) }
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "boot"}}
		add(bridge)
		for _, cable := range []string{"client", "dhcp"} {
			add(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: cable + "-port", MasterIndex: bridge.Index}, PeerName: cable})
			l, err := netlink.LinkByName(cable + "-port")
			require.NoError(t, err)
			require.NoError(t, netlink.LinkSetUp(l))
		}
		up(t, "boot", server.String()+"/24")
		startDnsmasq(t)
		b := newBench(t, Proxy)
		sockets, err := b.Listen(t.Context(), "boot")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- sockets.Serve(ctx) }()
		elsewhere(t, "client", func() { bootBeside(t) })
		cancel()
		require.NoError(t, <-done)
		said := map[string]string{}
		for _, e := range b.events {
			require.Empty(t, e.Problem)
			said[e.Client] = e.Loads
		}
		require.Equal(t, map[string]string{"UEFI PXE": boot.UEFI, "iPXE": boot.Script, "UEFI HTTP boot": boot.UKI}, said, "what the operator is told")
	})
}

// startDnsmasq runs it at the end of the cable dhcp.
func startDnsmasq(t *testing.T) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "dnsmasq.conf")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf("port=0\ninterface=dhcp\nbind-interfaces\nno-ping\nno-resolv\nno-hosts\nuser=root\npid-file=\ndhcp-authoritative\ndhcp-leasefile=%s\n"+
		"dhcp-range=10.77.0.100,10.77.0.150,1h\ndhcp-host=%s,10.77.0.11\n", filepath.Join(t.TempDir(), "leases"), mac)), 0o600))
	cmd := exec.Command("sh", "-c", "until ip link set dhcp up; do sleep 0.05; done 2>/dev/null; ip address add "+theirs.String()+"/24 dev dhcp && exec dnsmasq --keep-in-foreground --log-facility=- --conf-file="+config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	l, err := netlink.LinkByName("dhcp")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetNsPid(l, cmd.Process.Pid))
}

// elsewhere runs body in a thread with a network of its own, which has the interface; the thread ends with it.
func elsewhere(t *testing.T, iface string, body func()) {
	t.Helper()
	ready, moved, done := make(chan int), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done) // Also when body fails, which ends the goroutine.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			close(ready)
			return
		}
		ready <- unix.Gettid()
		<-moved
		body()
	}()
	tid, ok := <-ready
	require.True(t, ok)
	l, err := netlink.LinkByName(iface)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetNsPid(l, tid))
	close(moved)
	<-done
}

// bootBeside does what a machine does from its firmware to stage1. Everything is asked until it is answered, since dnsmasq may not be
// up yet, but for what nobody is to answer.
func bootBeside(t *testing.T) {
	up(t, "client", "10.77.0.11/24")
	conn, err := listen(t.Context(), "client", clientPort)
	require.NoError(t, err)
	defer conn.Close()
	broadcast := netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), ServerPort)
	// say sends a packet and returns who answered, by their addresses, after all of want did or the time is over.
	say := func(p *dhcpv4.DHCPv4, to netip.AddrPort, want ...netip.Addr) map[netip.Addr]*dhcpv4.DHCPv4 {
		got := map[netip.Addr]*dhcpv4.DHCPv4{}
		all := func() bool {
			for _, w := range want {
				if got[w] == nil {
					return false
				}
			}
			return true
		}
		for try := 0; try < 20 && !all(); try++ {
			_, err := conn.WriteToUDPAddrPort(p.ToBytes(), to)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
			for buf := make([]byte, maxPacket); ; {
				n, from, err := conn.ReadFromUDPAddrPort(buf)
				if err != nil {
					break // The time is over; whoever is not wanted had it, too.
				}
				if r, err := dhcpv4.FromBytes(buf[:n]); err == nil && r.TransactionID == p.TransactionID {
					got[from.Addr().Unmap()] = r
				}
			}
		}
		require.True(t, all(), "of %v answered %v", want, got)
		require.Len(t, got, len(want), "%v", got)
		return got
	}
	address := net.IPv4(10, 77, 0, 11).To4()
	heard := dhcpv4.WithBroadcast(true)
	firmware := class("PXEClient:Arch:00007:UNDI:003016", 7)

	offers := say(ask(dhcpv4.MessageTypeDiscover, mac, heard, firmware), broadcast, theirs, server)
	require.Equal(t, address, offers[theirs].YourIPAddr.To4(), "the address is the other server's")
	require.Empty(t, offers[theirs].BootFileName)
	require.True(t, offers[server].YourIPAddr.IsUnspecified(), "ours gives none")
	require.Equal(t, "snponly.efi", offers[server].BootFileName)
	require.Equal(t, classPXE, offers[server].ClassIdentifier())

	taken := say(ask(dhcpv4.MessageTypeRequest, mac, heard, firmware, requesting(theirs, netip.MustParseAddr("10.77.0.11"))), broadcast, theirs)
	require.Equal(t, dhcpv4.MessageTypeAck, taken[theirs].MessageType(), "ours keeps out of it")

	file := say(ask(dhcpv4.MessageTypeRequest, mac, firmware, dhcpv4.WithClientIP(address)), netip.AddrPortFrom(server, BootServerPort), server)
	require.Equal(t, "snponly.efi", file[server].BootFileName, "the boot server of PXE says it again")

	script := say(ask(dhcpv4.MessageTypeDiscover, mac, heard, firmware, ipxe(featureHTTP, featureEFI)), broadcast, theirs, server)
	require.Equal(t, boot.Script, script[server].BootFileName)

	url := say(ask(dhcpv4.MessageTypeInform, mac, class("HTTPClient:Arch:00016", 16), dhcpv4.WithClientIP(address)), broadcast, theirs, server)
	require.Equal(t, boot.UKI, url[server].BootFileNameOption(), "stage1 asks for it when it has its address")

	plain := say(ask(dhcpv4.MessageTypeDiscover, mac, heard), broadcast, theirs)
	require.Equal(t, address, plain[theirs].YourIPAddr.To4(), "a system that runs hears nothing of ours")
}
