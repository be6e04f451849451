// Package rehearsal plans machines that are like those of a cluster, and keeps what they leave behind: each node's
// cards with their MACs, its disks with the names that its node file selects them by, its memory, its place on the
// network.
//
// It starts nothing and knows nothing of consoles: package vm runs what it plans. It cannot make every disk that a
// selector can name; Machine.Missing says which.
package rehearsal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"spore/builder/vm"
	"spore/builder/vm/lan"
	"spore/cluster/facts"
	"spore/services"
	"spore/services/service"
)

// Machine is a machine that is like a node's.
type Machine struct {
	Node *facts.Node
	// NICs are the node's cards on the network of all nodes, and its own way to this host.
	NICs []vm.NIC
	// Disks are those that the node's file names, without their files.
	Disks []Disk
	// Memory is in MiB.
	Memory int
	// Missing says of each disk that cannot be made here why, and what the node will do without.
	Missing []string
}

// Disk is a disk that a node's file names.
type Disk struct {
	// Name is that of its file, without an ending. It comes from what the disk is named by, so that another order in the
	// node's file changes nothing.
	Name string
	// Size is in bytes.
	Size int64
	// Device is what the machine sees, without a file.
	Device vm.Disk
}

// Plan makes machines of the named nodes, in the order of the names. all are the nodes of the cluster.
func Plan(c *facts.Cluster, all []facts.Node, names []string) ([]Machine, error) {
	net, err := plan(c, all)
	if err != nil {
		return nil, err
	}
	var out []Machine
	for _, name := range names {
		n, err := facts.Find(all, name, "the image")
		if err != nil {
			return nil, err
		}
		m := Machine{Node: n, Memory: Memory(c, n)}
		if m.NICs, err = net.cards(c, n); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, d := range n.Disks {
			made, err := disk(d)
			if err != nil {
				m.Missing = append(m.Missing, err.Error())
				continue
			}
			m.Disks = append(m.Disks, made)
		}
		out = append(out, m)
	}
	return out, nil
}

// network is the IPv4 network of the nodes with the addresses of this host in it: two at each node's gateway, and that
// of its own station (package station).
type network struct {
	prefix                       netip.Prefix
	gateway, nameserver, station netip.Addr
	// taken are the addresses that somebody has, macs the hardware addresses.
	taken map[netip.Addr]bool
	macs  map[string]bool
}

// plan takes the gateway and a nameserver of the cluster for the addresses of this host, where no node has them.
func plan(c *facts.Cluster, all []facts.Node) (*network, error) {
	n := &network{taken: map[netip.Addr]bool{}, macs: map[string]bool{}}
	for _, s := range c.Network.NodeSubnets {
		if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is4() {
			n.prefix = p.Masked()
		}
	}
	if !n.prefix.IsValid() {
		return nil, errors.New("a rehearsal needs an IPv4 subnet for nodes: QEMU's user-mode network forwards no ports over IPv6; add one to nodeSubnets in cluster.yaml")
	}
	for i := range all {
		for _, a := range addresses(&all[i]) {
			n.taken[a] = true
		}
		for _, mac := range cardsOf(&all[i]) {
			n.macs[mac] = true
		}
	}
	if a, err := netip.ParseAddr(c.Network.ControlPlaneEndpoint); err == nil {
		n.taken[a] = true
	}
	// The second and third address are those that QEMU would take by itself.
	second := n.prefix.Addr().Next().Next()
	for _, host := range []struct {
		what  string
		of    *netip.Addr
		named []string
		usual netip.Addr
	}{{"gateway", &n.gateway, c.Network.Gateways, second}, {"nameserver", &n.nameserver, c.Network.Nameservers, second.Next()}} {
		a, err := n.take(slices.Concat(host.named, []string{host.usual.String()}))
		if err != nil {
			return nil, fmt.Errorf("%s of the rehearsal: %w", host.what, err)
		}
		*host.of = a
	}
	// Before any node that DHCP gives an address, so that it is the same whichever nodes are started. A network that is
	// full has no room for it, and does without.
	if a, err := n.take(nil); err == nil {
		n.station = a
	}
	return n, nil
}

// Station is who this host is in the network of the nodes: its address there, with the network's prefix, and its card.
// Both are the same for all that rehearse the cluster.
func Station(c *facts.Cluster, all []facts.Node) (netip.Prefix, net.HardwareAddr, error) {
	n, err := plan(c, all)
	if err != nil {
		return netip.Prefix{}, nil, err
	}
	if !n.station.IsValid() {
		return netip.Prefix{}, nil, fmt.Errorf("no address of %s is free for this host; use a larger subnet for the nodes", n.prefix)
	}
	mac, err := net.ParseMAC(n.newMAC("this host")) // no node's name has a space
	return netip.PrefixFrom(n.station, n.prefix.Bits()), mac, err
}

// addresses are all of a node's.
func addresses(n *facts.Node) []netip.Addr {
	var out []netip.Addr
	add := func(s string) {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Addr())
		} else if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, a)
		}
	}
	for _, ip := range n.IPs {
		add(ip)
	}
	for _, i := range n.Interfaces {
		for _, a := range i.Addresses {
			add(a)
		}
	}
	return out
}

// take is the first of the addresses that is of the network and nobody's, else the highest that is nobody's.
func (n *network) take(wanted []string) (netip.Addr, error) {
	usable := func(a netip.Addr) bool {
		return n.prefix.Contains(a) && !n.taken[a] && a != n.prefix.Addr() && a != last(n.prefix)
	}
	for _, s := range wanted {
		if a, err := netip.ParseAddr(s); err == nil && usable(a) {
			n.taken[a] = true
			return a, nil
		}
	}
	for a := last(n.prefix).Prev(); a.IsValid() && n.prefix.Contains(a); a = a.Prev() {
		if usable(a) {
			n.taken[a] = true
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address of %s is free; use a larger subnet for the nodes", n.prefix)
}

// last is the broadcast address of an IPv4 network.
func last(p netip.Prefix) netip.Addr {
	a := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(a)
}

// cards are a node's cards on the network of all nodes and, behind a cable of its own, the user-mode network that gives
// its address or host name to a node that is known by it, and leads to its ports.
func (n *network) cards(c *facts.Cluster, node *facts.Node) ([]vm.NIC, error) {
	var out []vm.NIC
	macs := cardsOf(node)
	if len(macs) == 0 {
		macs = []string{n.newMAC(node.Name)}
	}
	for i, mac := range macs {
		out = append(out, vm.NIC{MAC: mac, Links: []vm.Link{{Name: lan.Card(node.Name, i)}}})
	}
	up := vm.NIC{
		Net: n.prefix.String(), Gateway: n.gateway.String(), Nameserver: n.nameserver.String(), Hostname: node.Hostname,
		Hub: 1, Links: []vm.Link{{Name: lan.Gateway(node.Name)}},
	}
	for _, ip := range node.IPs {
		if a, err := netip.ParseAddr(ip); err == nil && n.prefix.Contains(a) {
			up.DHCPStart = a.String()
			break
		}
	}
	if up.DHCPStart == "" {
		a, err := n.take(nil)
		if err != nil {
			return nil, err
		}
		up.DHCPStart = a.String()
	}
	for _, port := range ports(c, node) {
		number, protocol, _ := strings.Cut(port, "/")
		up.Forwards = append(up.Forwards, vm.Forward{Protocol: protocol, Guest: up.DHCPStart + ":" + number})
	}
	return append(out, up), nil
}

// cardsOf are the MACs of a node's cards: those that it is known by, and what its interfaces are made of.
func cardsOf(n *facts.Node) []string {
	var out []string
	add := func(mac string) {
		if mac = strings.ToLower(mac); mac != "" && !slices.Contains(out, mac) {
			out = append(out, mac)
		}
	}
	for _, mac := range n.MACs {
		add(mac)
	}
	for _, i := range n.Interfaces {
		add(i.MAC)
		if i.Bond != nil {
			for _, mac := range i.Bond.Members {
				add(mac)
			}
		}
	}
	return out
}

// newMAC is the card of a node that no file names one for; it is the same at each boot, and nobody else's.
func (n *network) newMAC(node string) string {
	for try := 0; ; try++ {
		sum := sha256.Sum256([]byte("spore rehearsal card " + strconv.Itoa(try) + " of " + node))
		mac := fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
		if !n.macs[mac] {
			n.macs[mac] = true
			return mac
		}
	}
}

// ports are where others reach what the node runs, as port/protocol: of its roles, and then of every node. Of a
// range, nobody knows beforehand which of its ports are taken.
func ports(c *facts.Cluster, n *facts.Node) []string {
	var out []string
	programs := services.NodePrograms(c, n)
	for _, name := range services.EveryNode(c) {
		p, _ := services.Of(c).LookupProgram(name)
		programs = append(programs, p)
	}
	for _, p := range programs {
		for _, port := range p.Ports {
			if port.At != service.Loopback && !port.IsRange() && !slices.Contains(out, port.String()) {
				out = append(out, port.String())
			}
		}
	}
	return out
}

// Memory is how much memory in MiB a node is given that nobody says otherwise of: what its roles took in tests, and
// room.
func Memory(c *facts.Cluster, n *facts.Node) int {
	const system, least = 512, 1024
	sum := system
	for _, role := range n.Roles {
		switch role {
		default:
			sum += roleMemory(c, n, role)
		}
	}
	return max(least, sum)
}

// roleMemory is what the row of a role's service says, or room for one that says nothing.
func roleMemory(c *facts.Cluster, n *facts.Node, name string) int {
	r, _ := services.Of(c).Lookup(name)
	s, _ := services.Of(c).Find(r.Service)
	if of := s.Memory[name]; of != nil {
		return of(c, n)
	}
	return 768
}
