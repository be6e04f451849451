// Package nic lists the machine's network cards over netlink (rtnetlink(7)): permanent hardware address, link state and
// addresses. Bonds, VLANs, bridges and other made interfaces are no cards.
package nic

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Card is one network card.
type Card struct {
	// Index and Name are the kernel's; they can change between boots.
	Index int
	Name  string
	// MAC is the permanent address, lower case with colons; never one that was set later.
	MAC string
	// Permanent is false in a container, whose interface has no permanent address and is known by its current one.
	Permanent bool
	// Up says that the interface was brought up, Carrier that something answers at the other end of the cable.
	Up, Carrier bool
}

// List lists the cards, sorted by MAC. container is where systemd says that it runs in a container, usually
// /run/systemd/container; there a veth is taken as a card.
func List(container string) ([]Card, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list network cards: %w", err)
	}
	_, err = os.Stat(container)
	inContainer := err == nil
	var cards []Card
	for _, l := range links {
		if c, ok := card(l, inContainer); ok {
			cards = append(cards, c)
		}
	}
	sort.Slice(cards, func(i, j int) bool {
		return cards[i].MAC < cards[j].MAC || cards[i].MAC == cards[j].MAC && cards[i].Name < cards[j].Name
	})
	return cards, nil
}

// card tells whether a link is a card. A made interface has a kind (IFLA_INFO_KIND), a card has none.
func card(l netlink.Link, inContainer bool) (Card, bool) {
	a := l.Attrs()
	c := Card{
		Index: a.Index, Name: a.Name, MAC: a.PermHWAddr.String(), Permanent: true,
		Up: a.RawFlags&unix.IFF_UP != 0, Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0,
	}
	if a.EncapType != "ether" || a.RawFlags&unix.IFF_LOOPBACK != 0 {
		return Card{}, false
	}
	if inContainer && l.Type() == "veth" {
		c.MAC, c.Permanent = a.HardwareAddr.String(), false
		return c, len(a.HardwareAddr) == 6
	}
	return c, l.Type() == "device" && len(a.PermHWAddr) == 6
}

// Made finds an interface that was made, such as a bond or VLAN, by the name that it was made with. Its MAC is the current
// one; it has no other.
func Made(name string) (Card, bool) {
	l, err := netlink.LinkByName(name)
	if err != nil || l.Attrs().EncapType != "ether" || len(l.Attrs().HardwareAddr) != 6 {
		return Card{}, false
	}
	a := l.Attrs()
	return Card{Index: a.Index, Name: a.Name, MAC: a.HardwareAddr.String(), Up: a.RawFlags&unix.IFF_UP != 0, Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0}, true
}

// SetUp brings a card up.
func SetUp(index int) error {
	if err := netlink.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}); err != nil {
		return fmt.Errorf("bring up the network card with index %d: %w", index, err)
	}
	return nil
}

// Has tells whether an interface has an IPv4 address.
func Has(index int, ip netip.Addr) bool {
	list, err := netlink.AddrList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}, netlink.FAMILY_V4)
	return err == nil && slices.ContainsFunc(list, func(a netlink.Addr) bool { return a.IP.Equal(ip.AsSlice()) })
}

// tunnels are calico's interfaces whose addresses are of the pods' network.
var tunnels = []string{"vxlan.calico", "vxlan-v6.calico"}

// Addresses lists the addresses of all interfaces but the loopback and the pods' tunnels, link-local ones left out, that can
// be used now. A deprecated one is not for new uses (RFC 4862, section 5.5.4): it is the virtual address of the Kubernetes API
// (package vip/address), which comes and goes and is never the node's own.
func Addresses() ([]netip.Addr, error) {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var inner []int
	for _, name := range tunnels {
		if l, err := netlink.LinkByName(name); err == nil {
			inner = append(inner, l.Attrs().Index)
		}
	}
	var out []netip.Addr
	for _, a := range list {
		ip, ok := netip.AddrFromSlice(a.IP)
		ip = ip.Unmap()
		if !ok || ip.IsLoopback() || ip.IsLinkLocalUnicast() || a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DEPRECATED) != 0 || slices.Contains(inner, a.LinkIndex) {
			continue
		}
		out = append(out, ip)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Less(out[j]) })
	return out, nil
}

// ByMAC finds a card by its MAC.
func ByMAC(cards []Card, mac string) (Card, bool) {
	for _, c := range cards {
		if strings.EqualFold(c.MAC, mac) {
			return c, true
		}
	}
	return Card{}, false
}

// Changes delivers a value after links or addresses changed, until done is closed. Changes that come close together are
// one value.
func Changes(done <-chan struct{}) (<-chan struct{}, error) {
	links := make(chan netlink.LinkUpdate, 64)
	addrs := make(chan netlink.AddrUpdate, 64)
	if err := netlink.LinkSubscribe(links, done); err != nil {
		return nil, fmt.Errorf("watch network cards: %w", err)
	}
	if err := netlink.AddrSubscribe(addrs, done); err != nil {
		return nil, fmt.Errorf("watch addresses: %w", err)
	}
	out := make(chan struct{}, 1)
	go func() {
		for links != nil || addrs != nil {
			select {
			case _, ok := <-links:
				if !ok {
					links = nil
				}
			case _, ok := <-addrs:
				if !ok {
					addrs = nil
				}
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, nil
}
