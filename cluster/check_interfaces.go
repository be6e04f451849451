package cluster

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/identity"
	"spore/cluster/spec"
)

// interfaceMACs says which node lists a MAC in cluster.yaml.
func (k *checker) interfaceMACs() map[string]int {
	out := map[string]int{}
	for i, n := range k.Cluster.Nodes {
		for _, mac := range normal(identity.MAC, n.MACs) {
			if _, twice := out[mac]; !twice {
				out[mac] = i
			}
		}
	}
	return out
}

// nodeInterfaces carries the checks of one node's interfaces.
type nodeInterfaces struct {
	k    *checker
	src  *source
	node int
	// cards says which node has a MAC, over all nodes.
	cards map[string]int
	// byMAC and byName find interfaces of this node; usedBy finds bond members.
	byMAC, byName map[string]int
	usedBy        map[string]string
	list          []spec.Interface
}

func (k *checker) checkInterfaces(src *source, node int, list []spec.Interface, cards map[string]int) {
	if len(list) == 0 {
		return
	}
	x := &nodeInterfaces{k: k, src: src, node: node, cards: cards, list: list, byMAC: map[string]int{}, byName: map[string]int{}, usedBy: map[string]string{}}
	for i := range list {
		x.shape(i)
	}
	static := map[netip.Addr]bool{}
	gateways := k.Unique()
	dhcp := false
	for i, f := range list {
		dhcp = dhcp || f.DHCP
		x.bond(i)
		x.vlan(i)
		x.mtu(i)
		prefixes := x.addresses(i, static)
		x.gateways(i, prefixes, gateways)
	}
	if dhcp {
		return
	}
	for j, ip := range k.Cluster.Nodes[node].IPs {
		if a, err := netip.ParseAddr(ip); err == nil && !static[a] {
			k.Errorf(check.In(src, "interfaces"), "the node's address %s (%s) is missing on its interfaces; add it to the addresses of one, or write dhcp: true", a, check.In(k.File, "nodes", node, "ips", j).Where())
		}
	}
}

func (x *nodeInterfaces) place(i int, path ...any) check.Place {
	return check.In(x.src, append([]any{"interfaces", i}, path...)...)
}

// linkName is what the kernel accepts (dev_valid_name) less what is awkward: at most 15 bytes (IFNAMSIZ).
var linkName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,14}$`)

// kernelName is how the kernel and udev name cards (systemd.net-naming-scheme(7)).
var kernelName = regexp.MustCompile(`^(lo|eth[0-9].*|wlan[0-9].*|en[opsxivabucd][0-9a-f].*|wl[opsx][0-9].*)$`)

// shape checks that an interface is a card, a bond or a VLAN, and that it is there once.
func (x *nodeInterfaces) shape(i int) {
	k, f := x.k, x.list[i]
	made := f.Bond != nil || f.VLAN != nil
	switch {
	case f.Bond != nil && f.VLAN != nil:
		k.Errorf(x.place(i), "an interface is a bond or a VLAN, not both; make the bond first, and the VLAN with the bond's name as parent")
	case f.MAC != "" && made:
		k.Errorf(x.place(i, "mac"), "a bond or VLAN is virtual and has no mac; remove mac, and name the cards as bond members or VLAN parent")
	case f.MAC == "" && !made && f.Name != "":
		k.Errorf(x.place(i, "name"), "a card is selected by mac, never by a name such as %q, which changes; write mac: and the card's permanent address", check.Clip(f.Name))
	case f.MAC != "" && f.Name != "":
		k.Errorf(x.place(i, "name"), "a card keeps its own name; remove name (only a bond or VLAN gets one)")
	case f.MAC == "" && !made:
		k.Errorf(x.place(i), "the interface is empty; write mac for a card, or name with bond or vlan")
	case made && f.Name == "":
		k.Errorf(x.place(i), "a bond or VLAN needs a name; write one such as bond0 or plant.20")
	}
	if made && f.Name != "" {
		x.name(i, f.Name)
	}
	if f.MAC != "" {
		x.card(i, f.MAC)
	}
}

func (x *nodeInterfaces) name(i int, name string) {
	p := x.place(i, "name")
	switch first, twice := x.byName[name]; {
	case !linkName.MatchString(name):
		x.k.Errorf(p, "the interface name %q is not valid; write 1 to 15 lower-case letters, digits, -, _ and ., the first a letter", check.Clip(name))
	case kernelName.MatchString(name):
		x.k.Errorf(p, "the interface name %q is one that the kernel gives to cards; choose another, such as bond0", name)
	case twice:
		x.k.Errorf(p, "the interface name %q exists already (%s); names are unique on a node", name, x.place(first).Where())
	default:
		x.byName[name] = i
	}
}

// card checks the MAC of a physical card.
func (x *nodeInterfaces) card(i int, value string) {
	p := x.place(i, "mac")
	mac, err := identity.Normalize(identity.MAC, value)
	if err != nil {
		x.k.Errorf(p, "the MAC address %q %v", check.Clip(value), err)
		return
	}
	if first, twice := x.byMAC[mac]; twice {
		x.k.Errorf(p, "the card %s exists already (%s); put all settings of a card into one entry", mac, x.place(first).Where())
		return
	}
	x.byMAC[mac] = i
	x.mine(p, mac)
}

// mine claims a card for this node.
func (x *nodeInterfaces) mine(p check.Place, mac string) {
	if owner, ok := x.cards[mac]; ok && owner != x.node {
		x.k.Errorf(p, "the card %s belongs to node %s; correct the address", mac, x.k.NodeName(owner))
		return
	}
	x.cards[mac] = x.node
}

var bondModes = []string{"active-backup", "802.3ad", "balance-rr", "balance-xor", "balance-tlb", "balance-alb"}

func (x *nodeInterfaces) bond(i int) {
	b := x.list[i].Bond
	if b == nil {
		return
	}
	if b.Mode != "" {
		x.k.OneOf(x.place(i, "bond", "mode"), "the bond mode", b.Mode, bondModes)
	}
	if x.src.Has("interfaces", i, "bond", "members") && len(b.Members) == 0 {
		x.k.Errorf(x.place(i, "bond", "members"), "a bond needs members; write the MACs of its cards")
	}
	if len(b.Members) == 1 {
		x.k.Warningf(x.place(i, "bond", "members"), "a bond of one card brings nothing; add the second card, or give the card the addresses itself")
	}
	for j, value := range b.Members {
		p := x.place(i, "bond", "members", j)
		mac, err := identity.Normalize(identity.MAC, value)
		if err != nil {
			x.k.Errorf(p, "the bond member %q %v", check.Clip(value), err)
			continue
		}
		if by, taken := x.usedBy[mac]; taken {
			x.k.Errorf(p, "the card %s is a member of %s already; a card belongs to one bond", mac, check.Clip(by))
			continue
		}
		x.usedBy[mac] = x.list[i].Name
		if own, ok := x.byMAC[mac]; ok {
			f := x.list[own]
			if f.DHCP || len(f.Addresses) > 0 || len(f.Gateways) > 0 {
				x.k.Errorf(x.place(own), "the card %s is a member of %s and cannot have addresses of its own; move them to the bond", mac, check.Clip(x.list[i].Name))
			}
		}
		x.mine(p, mac)
	}
}

func (x *nodeInterfaces) vlan(i int) {
	v := x.list[i].VLAN
	if v == nil {
		return
	}
	if x.src.Has("interfaces", i, "vlan", "id") {
		x.k.Between(x.place(i, "vlan", "id"), "the VLAN id", v.ID, 1, 4094) // IEEE 802.1Q, table 9-2
	}
	if !x.src.Has("interfaces", i, "vlan", "parent") {
		return
	}
	p := x.place(i, "vlan", "parent")
	parent, mtu, ok := x.parent(v.Parent)
	if !ok {
		x.k.Errorf(p, "the VLAN's parent %q is not a card or bond of this node; write the MAC of a card or the name of a bond above", check.Clip(v.Parent))
		return
	}
	if by, taken := x.usedBy[parent]; taken {
		x.k.Errorf(p, "the card %s is a member of %s; put the VLAN on the bond: parent: %s", parent, check.Clip(by), check.Clip(by))
		return
	}
	if own := x.list[i].MTU; own > 0 && mtu > 0 && own > mtu {
		x.k.Errorf(x.place(i, "mtu"), "the VLAN's MTU %d is larger than its parent's, %d; lower it or raise the parent's", own, mtu)
	}
	for j, other := range x.list[:i] {
		if other.VLAN == nil || other.VLAN.ID != v.ID {
			continue
		}
		if same, _, ok := x.parent(other.VLAN.Parent); ok && same == parent {
			x.k.Errorf(x.place(i, "vlan", "id"), "VLAN %d of %s exists already (%s); put all its settings into one entry", v.ID, parent, x.place(j).Where())
		}
	}
}

// parent finds what a VLAN may lie on, and its MTU.
func (x *nodeInterfaces) parent(s string) (name string, mtu int, ok bool) {
	if i, ok := x.byName[s]; ok && x.list[i].Bond != nil {
		return s, x.list[i].MTU, true
	}
	mac := normalOrEmpty(identity.MAC, s)
	if mac == "" {
		return "", 0, false
	}
	if i, ok := x.byMAC[mac]; ok {
		return mac, x.list[i].MTU, true
	}
	owner, known := x.cards[mac]
	return mac, 0, known && owner == x.node
}

// MTU bounds: what every IPv4 host must accept (RFC 791), what IPv6 needs (RFC 8200, section 5), and the largest jumbo
// frame that cards and switches share.
const (
	minMTU4 = 576
	minMTU6 = 1280
	maxMTU  = 9216
)

func (x *nodeInterfaces) mtu(i int) {
	f := x.list[i]
	if f.MTU == 0 {
		return
	}
	low := minMTU4
	if slices.ContainsFunc(f.Addresses, func(a string) bool { return strings.Contains(a, ":") }) {
		low = minMTU6
	}
	x.k.Between(x.place(i, "mtu"), "the MTU", f.MTU, low, maxMTU)
}

// addresses checks the static addresses of one interface.
func (x *nodeInterfaces) addresses(i int, static map[netip.Addr]bool) []netip.Prefix {
	var out []netip.Prefix
	for j, s := range x.list[i].Addresses {
		p := x.place(i, "addresses", j)
		n, err := netip.ParsePrefix(s)
		if err != nil {
			x.k.Errorf(p, "%q is not an address with prefix length; write it as %s", check.Clip(s), x.withPrefix(s))
			if a, err := netip.ParseAddr(s); err == nil {
				static[a] = true
			}
			continue
		}
		a, ok := x.k.Address(p, "the address", n.Addr().String())
		if !ok {
			continue
		}
		out = append(out, n)
		if static[a] {
			x.k.Errorf(p, "the address %s is on another interface of this node already; remove one", a)
			continue
		}
		static[a] = true
		x.address(p, n)
	}
	return out
}

// address checks one static address against the rest of the cluster.
func (x *nodeInterfaces) address(p check.Place, n netip.Prefix) {
	a := n.Addr()
	for _, s := range x.k.Subnets {
		if !s.Contains(a) {
			continue
		}
		if n.Bits() != s.Bits() {
			x.k.Errorf(p, "the prefix length of %s differs from that of the node subnet %s; write %s/%d", n, s, a, s.Bits())
			return
		}
		if !x.k.inSubnet(p, "the address", a) {
			return
		}
	}
	owner, known := x.k.Owners[a]
	if known && owner == x.node {
		return
	}
	x.k.nodeAddress(p, x.node, a)
}

// withPrefix is what the user may have meant by an address without prefix length.
func (x *nodeInterfaces) withPrefix(s string) string {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return "10.77.0.5/24"
	}
	for _, n := range x.k.Subnets {
		if n.Contains(a) {
			return netip.PrefixFrom(a, n.Bits()).String()
		}
	}
	if a.Is4() {
		return a.String() + "/24"
	}
	return a.String() + "/64"
}

// gateways checks the default routers of one interface; there is one a family on a node.
func (x *nodeInterfaces) gateways(i int, addresses []netip.Prefix, seen check.Unique) {
	for j, s := range x.list[i].Gateways {
		p := x.place(i, "gateways", j)
		a, ok := x.k.Address(p, "the gateway", s)
		if !ok {
			continue
		}
		if !slices.ContainsFunc(addresses, func(n netip.Prefix) bool { return n.Contains(a) }) {
			x.k.Errorf(p, "the gateway %s lies outside the networks of this interface's addresses; correct it, or move it to the interface that reaches it", a)
			continue
		}
		if slices.ContainsFunc(addresses, func(n netip.Prefix) bool { return n.Addr() == a }) {
			x.k.Errorf(p, "the gateway %s is this interface's own address; write the router's", a)
			continue
		}
		if first, twice := seen.Seen[check.Family(a)]; twice {
			x.k.Warningf(p, "%s is a second %s gateway of this node (first %s); packets will leave by either: keep one", a, check.Family(a), first.Where())
			continue
		}
		seen.Seen[check.Family(a)] = p
	}
}
