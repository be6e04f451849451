package netboot

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"spore/builder/netboot/dhcp"
	"spore/builder/netboot/roster"
	"spore/cluster/facts"
	"spore/cluster/spec"
)

// network is what the only DHCP server of a network tells, and what it gives out.
func network(n *roster.Nodes, card Card, first, last netip.Addr, now func() time.Time) (dhcp.Network, *dhcp.Leases, error) {
	subnet := card.Prefix.Masked()
	if !slices.ContainsFunc(n.Cluster.Network.NodeSubnets, func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return err == nil && p.Masked() == subnet
	}) {
		return dhcp.Network{}, nil, fmt.Errorf("%s has the address %s, and the nodes' network is %v; give the interface an address of that network (ip address add ADDRESS/%d dev %s), or use --dhcp proxy",
			card.Name, card.Prefix, n.Cluster.Network.NodeSubnets, subnet.Bits(), card.Name)
	}
	if !first.IsValid() {
		first, last = dhcp.DefaultRange(subnet)
	}
	fixed, reserved := addresses(n, card)
	leases, err := dhcp.NewLeases(dhcp.LeaseOptions{Subnet: subnet, First: first, Last: last, Fixed: fixed, Reserved: reserved, Now: now})
	shared := n.Cluster.Network
	return dhcp.Network{
		Subnet: subnet, Domain: n.Cluster.Domain,
		Routers: parseAll(shared.Gateways), DNS: parseAll(shared.Nameservers), NTP: parseAll(shared.NTPServers),
	}, leases, err
}

// addresses are those of the nodes, and those that nobody is to get.
func addresses(n *roster.Nodes, card Card) (fixed []dhcp.Fixed, reserved []netip.Addr) {
	shared := n.Cluster.Network
	reserved = slices.Concat([]netip.Addr{card.Prefix.Addr()},
		parseAll(shared.Gateways), parseAll(shared.Nameservers), parseAll(shared.NTPServers), parseAll([]string{shared.ControlPlaneEndpoint}))
	for _, node := range n.All {
		reserved = append(reserved, parseAll(node.IPs)...)
		fixed = append(fixed, nodeAddresses(node, card.Prefix.Masked())...)
	}
	return fixed, reserved
}

// parseAll leaves out what is no address: time servers may have names, which DHCPv4 has no option for.
func parseAll(list []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range list {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// nodeAddresses are the addresses that the cards of a node get: the card's own, or the bond's for each of its members, of which
// only one asks while a machine boots.
func nodeAddresses(n *facts.Node, subnet netip.Prefix) []dhcp.Fixed {
	var out []dhcp.Fixed
	for _, i := range n.Interfaces {
		a, ok := inside(i.Addresses, subnet)
		macs := cardsOf(i)
		if ok && len(macs) > 0 {
			out = append(out, dhcp.Fixed{MACs: macs, Lease: dhcp.Lease{Address: a, Hostname: n.Hostname}})
		}
	}
	if a, ok := inside(n.IPs, subnet); ok {
		f := dhcp.Fixed{UUID: n.UUID, Lease: dhcp.Lease{Address: a, Hostname: n.Hostname}}
		if len(out) == 0 && len(n.MACs) > 0 {
			f.MACs = n.MACs[:1]
		}
		if f.UUID != "" || f.MACs != nil {
			out = append(out, f)
		}
	}
	return out
}

func cardsOf(i spec.Interface) []string {
	switch {
	case i.MAC != "":
		return []string{i.MAC}
	case i.Bond != nil:
		return i.Bond.Members
	}
	return nil
}

// inside is the first IPv4 address of a list, with or without prefix length, that lies in a network.
func inside(list []string, subnet netip.Prefix) (netip.Addr, bool) {
	for _, text := range list {
		a, err := netip.ParseAddr(text)
		if err != nil {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				continue
			}
			a = p.Addr()
		}
		if subnet.Contains(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}
