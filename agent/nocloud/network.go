package nocloud

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"spore/agent/nic"
	"spore/cluster/spec"
)

// Network is what a network-config says, so far as a node has settings for it.
type Network struct {
	Links []Link `json:"links,omitempty"`
	// Nameservers are addresses, Search is the first domain that names are looked up in.
	Nameservers []string `json:"nameservers,omitempty"`
	Search      string   `json:"search,omitempty"`
}

// Link is one Ethernet card.
type Link struct {
	// ID is how the document calls it.
	ID string `json:"id"`
	// MAC is its permanent address, lower case with colons; Name, looked at where there is no MAC, the kernel's name of the
	// card, or a pattern of it such as en*.
	MAC  string `json:"mac,omitempty"`
	Name string `json:"name,omitempty"`
	DHCP bool   `json:"dhcp,omitempty"`
	// Addresses have a prefix length.
	Addresses []string `json:"addresses,omitempty"`
	Gateways  []string `json:"gateways,omitempty"`
	// MTU is in bytes; 0 leaves the driver's.
	MTU int `json:"mtu,omitempty"`
}

// Bounds of a network.
const (
	maxLinks     = 64
	maxAddresses = 64
	minMTU       = 68
	maxMTU       = 65535
)

func (n *Network) equal(other *Network) bool { return reflect.DeepEqual(n, other) }

// WantsDHCP tells whether a card asks for an address.
func (n *Network) WantsDHCP() bool {
	return slices.ContainsFunc(n.Links, func(l Link) bool { return l.DHCP })
}

// Interfaces finds the cards of the links. said names those that this machine does not have, and those that stand for
// more than one card: none of these is taken.
func (n *Network) Interfaces(cards []nic.Card) (out []spec.Interface, said []string) {
	taken := map[string]string{}
	for _, l := range n.Links {
		var found []string
		for _, c := range cards {
			if l.is(c) {
				found = append(found, c.MAC)
			}
		}
		switch {
		case len(found) == 0:
			said = append(said, fmt.Sprintf("%s: %s is no card of this machine", NetworkConfig, l.ID))
			continue
		case len(found) > 1:
			said = append(said, fmt.Sprintf("%s: %s stands for %d cards", NetworkConfig, l.ID, len(found)))
			continue
		case taken[found[0]] != "":
			said = append(said, fmt.Sprintf("%s: %s is the same card as %s", NetworkConfig, l.ID, taken[found[0]]))
			continue
		}
		taken[found[0]] = l.ID
		out = append(out, spec.Interface{MAC: found[0], DHCP: l.DHCP, Addresses: l.Addresses, Gateways: l.Gateways, MTU: l.MTU})
	}
	return out, said
}

func (l Link) is(c nic.Card) bool {
	if l.MAC != "" {
		return l.MAC == c.MAC
	}
	ok, err := path.Match(l.Name, c.Name)
	return err == nil && ok
}

// networkParser reads one document.
type networkParser struct {
	*Found
	out Network
}

func (f *Found) networkConfig(data []byte) error {
	doc, err := document(data)
	if err != nil {
		return err
	}
	// The document may lie under the key network, as in netplan.
	if len(doc.pairs) == 1 && doc.pairs[0].key == "network" {
		if doc, err = doc.pairs[0].mapping(); err != nil {
			return err
		}
	}
	p := networkParser{Found: f}
	version := ""
	for _, pair := range doc.pairs {
		if pair.key == "version" {
			if version, err = pair.scalar(); err != nil {
				return fmt.Errorf("version: %w", err)
			}
		}
	}
	switch version {
	case "1":
		err = p.version1(doc)
	case "2":
		err = p.version2(doc)
	default:
		for _, pair := range doc.pairs {
			if pair.key == "config" {
				if s, _ := pair.scalar(); s == "disabled" {
					f.notTaken("config: disabled")
					return nil
				}
			}
		}
		return fmt.Errorf("its version is %+.16q; 1 and 2 are read", version)
	}
	if err != nil {
		return err
	}
	if len(p.out.Links) > 0 || len(p.out.Nameservers) > 0 {
		f.Network = &p.out
	}
	return nil
}

func (f *Found) notTaken(format string, a ...any) {
	f.NotTaken = append(f.NotTaken, named(NetworkConfig+": ", fmt.Sprintf(format, a...)))
}

// routes takes default routes by a router; others are named.
func (p *networkParser) routes(l *Link, list pair) error {
	return list.each(func(item pair) error { return p.route(l, item) })
}

func (p *networkParser) route(l *Link, item pair) error {
	m, err := item.mapping()
	if err != nil {
		return err
	}
	var to, mask string
	var via *pair
	for _, pair := range m.pairs {
		switch pair.key {
		case "to", "network", "destination":
			to, err = pair.scalar()
		case "netmask":
			mask, err = pair.scalar()
		case "via", "gateway":
			via = &pair
		default:
			p.notTaken("%s.routes.%s", l.ID, pair.key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", pair.key, err)
		}
	}
	all := slices.Contains([]string{"default", "0.0.0.0/0", "::/0"}, to) || (to == "0.0.0.0" || to == "::") && (mask == "0.0.0.0" || mask == "0" || mask == "::")
	if !all || via == nil {
		p.notTaken("%s: the route to %s", l.ID, to)
		return nil
	}
	return l.gateway(*via)
}

// resolver reads nameservers, which lie under a key that each version calls otherwise, and search domains. prefix begins
// the names of keys that are not taken.
func (p *networkParser) resolver(m mapping, addresses, prefix string) error {
	for _, pair := range m.pairs {
		var err error
		switch pair.key {
		case addresses:
			err = p.nameservers(pair)
		case "search":
			err = p.search(pair)
		default:
			p.notTaken("%s%s", prefix, pair.key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", pair.key, err)
		}
	}
	return nil
}

func (p *networkParser) nameservers(list pair) error {
	return list.each(func(item pair) error {
		ip, err := item.ip()
		if err == nil && !slices.Contains(p.out.Nameservers, ip) && len(p.out.Nameservers) < maxAddresses {
			p.out.Nameservers = append(p.out.Nameservers, ip)
		}
		return err
	})
}

func (p *networkParser) search(list pair) error {
	return list.each(func(item pair) error {
		domain, err := item.hostname()
		switch {
		case err != nil:
		case p.out.Search == "":
			p.out.Search = domain
		case p.out.Search != domain:
			p.notTaken("the search domain %s", domain)
		}
		return err
	})
}

func (p *networkParser) add(l Link) error {
	if p.out.Links = append(p.out.Links, l); len(p.out.Links) > maxLinks {
		return fmt.Errorf("it describes more than %d cards", maxLinks)
	}
	return nil
}

// address adds an address with its prefix length.
func (l *Link) address(s string) error {
	p, err := netip.ParsePrefix(s)
	if err != nil || !usable(p.Addr()) {
		return fmt.Errorf("%+.64q is not an address of a card with a prefix length, such as 10.0.0.2/24", s)
	}
	if s = p.String(); !slices.Contains(l.Addresses, s) {
		l.Addresses = append(l.Addresses, s)
	}
	if len(l.Addresses) > maxAddresses {
		return fmt.Errorf("it has more than %d addresses", maxAddresses)
	}
	return nil
}

func (l *Link) gateway(p pair) error {
	ip, err := p.ip()
	if err == nil && !slices.Contains(l.Gateways, ip) {
		l.Gateways = append(l.Gateways, ip)
	}
	if len(l.Gateways) > maxAddresses {
		return fmt.Errorf("it has more than %d routers", maxAddresses)
	}
	return err
}

// usable tells whether an address can be that of a machine.
func usable(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback()
}

func (p pair) ip() (string, error) {
	s, err := p.scalar()
	if err != nil {
		return "", err
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !usable(a) {
		return "", fmt.Errorf("%+.64q is not an address of a machine", s)
	}
	return a.String(), nil
}

func (p pair) mac() (string, error) {
	s, err := p.scalar()
	if err != nil {
		return "", err
	}
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 {
		return "", fmt.Errorf("%+.64q is not a MAC address; put it in quotes, such as \"52:54:00:77:00:0b\"", s)
	}
	return mac.String(), nil
}

func (p pair) mtu() (int, error) {
	s, err := p.scalar()
	if err != nil || s == "" {
		return 0, err
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < minMTU || n > maxMTU {
		return 0, fmt.Errorf("%+.64q is not a number of %d to %d bytes", s, minMTU, maxMTU)
	}
	return n, nil
}

// boolean takes the words of YAML 1.1, which netplan takes.
func (p pair) boolean() (bool, error) {
	s, err := p.scalar()
	if err != nil {
		return false, err
	}
	switch strings.ToLower(s) {
	case "true", "yes", "on", "y":
		return true, nil
	case "false", "no", "off", "n", "":
		return false, nil
	}
	return false, fmt.Errorf("%+.64q is not true or false", s)
}

// cardName is a name of a card, or a pattern of it (path.Match). The kernel's names have at most 15 characters.
func cardName(s string) (string, error) {
	if _, err := path.Match(s, ""); err != nil || len(s) > maxText || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
		return "", fmt.Errorf("%+.64q is not the name of a card", s)
	}
	return s, nil
}

// without is the mapping but for a key.
func (m mapping) without(key string) mapping {
	return mapping{slices.DeleteFunc(slices.Clone(m.pairs), func(p pair) bool { return p.key == key })}
}

// scalar is the value of a key; empty where there is none.
func (m mapping) scalar(key string) (string, error) {
	for _, p := range m.pairs {
		if p.key == key {
			s, err := p.scalar()
			if err != nil {
				return "", fmt.Errorf("%s: %w", key, err)
			}
			return s, nil
		}
	}
	return "", nil
}
