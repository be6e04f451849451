package cluster

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"spore/services/dns"
)

// maxTTL is a week; longer lives only delay the repair of a mistake.
const maxTTL = 7 * 24 * 3600

func (k *checker) checkDNS(src *source, s *dns.Settings) {
	k.between(in(src, "ttl"), "the ttl", s.TTL, 0, maxTTL)
	list, at := k.forwardersOf(src, s)
	seen := k.unique()
	for i, f := range list {
		p := at(i)
		a, ok := k.address(p, "the forwarder", f)
		if !ok {
			continue
		}
		if node, own := k.serverOf(a, "dns-server"); own {
			k.errorf(p, "the DNS servers would forward foreign names to %s, which is the DNS server %s: a loop; name a resolver outside the cluster in forwarders of services/dns.yaml", a, k.nodeName(node))
		}
		if len(s.Forwarders) > 0 {
			seen.add(p, "the forwarder", a.String(), "remove one")
		}
	}
	if len(list) == 0 {
		k.warningf(in(src), "there are neither forwarders here nor network.nameservers in cluster.yaml, so only names of the cluster are answered; add forwarders where others are wanted")
	}
	k.checkRecords(src, s)
	k.checkClients(src, s)
	if !k.inService("dns") {
		return
	}
	for i, n := range k.c.Cluster.Nodes {
		if len(n.IPs) == 0 {
			k.notef(in(k.c.cluster, "nodes", i), "node %s has no address in cluster.yaml, so the DNS servers have no record of it; add ips where others are to find it by name", clip(n.Name))
		}
	}
}

// checkClients checks the further networks that are answered. One that is answered anyway is a mistake in most cases:
// somebody believes that the list is all that is answered.
func (k *checker) checkClients(src *source, s *dns.Settings) {
	seen := k.unique()
	for i, c := range s.Clients {
		p := in(src, "clients", i)
		n, err := netip.ParsePrefix(c)
		switch {
		case err != nil:
			k.errorf(p, "the client network %q is not a network; write address/length such as 192.168.20.0/24, with /32 or /128 for one machine", clip(c))
			continue
		case n.Addr().Is4In6():
			k.errorf(p, "the client network %q is not in plain form; write IPv4 networks such as 192.168.20.0/24", clip(c))
			continue
		case n.Masked() != n:
			k.errorf(p, "the client network %s is an address inside a network; write the network itself, %s", c, n.Masked())
			continue
		case !seen.add(p, "the client network", n.String(), "remove one"):
			continue
		}
		for _, other := range slices.Concat(k.subnets, k.pods) {
			if other.Bits() <= n.Bits() && other.Contains(n.Addr()) {
				k.warningf(p, "the client network %s lies in %s, whose machines are answered anyway; remove it", n, other)
			}
		}
		if n.Bits() == 0 {
			k.warningf(p, "the client network %s is everybody: whoever reaches the DNS servers can have them send answers to others; name the networks that ask", n)
		}
	}
}

// checkRecords checks the further names of the domain against each other and against the nodes.
func (k *checker) checkRecords(src *source, s *dns.Settings) {
	taken := k.unique()
	for i, n := range k.c.Cluster.Nodes {
		taken.seen[cmp.Or(n.Hostname, n.Name)] = in(k.c.cluster, "nodes", i)
	}
	for i, r := range s.Records {
		p := in(src, "records", i)
		if src.has("records", i, "name") {
			switch name, ok := strings.CutSuffix(strings.TrimSuffix(r.Name, "."), "."+k.c.Cluster.Domain); {
			case ok:
				k.errorf(p.then("name"), "the record %q names the domain; names here are inside it: write %q", clip(r.Name), clip(name))
			case !isDomain(r.Name):
				k.errorf(p.then("name"), "the record %q is not a DNS name; write labels of lower-case letters, digits and - with dots between", clip(r.Name))
			default:
				taken.add(p.then("name"), "the name", r.Name, "a name has one record (with all its addresses), and nodes have theirs by themselves")
			}
		}
		switch {
		case len(r.Addresses) > 0 && r.CNAME != "":
			k.errorf(p, "the record has addresses and a cname; an alias has nothing beside it (RFC 1034, section 3.6.2): keep one")
		case len(r.Addresses) == 0 && r.CNAME == "":
			k.errorf(p, "the record has nothing; write addresses: [10.77.0.20], or cname: and another name")
		}
		addresses := k.unique()
		for j, a := range r.Addresses {
			q := p.then("addresses", j)
			if ip, ok := k.address(q, "the address", a); ok {
				addresses.add(q, "the address", ip.String(), "remove one")
			}
		}
	}
	for i, r := range s.Records {
		if r.CNAME != "" {
			k.checkAlias(in(src, "records", i, "cname"), r, s, taken)
		}
	}
}

// checkAlias checks that an alias points to a name that is there.
func (k *checker) checkAlias(p place, r dns.Record, s *dns.Settings, taken unique) {
	target, absolute := strings.CutSuffix(r.CNAME, ".")
	if !isDomain(target) {
		k.errorf(p, "the cname %q is not a DNS name; write a name of this domain such as edge-01, or another with a dot at its end", clip(r.CNAME))
		return
	}
	inside, ok := strings.CutSuffix(target, "."+k.c.Cluster.Domain)
	if ok {
		target = inside
	} else if absolute {
		return
	}
	if target == r.Name {
		k.errorf(p, "the cname %q points to itself; write the name that has the addresses", clip(r.CNAME))
		return
	}
	if _, ok := taken.seen[target]; !ok {
		var known []string
		for name := range taken.seen {
			known = append(known, name)
		}
		slices.Sort(known)
		hint := k.suggestOf(target, known)
		if hint == "" {
			hint = "; write the host name of a node, a record's name, or a foreign name with a dot at its end"
		}
		k.errorf(p, "the cname %q is no name of the domain%s", clip(r.CNAME), hint)
		return
	}
	for _, other := range s.Records {
		if other.Name == target && other.CNAME != "" {
			k.errorf(p, "the cname %q is an alias itself; point to the name that has the addresses", clip(r.CNAME))
			return
		}
	}
	if i, ok := k.byHostname(target); ok && len(k.c.Cluster.Nodes[i].IPs) == 0 {
		k.errorf(p, "the cname %q is node %s, which has no address in cluster.yaml, so the alias leads nowhere; add ips to the node", clip(r.CNAME), k.nodeName(i))
	}
}

func (k *checker) byHostname(hostname string) (int, bool) {
	for i, n := range k.c.Cluster.Nodes {
		if cmp.Or(n.Hostname, n.Name) == hostname {
			return i, true
		}
	}
	return 0, false
}
