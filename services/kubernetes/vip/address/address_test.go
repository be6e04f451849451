package address

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spore/agent/netnstest"
	"spore/agent/nic"
)

var (
	own  = netip.MustParseAddr("10.77.0.11")
	four = netip.MustParseAddr("10.77.0.100")
	six  = netip.MustParseAddr("fd00:77::100")
)

func network(t *testing.T) int {
	index, _ := netnstest.Veth(t, "host0", "02:00:00:00:00:01", "far0", "02:00:00:00:00:02")
	netnstest.Address(t, "host0", "10.77.0.11/24")
	return index
}

func has(t *testing.T, ip netip.Addr) (netlink.Addr, bool) {
	t.Helper()
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	require.NoError(t, err)
	for _, a := range list {
		if a.IP.Equal(ip.AsSlice()) {
			return a, true
		}
	}
	return netlink.Addr{}, false
}

func TestTheInterfaceIsTheOneWithTheNodesAddressInTheSubnet(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		index := network(t)
		netnstest.Address(t, "far0", "10.88.0.11/24")
		card, err := On(four, []netip.Addr{own})
		require.NoError(t, err)
		require.Equal(t, Card{index, "host0", net.HardwareAddr{2, 0, 0, 0, 0, 1}, true}, card)
		for name, tc := range map[string]struct {
			ip  netip.Addr
			own []netip.Addr
		}{
			"an address in no subnet":              {netip.MustParseAddr("10.99.0.1"), []netip.Addr{own}},
			"an address that is not the node's":    {four, []netip.Addr{netip.MustParseAddr("10.77.0.12")}},
			"a subnet that is not that of the VIP": {four, []netip.Addr{netip.MustParseAddr("10.88.0.11")}},
			"another family":                       {six, []netip.Addr{own}},
		} {
			_, err := On(tc.ip, tc.own)
			require.ErrorContains(t, err, "no interface has an address of this node", name)
		}
	})
}

func TestAnAddressIsAloneDeprecatedAndNeverASource(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		index := network(t)
		require.NoError(t, Put(index, four, 5))
		a, ok := has(t, four)
		require.True(t, ok)
		require.Equal(t, "ffffffff", a.Mask.String())
		require.Equal(t, unix.RT_SCOPE_HOST, a.Scope)
		require.NotZero(t, a.Flags&unix.IFA_F_DEPRECATED)
		require.Zero(t, a.Flags&unix.IFA_F_PERMANENT)

		list, err := nic.Addresses()
		require.NoError(t, err)
		require.Equal(t, []netip.Addr{own}, list, "no program of ours sees it")

		// A node that has lost its own address has none rather than this one.
		link, err := netlink.LinkByIndex(index)
		require.NoError(t, err)
		require.NoError(t, netlink.AddrDel(link, &netlink.Addr{IPNet: &net.IPNet{IP: own.AsSlice(), Mask: net.CIDRMask(24, 32)}}))
		require.NoError(t, netlink.RouteAdd(&netlink.Route{LinkIndex: index, Scope: netlink.SCOPE_LINK, Dst: &net.IPNet{IP: net.IPv4(192, 0, 2, 0).To4(), Mask: net.CIDRMask(24, 32)}}))
		routes, err := netlink.RouteGet(net.IPv4(192, 0, 2, 1))
		require.NoError(t, err)
		require.NotEqual(t, four.String(), routes[0].Src.String())
	})
}

func TestRemovingTellsWhetherThereWasSomething(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		index := network(t)
		for _, ip := range []netip.Addr{four, six} {
			removed, err := Remove(ip)
			require.NoError(t, err)
			require.False(t, removed)
			require.NoError(t, Put(index, ip, 5))
			require.NoError(t, Put(index, ip, 5), "again")
			removed, err = Remove(ip)
			require.NoError(t, err)
			require.True(t, removed)
			_, ok := has(t, ip)
			require.False(t, ok)
		}
		netnstest.Address(t, "far0", "10.77.0.100/24")
		removed, err := Remove(four)
		require.NoError(t, err)
		require.True(t, removed, "however it came there")
		_, ok := has(t, own)
		require.True(t, ok)
	})
}

func TestWhatCannotBePutIsAnError(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		require.ErrorContains(t, Put(network(t), four, 0), "internal error")
		require.ErrorContains(t, Put(9999, four, 5), "put 10.77.0.100 on the interface 9999")
	})
}

// The worst case of Lateness: the kernel has just looked at lifetimes when one ends.
func TestTheKernelTakesTheAddressAwayWithinItsBound(t *testing.T) {
	for _, ip := range []netip.Addr{four, six} {
		t.Run(ip.String()[:2], func(t *testing.T) {
			t.Parallel()
			netnstest.Run(t, func(t *testing.T) {
				index := network(t)
				other := map[bool]netip.Addr{true: netip.MustParseAddr("10.99.0.1"), false: netip.MustParseAddr("fd00:99::1")}[ip.Is4()]
				const lifetime = 2 * time.Second
				var worst time.Duration
				for _, before := range []time.Duration{0, 10 * time.Millisecond, 25 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond} {
					late, starved := lateness(t, index, ip, other, lifetime, before)
					for try := 0; late >= Lateness && starved > starving && try < 5; try++ {
						t.Logf("%s late, on a machine that had no processor for %s; once more", late, starved.Round(time.Millisecond))
						late, starved = lateness(t, index, ip, other, lifetime, before)
					}
					t.Logf("looked %s before the end: %s late", before, late.Round(time.Millisecond))
					worst = max(worst, late)
				}
				require.Less(t, worst, Lateness)
				require.Greater(t, worst, time.Second/2, "the worst case was met; the kernel's timers are not as they were")
			})
		})
	}
}

// starving is how late a sleep of this process may end. Where it ends later, the machine is so busy that the kernel's own
// timers are, too, and nothing is learned about Lateness.
const starving = 30 * time.Millisecond

// lateness is how long an address stays after its lifetime, where the kernel looked at lifetimes just before the end, and
// how late the sleeps of this process were meanwhile.
func lateness(
	t *testing.T, index int, ip, other netip.Addr, lifetime, before time.Duration,
) (late, starved time.Duration) {
	t.Helper()
	const nap = 2 * time.Millisecond
	require.NoError(t, Put(index, ip, int(lifetime/time.Second)))
	began := time.Now()
	sleep := func(d time.Duration) {
		from := time.Now()
		time.Sleep(d)
		starved = max(starved, time.Since(from)-d)
	}
	if before > 0 {
		for time.Since(began) < lifetime-before {
			sleep(min(nap, lifetime-before-time.Since(began)))
		}
		require.NoError(t, Put(index, other, 3600))
	}
	for there := true; there; sleep(nap) {
		_, there = has(t, ip)
		require.Less(t, time.Since(began), 10*lifetime)
	}
	return time.Since(began) - lifetime, starved
}
