// Package network has the verb net: how the machine is connected. Interfaces, addresses, routes and neighbours come
// over rtnetlink(7), what switches say of themselves (LLDP, IEEE 802.1AB) from systemd-networkd, which listens to those
// that are bridges or routers (LLDP=routers-only, its default), and DNS servers from resolv.conf(5).
package network

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/wire/machine"
)

// Bounds of an answer.
const (
	maxLinks     = 512
	maxAddresses = 64
	maxRows      = 1000
)

// Show answers with a machine.Network.
func Show(ctx context.Context, r *verbs.Run) (string, error) {
	out := machine.Network{Routes: []machine.Route{}, Neighbours: []machine.Neighbour{}, LLDP: []machine.Station{}}
	links, err := netlink.LinkList()
	if err != nil {
		return "", fmt.Errorf("list interfaces: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	if out.Links, err = describe(r.Machine.Root, links, names); err != nil {
		return "", err
	}
	if out.Routes, err = routes(names); err != nil {
		return "", err
	}
	if out.Neighbours, err = neighbours(names); err != nil {
		return "", err
	}
	out.DNS, out.Search = Resolver(r.Machine.Root)
	if out.LLDP, err = stations(ctx, r.Machine.Root); err != nil {
		out.LLDP, out.Warning = []machine.Station{}, err.Error()
	}
	all := len(out.Links) + len(out.Routes) + len(out.Neighbours)
	out.Links, out.Routes = out.Links[:min(len(out.Links), maxLinks)], out.Routes[:min(len(out.Routes), maxRows)]
	out.Neighbours = out.Neighbours[:min(len(out.Neighbours), maxRows)]
	out.Left = all - len(out.Links) - len(out.Routes) - len(out.Neighbours)
	if err := r.Result(out); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d interfaces, %d routes, %d neighbours, %d that speak LLDP",
		len(out.Links), len(out.Routes), len(out.Neighbours), len(out.LLDP)), nil
}

// describe describes interfaces, in the order of their numbers.
func describe(root paths.Root, links []netlink.Link, names map[int]string) ([]machine.Link, error) {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	addresses := map[int][]string{}
	for _, a := range list {
		if a.IPNet != nil && len(addresses[a.LinkIndex]) < maxAddresses {
			addresses[a.LinkIndex] = append(addresses[a.LinkIndex], a.IPNet.String())
		}
	}
	out := make([]machine.Link, 0, len(links))
	for _, l := range links {
		d := describeOne(root, l, names)
		d.Addresses = addresses[d.Index]
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b machine.Link) int { return a.Index - b.Index })
	return out, nil
}

func describeOne(root paths.Root, l netlink.Link, names map[int]string) machine.Link {
	a := l.Attrs()
	sys := os.DirFS(root.At("/sys/class/net"))
	text := func(file string) string { return blockdev.Text(sys, a.Name+"/"+file) }
	out := machine.Link{
		Index: a.Index, Name: a.Name, Kind: l.Type(), MAC: a.HardwareAddr.String(), Permanent: a.PermHWAddr.String(), MTU: a.MTU,
		Up: a.RawFlags&unix.IFF_UP != 0, Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, Master: names[a.MasterIndex],
	}
	if n, err := strconv.Atoi(text("speed")); err == nil && n > 0 { // -1 where it is not known.
		out.Speed = n
	}
	if d := text("duplex"); d == "full" || d == "half" {
		out.Duplex = d
	}
	switch of := l.(type) {
	case *netlink.Vlan:
		out.Parent, out.VLAN = names[a.ParentIndex], of.VlanId
	case *netlink.Bond:
		out.Mode, out.Active = of.Mode.String(), names[of.ActiveSlave]
	}
	if s := a.Statistics; s != nil {
		out.Counters = machine.Counters{
			ReceivedBytes: s.RxBytes, ReceivedPackets: s.RxPackets, ReceivedErrors: s.RxErrors, ReceivedDropped: s.RxDropped,
			SentBytes: s.TxBytes, SentPackets: s.TxPackets, SentErrors: s.TxErrors, SentDropped: s.TxDropped,
		}
	}
	out.Counters.CarrierChanges, _ = strconv.ParseUint(text("carrier_changes"), 10, 64)
	return out
}

// kinds are names of types of routes (rtnetlink(7)).
var kinds = map[int]string{
	unix.RTN_UNICAST: "unicast", unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable", unix.RTN_PROHIBIT: "prohibit",
	unix.RTN_THROW: "throw", unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast", unix.RTN_MULTICAST: "multicast",
}

// routes are those of the main table: IPv4 first, and the narrowest last.
func routes(names map[int]string) ([]machine.Route, error) {
	out := []machine.Route{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := netlink.RouteList(nil, family)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		slices.SortStableFunc(list, func(a, b netlink.Route) int {
			return cmp.Or(cmp.Compare(ones(a.Dst), ones(b.Dst)), bytes.Compare(start(a.Dst), start(b.Dst)), a.Priority-b.Priority)
		})
		for _, r := range list {
			one := machine.Route{To: map[int]string{netlink.FAMILY_V4: "0.0.0.0/0", netlink.FAMILY_V6: "::/0"}[family],
				Metric: r.Priority, Kind: cmp.Or(kinds[r.Type], strconv.Itoa(r.Type)), Protocol: r.Protocol.String()}
			if r.Dst != nil {
				one.To = r.Dst.String()
			}
			if r.Src != nil {
				one.Source = r.Src.String()
			}
			hops := r.MultiPath
			if len(hops) == 0 {
				hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via}}
			}
			for _, h := range hops {
				one.Link, one.Via = names[h.LinkIndex], via(h)
				out = append(out, one)
			}
		}
	}
	return out, nil
}

// via is the router of a hop; that of an IPv4 route can have an IPv6 address (RFC 5549).
func via(h *netlink.NexthopInfo) string {
	if h.Gw != nil {
		return h.Gw.String()
	}
	if v, ok := h.Via.(*netlink.Via); ok {
		return v.Addr.String()
	}
	return ""
}

func ones(n *net.IPNet) int {
	if n == nil {
		return 0
	}
	length, _ := n.Mask.Size()
	return length
}

func start(n *net.IPNet) []byte {
	if n == nil {
		return nil
	}
	return n.IP
}

// states are names of what the kernel thinks of a neighbour (rtnetlink(7)).
var states = map[int]string{
	netlink.NUD_INCOMPLETE: "incomplete", netlink.NUD_REACHABLE: "reachable", netlink.NUD_STALE: "stale", netlink.NUD_DELAY: "delay",
	netlink.NUD_PROBE: "probe", netlink.NUD_FAILED: "failed", netlink.NUD_PERMANENT: "permanent",
}

// neighbours are those that were asked for by ARP and Neighbour Discovery, or set.
func neighbours(names map[int]string) ([]machine.Neighbour, error) {
	list, err := netlink.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	out := []machine.Neighbour{}
	for _, n := range list {
		if state := states[n.State]; state != "" && n.IP != nil {
			out = append(out, machine.Neighbour{IP: n.IP.String(), MAC: n.HardwareAddr.String(), Link: names[n.LinkIndex], State: state})
		}
	}
	slices.SortFunc(out, func(a, b machine.Neighbour) int {
		return cmp.Or(strings.Compare(a.Link, b.Link), bytes.Compare(net.ParseIP(a.IP), net.ParseIP(b.IP)))
	})
	return out, nil
}
