package rehearsal

import (
	"net/netip"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/dns"
)

// maxAliases bounds how many aliases lead to an address.
const maxAliases = 8

// Names are the names of a cluster and their IPv4 addresses: what a DNS server of the cluster would say, for clusters
// without one, too.
type Names struct {
	domain    string
	addresses map[string][]netip.Addr
	aliases   map[string]string
	// leased are the nodes whose address DHCP gives, by their names.
	leased map[string]string
}

// NewNames collects the names of a cluster: those of nodes, the records of dns.yaml, and those of roles and services,
// as CoreDNS is given them. The earlier of these goes before the later.
func NewNames(c *facts.Cluster, all []facts.Node) *Names {
	n := &Names{domain: "." + strings.ToLower(c.Domain), addresses: map[string][]netip.Addr{}, aliases: map[string]string{}, leased: map[string]string{}}
	own := map[string][]netip.Addr{}
	for i := range all {
		node := &all[i]
		for _, ip := range node.IPs {
			own[node.Name] = append(own[node.Name], parseIPv4(ip)...)
		}
		for _, name := range []string{node.Name, node.Hostname, node.FQDN} {
			if len(node.IPs) == 0 {
				n.leased[n.full(name)] = node.Name
			} else {
				n.add(name, own[node.Name])
			}
		}
	}
	if d := dns.Of(c.Services); d != nil {
		for _, r := range d.Records {
			name := strings.TrimSuffix(strings.ToLower(r.Name), ".") + n.domain // relative, even with a dot
			for _, a := range r.Addresses {
				n.addresses[name] = append(n.addresses[name], parseIPv4(a)...)
			}
			if r.CNAME != "" {
				n.aliases[name] = r.CNAME
			}
		}
	}
	for _, role := range services.Of(c).Roles() {
		var members []netip.Addr
		for _, name := range c.Members[role.Name] {
			members = append(members, own[name]...)
		}
		n.add(role.Name, members)
		if firstRole(c, role.Service) != role.Name {
			continue
		}
		if endpoint := parseIPv4(c.Network.ControlPlaneEndpoint); role.Service == "kubernetes" && len(endpoint) > 0 {
			members = endpoint
		}
		n.add(role.Service, members)
	}
	return n
}

// firstRole is the role that the name of a service stands for: the first of it in the table.
func firstRole(c *facts.Cluster, name string) string {
	s, _ := services.Of(c).Find(name)
	return s.Roles[0].Name
}

// add adds the addresses of a name that has none.
func (n *Names) add(name string, list []netip.Addr) {
	full := n.full(name)
	if len(list) > 0 && len(n.addresses[full]) == 0 && n.aliases[full] == "" {
		n.addresses[full] = slices.Clone(list)
	}
}

// full is a name with its domain, in lower case, without the final dot. One without any dot is of the cluster's domain.
func (n *Names) full(name string) string {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if strings.Contains(name, ".") {
		return name
	}
	return name + n.domain
}

// Lookup is the addresses of a host, which may be an address itself; none where the cluster does not know it. leased
// tells the address that DHCP has given to a node.
func (n *Names) Lookup(host string, leased func(node string) []netip.Addr) []netip.Addr {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}
	}
	name := n.full(host)
	for range maxAliases {
		target, alias := n.aliases[name]
		if !alias {
			break
		}
		// It is relative to the domain unless it ends with a dot, as dns.yaml has it.
		if name = strings.ToLower(target); strings.HasSuffix(name, ".") {
			name = strings.TrimSuffix(name, ".")
		} else {
			name += n.domain
		}
	}
	if node, ok := n.leased[name]; ok {
		return leased(node)
	}
	return n.addresses[name]
}

func parseIPv4(text string) []netip.Addr {
	if a, err := netip.ParseAddr(text); err == nil && a.Unmap().Is4() {
		return []netip.Addr{a.Unmap()}
	}
	return nil
}

// Leased are the addresses that DHCP has given to a node's machine, whoever started it.
func (f Folder) Leased(node string) []netip.Addr {
	for _, forward := range f.Forwards(node) {
		if a, err := netip.ParseAddrPort(forward.Guest); err == nil {
			return []netip.Addr{a.Addr()}
		}
	}
	return nil
}
