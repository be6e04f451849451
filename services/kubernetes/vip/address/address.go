// Package address gives a network card an address that the kernel takes away again by itself, however the program fares that
// gave it: the address has a lifetime (IFA_CACHEINFO of rtnetlink(7)), and whoever wants it to stay gives it again in time.
//
// Such an address is for those who connect to it and is never one of the node's own. It stands alone (/32, /128) and brings
// no route. Its preferred lifetime is 0, so that the kernel marks it as deprecated (RFC 4862, section 5.5.4) and package nic
// leaves it out. An IPv4 address has the scope "host" besides: the kernel takes no address of a narrower scope than the
// route's as the source of a packet (inet_select_addr in net/ipv4/devinet.c), while "deprecated" means nothing to IPv4.
//
// It does not ask whether another machine has the address; that is for the lock on it.
package address

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Lateness is the most by which the kernel takes an address away later than its lifetime says. It looks at lifetimes from a
// work item that runs at most once a second (ADDRCONF_TIMER_FUZZ_MAX in include/net/addrconf.h), so that an address which ends
// right after such a look waits a second for the next, and that moment is rounded up to a whole second where that costs less
// than a quarter of one (ADDRCONF_TIMER_FUZZ). A processor that is too busy for its work items comes on top.
const Lateness = 1250 * time.Millisecond

// Card is the network card, bond or VLAN that an address belongs on.
type Card struct {
	Index int
	Name  string
	MAC   net.HardwareAddr
	// Carrier says that something answers at the other end of the cable.
	Carrier bool
}

// On finds the interface for an address: the one that has an address of the node in whose subnet it lies.
func On(ip netip.Addr, own []netip.Addr) (Card, error) {
	list, err := netlink.AddrList(nil, family(ip))
	if err != nil {
		return Card{}, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range list {
		have, ok := netip.AddrFromSlice(a.IP)
		if !ok || !slices.Contains(own, have.Unmap()) || !a.Contains(ip.AsSlice()) {
			continue
		}
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			return Card{}, fmt.Errorf("look at the interface of %s: %w", have, err)
		}
		l := link.Attrs()
		if len(l.HardwareAddr) != 6 {
			return Card{}, fmt.Errorf("the interface %s of %s is no Ethernet", l.Name, have)
		}
		return Card{Index: l.Index, Name: l.Name, MAC: l.HardwareAddr, Carrier: l.RawFlags&unix.IFF_LOWER_UP != 0}, nil
	}
	return Card{}, fmt.Errorf("no interface has an address of this node with %s in its subnet yet", ip)
}

// Put gives the address to an interface for a number of seconds from now; on one that has it, they count anew.
func Put(index int, ip netip.Addr, seconds int) error {
	if seconds < 1 {
		return fmt.Errorf("internal error: put %s on the interface %d for %d seconds", ip, index, seconds)
	}
	a := alone(ip)
	a.ValidLft, a.PreferedLft = seconds, 0
	a.Flags = unix.IFA_F_NOPREFIXROUTE
	a.Scope = unix.RT_SCOPE_HOST
	if ip.Is6() {
		// The lock says that nobody else has it, and detection of duplicates would keep it off for seconds.
		a.Flags |= unix.IFA_F_NODAD
		a.Scope = unix.RT_SCOPE_UNIVERSE
	}
	if err := netlink.AddrReplace(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}, a); err != nil {
		return fmt.Errorf("put %s on the interface %d: %w", ip, index, err)
	}
	return nil
}

// Remove takes the address off every interface, and tells whether there was any that had it.
func Remove(ip netip.Addr) (removed bool, err error) {
	list, err := netlink.AddrList(nil, family(ip))
	if err != nil {
		return false, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range list {
		have, ok := netip.AddrFromSlice(a.IP)
		if !ok || have.Unmap() != ip {
			continue
		}
		err := netlink.AddrDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: a.LinkIndex}}, &netlink.Addr{IPNet: a.IPNet})
		// The kernel may have taken it meanwhile.
		if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.ENODEV) {
			return removed, fmt.Errorf("take %s off the interface %d: %w", ip, a.LinkIndex, err)
		}
		removed = true
	}
	return removed, nil
}

// alone is the address with the longest prefix.
func alone(ip netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}}
}

func family(ip netip.Addr) int {
	if ip.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}
