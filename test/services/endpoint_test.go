//go:build e2e

package services

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spore/agent/netnstest"
	"spore/agent/nic"
	"spore/services/kubernetes/vip"
	"spore/services/kubernetes/vip/address"
)

// moved bounds how long the address takes from one master to the next when the former could not give it up: the lease, another
// lease of patience of etcd, and what a busy machine adds.
const moved = 20 * time.Second

func TestOneMasterHasTheVirtualAddress(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		l := newEndpoints(t, "10.77.0.0/24")
		w := l.watchKernels()
		for _, m := range l.masters {
			m.startAgent()
		}
		timing := vip.Times(1, address.Lateness)
		l.settled(moved, l.masters...)
		step := func(name string, do func(t *testing.T)) {
			if !t.Run(name, do) {
				l.logs()
				t.FailNow()
			}
		}

		step("it is announced, and one kernel has it", func(t *testing.T) {
			require.Positive(t, l.announcedSince(time.Time{}, l.holder()))
		})
		step("it is never an address of the node", func(t *testing.T) {
			h := l.holder()
			a, ok := h.has()
			require.True(t, ok)
			ones, bits := a.Mask.Size()
			require.Equal(t, bits, ones)
			require.Equal(t, unix.RT_SCOPE_HOST, a.Scope)
			require.NotZero(t, a.Flags&unix.IFA_F_DEPRECATED)
			require.LessOrEqual(t, a.ValidLft, int(timing.Lifetime()/time.Second))
			h.in(func() {
				own, err := nic.Addresses()
				require.NoError(t, err)
				require.Equal(t, []netip.Addr{h.ip}, own)
				// Without the node's own address, a packet has no sender rather than the virtual one.
				link, err := netlink.LinkByName("host0")
				require.NoError(t, err)
				routes, err := netlink.RouteGet(net.ParseIP("10.77.0.2"))
				require.NoError(t, err)
				require.Equal(t, h.ip.String(), routes[0].Src.String())
				require.NoError(t, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &net.IPNet{IP: net.ParseIP("192.0.2.0").To4(), Mask: net.CIDRMask(24, 32)}}))
				routes, err = netlink.RouteGet(net.ParseIP("192.0.2.1"))
				require.NoError(t, err)
				require.Equal(t, h.ip.String(), routes[0].Src.String())
			})
		})
		step("an API server that is not ready loses it", func(t *testing.T) {
			h := l.holder()
			began := time.Now()
			h.notReady.Store(true)
			next := l.settled(moved, l.but(h)...)
			t.Logf("another answers %s after the API server was not ready; on the wire after %s", time.Since(began).Round(time.Millisecond), l.announcedSince(began, next).Round(time.Millisecond))
			require.Less(t, time.Since(began), timing.Lease, "it was given up, and not lost")
			require.Equal(t, []string{next.name}, l.holders())
			h.notReady.Store(false)
		})
		step("an agent that is stopped in order gives it up", func(t *testing.T) {
			h := l.holder()
			began := time.Now()
			require.NoError(t, h.agent.Process.Signal(syscall.SIGTERM))
			require.NoError(t, h.agent.Wait())
			_, has := h.has()
			require.False(t, has)
			l.settled(timing.Lease/2, l.but(h)...)
			t.Logf("another answers after %s", time.Since(began).Round(time.Millisecond))
			h.startAgent()
		})
		step("a frozen agent has lost it before its lease ends", func(t *testing.T) { l.freeze(t, timing) })
		step("an agent that was killed takes away what it left, and may take it again", func(t *testing.T) {
			h := l.holder()
			began := time.Now()
			end(h.agent)
			_, has := h.has()
			require.True(t, has, "the kernel has it still")
			h.startAgent()
			l.settled(timing.Lease/2, l.masters...)
			t.Logf("it answers after %s", time.Since(began).Round(time.Millisecond))
			require.Eventually(t, func() bool { return strings.Contains(h.lines(), "which was left here") }, 5*time.Second, 10*time.Millisecond)
			require.Positive(t, l.announcedSince(began, l.settled(timing.Lease/2, l.masters...)))
		})
		step("a master without a cable loses it", func(t *testing.T) {
			h := l.holder()
			began := time.Now()
			h.cable(false)
			gone := h.gone(began, timing.Lease)
			next := l.settled(moved, l.but(h)...)
			t.Logf("gone after %s, another answers after %s", gone.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			h.cable(true)
			time.Sleep(timing.Lease)
			require.Equal(t, []string{next.name}, l.holders(), "it does not want it back")
		})
		step("without a majority of etcd nobody has it", func(t *testing.T) {
			h := l.holder()
			began := time.Now()
			for _, m := range l.but(h) {
				end(m.etcd)
			}
			gone := h.gone(began, timing.Lease)
			t.Logf("gone after %s", gone.Round(time.Millisecond))
			for range 50 {
				require.Empty(t, l.holders())
				time.Sleep(100 * time.Millisecond)
			}
			began = time.Now()
			for _, m := range l.but(h) {
				m.startEtcd()
			}
			l.settled(moved, l.masters...)
			t.Logf("a majority of etcd again: it answers after %s", time.Since(began).Round(time.Millisecond))
		})
		step("in all of that time no two had it", func(t *testing.T) { l.requireNeverTwo(t, w, timing) })
	})
}

// freeze stops the agent of the holder as a hang would, and watches its kernel and the lease.
func (l *endpoints) freeze(t *testing.T, timing vip.Timing) {
	h := l.holder()
	others := l.but(h)
	require.NoError(t, h.agent.Process.Signal(syscall.SIGSTOP))
	began := time.Now()
	gone := h.gone(began, timing.Lease)
	left := others[0].leaseLeft()
	next := l.settled(moved, others...)
	answered := time.Since(began)
	wire := l.announcedSince(began, next)
	t.Logf("frozen: the kernel had taken the address away after %s, the lease had %d s left then (rounded down), the next announced it after %s and answered after %s",
		gone.Round(time.Millisecond), left, wire.Round(time.Millisecond), answered.Round(time.Millisecond))
	require.Less(t, gone, timing.Lease, "the bound of docs/endpoint.md")
	require.Less(t, gone, wire)
	require.Equal(t, []string{next.name}, l.holders())

	require.NoError(t, h.agent.Process.Signal(syscall.SIGCONT))
	for range 100 {
		require.LessOrEqual(t, len(l.holders()), 1, "an agent that goes on does not take it back")
		time.Sleep(20 * time.Millisecond)
	}
	l.settled(moved, l.masters...)
}

func TestAVirtualAddressOfIPv6(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
			t.Skip("the kernel has no IPv6")
		}
		l := newEndpoints(t, "fd00:77::/64")
		w := l.watchKernels()
		for _, m := range l.masters {
			m.startAgent()
		}
		h := l.settled(moved, l.masters...)
		require.Positive(t, l.announcedSince(time.Time{}, h))
		a, ok := h.has()
		require.True(t, ok)
		require.NotZero(t, a.Flags&unix.IFA_F_DEPRECATED)
		h.in(func() {
			own, err := nic.Addresses()
			require.NoError(t, err)
			require.Equal(t, []netip.Addr{h.ip}, own)
			routes, err := netlink.RouteGet(net.ParseIP("fd00:77::2"))
			require.NoError(t, err)
			require.Equal(t, h.ip.String(), routes[0].Src.String())
		})
		timing := vip.Times(1, address.Lateness)
		l.freeze(t, timing)
		l.requireNeverTwo(t, w, timing)
	})
}
