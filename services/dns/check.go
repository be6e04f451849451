package dns

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"spore/cluster/check"
)

// maxTTL is a week; longer lives only delay the repair of a mistake.
const maxTTL = 7 * 24 * 3600

// checkSettings checks dns.yaml.
func checkSettings(k *check.Checker, file check.File) {
	s := Of(k.Services)
	k.Between(check.In(file, "ttl"), "the ttl", s.TTL, 0, maxTTL)
	list, at := forwardersOf(k, file, s)
	seen := k.Unique()
	for i, f := range list {
		p := at(i)
		a, ok := k.Address(p, "the forwarder", f)
		if !ok {
			continue
		}
		if node, own := k.ServerOf(a, role); own {
			k.Errorf(p, "the DNS servers would forward foreign names to %s, which is the DNS server %s: a loop; name a resolver outside the cluster in forwarders of services/dns.yaml", a, k.NodeName(node))
		}
		if len(s.Forwarders) > 0 {
			seen.Add(p, "the forwarder", a.String(), "remove one")
		}
	}
	if len(list) == 0 {
		k.Warningf(check.In(file), "there are neither forwarders here nor network.nameservers in cluster.yaml, so only names of the cluster are answered; add forwarders where others are wanted")
	}
	checkRecords(k, file, s)
	checkClients(k, file, s)
	if len(k.MembersOf(role)) == 0 {
		return
	}
	for i, n := range k.Cluster.Nodes {
		if len(n.IPs) == 0 {
			k.Notef(check.In(k.File, "nodes", i), "node %s has no address in cluster.yaml, so the DNS servers have no record of it; add ips where others are to find it by name", check.Clip(n.Name))
		}
	}
}

// checkClients checks the further networks that are answered. One that is answered anyway is a mistake in most cases:
// somebody believes that the list is all that is answered.
func checkClients(k *check.Checker, file check.File, s *Settings) {
	seen := k.Unique()
	for i, c := range s.Clients {
		p := check.In(file, "clients", i)
		n, err := netip.ParsePrefix(c)
		switch {
		case err != nil:
			k.Errorf(p, "the client network %q is not a network; write address/length such as 192.168.20.0/24, with /32 or /128 for one machine", check.Clip(c))
			continue
		case n.Addr().Is4In6():
			k.Errorf(p, "the client network %q is not in plain form; write IPv4 networks such as 192.168.20.0/24", check.Clip(c))
			continue
		case n.Masked() != n:
			k.Errorf(p, "the client network %s is an address inside a network; write the network itself, %s", c, n.Masked())
			continue
		case !seen.Add(p, "the client network", n.String(), "remove one"):
			continue
		}
		for _, other := range slices.Concat(k.Subnets, k.Pods) {
			if other.Bits() <= n.Bits() && other.Contains(n.Addr()) {
				k.Warningf(p, "the client network %s lies in %s, whose machines are answered anyway; remove it", n, other)
			}
		}
		if n.Bits() == 0 {
			k.Warningf(p, "the client network %s contains every address: an attacker can have the DNS servers send answers to others; name the networks that ask", n)
		}
	}
}

// checkRecords checks the further names of the domain against each other and against the nodes.
func checkRecords(k *check.Checker, file check.File, s *Settings) {
	taken := k.Unique()
	for i, n := range k.Cluster.Nodes {
		taken.Seen[cmp.Or(n.Hostname, n.Name)] = check.In(k.File, "nodes", i)
	}
	for i, r := range s.Records {
		p := check.In(file, "records", i)
		if file.Has("records", i, "name") {
			switch name, ok := strings.CutSuffix(strings.TrimSuffix(r.Name, "."), "."+k.Cluster.Domain); {
			case ok:
				k.Errorf(p.Then("name"), "the record %q names the domain; names here are inside it: write %q", check.Clip(r.Name), check.Clip(name))
			case !check.IsDomain(r.Name):
				k.Errorf(p.Then("name"), "the record %q is not a DNS name; write labels of lower-case letters, digits and - with dots between", check.Clip(r.Name))
			default:
				taken.Add(p.Then("name"), "the name", r.Name, "a name has one record (with all its addresses), and nodes have theirs by themselves")
			}
		}
		switch {
		case len(r.Addresses) > 0 && r.CNAME != "":
			k.Errorf(p, "the record has addresses and a cname; an alias has nothing beside it (RFC 1034, section 3.6.2): keep one")
		case len(r.Addresses) == 0 && r.CNAME == "":
			k.Errorf(p, "the record has nothing; write addresses: [10.77.0.20], or cname: and another name")
		}
		addresses := k.Unique()
		for j, a := range r.Addresses {
			q := p.Then("addresses", j)
			if ip, ok := k.Address(q, "the address", a); ok {
				addresses.Add(q, "the address", ip.String(), "remove one")
			}
		}
	}
	for i, r := range s.Records {
		if r.CNAME != "" {
			checkAlias(k, check.In(file, "records", i, "cname"), r, s, taken)
		}
	}
}

// checkAlias checks that an alias points to a name that is there.
func checkAlias(k *check.Checker, p check.Place, r Record, s *Settings, taken check.Unique) {
	target, absolute := strings.CutSuffix(r.CNAME, ".")
	if !check.IsDomain(target) {
		k.Errorf(p, "the cname %q is not a DNS name; write a name of this domain such as edge-01, or another with a dot at its end", check.Clip(r.CNAME))
		return
	}
	inside, ok := strings.CutSuffix(target, "."+k.Cluster.Domain)
	if ok {
		target = inside
	} else if absolute {
		return
	}
	if target == r.Name {
		k.Errorf(p, "the cname %q points to itself; write the name that has the addresses", check.Clip(r.CNAME))
		return
	}
	if _, ok := taken.Seen[target]; !ok {
		known := slices.Sorted(maps.Keys(taken.Seen))
		hint := k.SuggestOf(target, known)
		if hint == "" {
			hint = "; write the host name of a node, a record's name, or a foreign name with a dot at its end"
		}
		k.Errorf(p, "the cname %q is not a name of the domain%s", check.Clip(r.CNAME), hint)
		return
	}
	for _, other := range s.Records {
		if other.Name == target && other.CNAME != "" {
			k.Errorf(p, "the cname %q is an alias itself; point to the name that has the addresses", check.Clip(r.CNAME))
			return
		}
	}
	if i, ok := byHostname(k, target); ok && len(k.Cluster.Nodes[i].IPs) == 0 {
		k.Errorf(p, "the cname %q is node %s, which has no address in cluster.yaml, so the alias leads nowhere; add ips to the node", check.Clip(r.CNAME), k.NodeName(i))
	}
}

func byHostname(k *check.Checker, hostname string) (int, bool) {
	for i, n := range k.Cluster.Nodes {
		if cmp.Or(n.Hostname, n.Name) == hostname {
			return i, true
		}
	}
	return 0, false
}

// forwardersOf returns where the DNS servers' forwarders stand.
func forwardersOf(k *check.Checker, file check.File, s *Settings) ([]string, func(i int) check.Place) {
	if len(s.Forwarders) > 0 {
		return s.Forwarders, func(i int) check.Place { return check.In(file, "forwarders", i) }
	}
	return k.Cluster.Network.Nameservers, func(i int) check.Place { return check.In(k.File, "network", "nameservers", i) }
}
