package kickstart

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"spore/cluster/identity"
	"spore/cluster/spec"
)

// modes are the bonding modes of a node's file; a kickstart file may have their numbers.
var modes = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}

// maxName is the longest name of an interface (IFNAMSIZ - 1).
const maxName = 15

// network takes one interface, and the host name.
func (t *Translation) network(c command) {
	t.hostname(c)
	for _, s := range strings.Split(c.get("nameserver"), ",") {
		if s == "" {
			continue
		}
		if a, err := netip.ParseAddr(s); err != nil {
			t.left(c.line, "network --nameserver", shown(s)+" is not an IP address")
		} else if !slices.Contains(t.Nameservers, a.String()) {
			t.Nameservers = append(t.Nameservers, a.String())
		}
	}
	alone := map[string]string{
		"onboot": "every interface of a node's file is up", "activate": "every interface of a node's file is up",
		"noipv6": "an interface has the addresses of the node's file", "noipv4": "an interface has the addresses of the node's file",
		"nodefroute": "leave gateways out, and those of cluster.yaml, where there is no default route",
		"essid":      "there is no wireless network", "wpakey": "there is no wireless network", "wepkey": "there is no wireless network",
		"teamslaves": "there are no teams: write a bond", "teamconfig": "there are no teams: write a bond",
		"bridgeslaves": "there are no bridges", "bridgeopts": "there are no bridges", "no-activate": "every interface of a node's file is up",
		"dhcpclass": "no class is sent", "ethtool": "links are negotiated", "ipv4-dns-search": "the domain is that of cluster.yaml",
		"ipv6-dns-search": "the domain is that of cluster.yaml",
	}
	t.rest(c, []string{
		"device", "bootproto", "ip", "netmask", "gateway", "nameserver", "hostname", "mtu", "bondslaves", "bondopts", "vlanid",
		"interfacename", "ipv6", "ipv6gateway",
	}, alone)
	if c.has("teamslaves") || c.has("bridgeslaves") || !addressed(c) {
		return
	}
	t.add(c)
}

// addressed tells whether a line is about an interface and not about the host name alone.
func addressed(c command) bool {
	return slices.ContainsFunc([]string{"device", "bootproto", "ip", "ipv6", "bondslaves", "vlanid", "mtu"}, c.has)
}

// hostname makes the node's name of the first label.
func (t *Translation) hostname(c command) {
	name := c.get("hostname")
	if name == "" {
		return
	}
	label, _, _ := strings.Cut(strings.ToLower(name), ".")
	if !isLabel(label) {
		t.left(c.line, "network --hostname", shown(name)+" does not begin with a DNS label: write the node's name of cluster.yaml")
		return
	}
	t.Answers.Node, t.why["node"] = label, at(c, "hostname")
}

// isLabel tells whether a text is a DNS label (RFC 1123, section 2.1) in lower case.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') })
}

// add makes the interfaces of a line: a card, a bond, a VLAN, or a bond with a VLAN on it.
func (t *Translation) add(c command) {
	device := c.get("device")
	bottom := Interface{Line: c.line}
	if members := c.get("bondslaves"); members != "" {
		bottom.Name, bottom.Bond = t.name(c, device, "bond0"), t.bond(c, &bottom, members)
	} else {
		bottom.MAC = bottom.card(device)
	}
	id := c.get("vlanid")
	if id == "" {
		t.addresses(c, &bottom.Interface)
		t.Interfaces = append(t.Interfaces, bottom)
		return
	}
	number, err := strconv.Atoi(id)
	if err != nil || number < 1 || number > 4094 {
		t.left(c.line, "network --vlanid", shown(id)+" is not a VLAN: write 1 to 4094")
		return
	}
	vlan := Interface{Line: c.line}
	vlan.Name = t.name(c, c.get("interfacename"), fmt.Sprintf("vlan%d", number))
	parent := bottom.Name
	switch {
	case bottom.Bond != nil:
		t.Interfaces = append(t.Interfaces, bottom)
	case slices.ContainsFunc(t.Interfaces, func(i Interface) bool { return i.Bond != nil && i.Name == device }):
		parent = device
	default:
		parent, vlan.Cards = bottom.MAC, bottom.Cards
		// A card that carries a VLAN alone has an entry of its own, without addresses.
		if !slices.ContainsFunc(t.Interfaces, func(i Interface) bool { return i.MAC == bottom.MAC }) {
			t.Interfaces = append(t.Interfaces, bottom)
		}
	}
	vlan.VLAN = &spec.VLAN{ID: number, Parent: parent}
	t.addresses(c, &vlan.Interface)
	t.Interfaces = append(t.Interfaces, vlan)
}

// name is that of an interface that is made.
func (t *Translation) name(c command, name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	if len(name) > maxName || !plainWord(name) || strings.ContainsAny(name, ":/@+") {
		t.left(c.line, c.name, shown(name)+" cannot be the name of an interface here, which is "+otherwise+" instead")
		return otherwise
	}
	return name
}

func (t *Translation) bond(c command, i *Interface, members string) *spec.Bond {
	b := &spec.Bond{}
	for _, m := range strings.Split(members, ",") {
		if m != "" {
			b.Members = append(b.Members, i.card(m))
		}
	}
	for _, o := range strings.FieldsFunc(c.get("bondopts"), func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(o, "=")
		if n, err := strconv.Atoi(value); err == nil && key == "mode" && n >= 0 && n < len(modes) {
			value = modes[n]
		}
		if key == "mode" && value != "broadcast" && slices.Contains(modes, value) {
			b.Mode = value
			continue
		}
		t.left(c.line, "network --bondopts", shown(key)+": a bond has a mode alone, and not broadcast")
	}
	return b
}

// card is the MAC of a card, or where the file calls it by another name, a word that a person replaces.
func (i *Interface) card(device string) string {
	if mac, err := identity.Normalize(identity.MAC, device); err == nil {
		return mac
	}
	name := device
	if device == "" || device == "link" || device == "bootif" || device == "ibft" || len(device) > maxName || !plainWord(device) {
		name = "CARD"
	}
	if !slices.Contains(i.Cards, name) {
		i.Cards = append(i.Cards, name)
	}
	return "MAC-OF-" + name
}

// addresses are those of an interface.
func (t *Translation) addresses(c command, i *spec.Interface) {
	switch proto := c.get("bootproto"); proto {
	case "static":
	case "", "dhcp", "query", "ibft":
		i.DHCP = c.get("ip") == "" && c.get("ipv6") == ""
		if proto == "query" || proto == "ibft" {
			t.left(c.line, "network --bootproto", proto+": DHCP is written instead")
		}
	default:
		t.left(c.line, "network --bootproto", shown(proto)+" is unknown: write addresses, or dhcp: true")
	}
	if ip := c.get("ip"); ip != "" {
		if p, ok := prefix(ip, c.get("netmask")); ok {
			i.Addresses = append(i.Addresses, p.String())
		} else {
			t.left(c.line, "network --ip", shown(ip)+" with its netmask is not an address of a network: write it such as 10.0.0.5/24")
		}
	}
	switch v6 := c.get("ipv6"); {
	case v6 == "":
	case v6 == "auto" || v6 == "dhcp":
		t.left(c.line, "network --ipv6", v6+": write the addresses")
	default:
		if p, err := netip.ParsePrefix(v6); err == nil && p.Addr().Is6() {
			i.Addresses = append(i.Addresses, p.String())
		} else if a, err := netip.ParseAddr(v6); err == nil && a.Is6() && a.Zone() == "" {
			i.Addresses = append(i.Addresses, netip.PrefixFrom(a, 64).String())
		} else {
			t.left(c.line, "network --ipv6", shown(v6)+" is not an IPv6 address")
		}
	}
	for _, key := range []string{"gateway", "ipv6gateway"} {
		if g := c.get(key); g != "" {
			if a, err := netip.ParseAddr(g); err == nil && a.Zone() == "" {
				i.Gateways = append(i.Gateways, a.String())
			} else {
				t.left(c.line, "network --"+key, shown(g)+" is not an IP address")
			}
		}
	}
	if text := c.get("mtu"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n >= 68 && n <= 65535 {
			i.MTU = n
		} else {
			t.left(c.line, "network --mtu", shown(text)+" is not a size of a packet in bytes")
		}
	}
}

// prefix is an IPv4 address with the length of its netmask.
func prefix(ip, netmask string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(ip); err == nil {
		return p, p.Addr().Is4()
	}
	a, err := netip.ParseAddr(ip)
	m, err2 := netip.ParseAddr(netmask)
	if err != nil || err2 != nil || !a.Is4() || !m.Is4() {
		return netip.Prefix{}, false
	}
	b := m.As4()
	bits := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	n := 0
	for bits&(1<<31) != 0 {
		bits <<= 1
		n++
	}
	return netip.PrefixFrom(a, n), bits == 0
}
