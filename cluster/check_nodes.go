package cluster

import (
	"cmp"

	"spore/cluster/check"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/services"
)

// checkNodes checks how each node is named and recognised. Two nodes that share any sign could not be told apart.
func (k *checker) checkNodes() {
	names, hostnames := k.Unique(), k.Unique()
	signs := map[identity.Kind]check.Unique{identity.MAC: k.Unique(), identity.Serial: k.Unique(), identity.UUID: k.Unique()}
	for i, n := range k.Cluster.Nodes {
		p := check.In(k.File, "nodes", i)
		named := p.File.Has("nodes", i, "name") && k.Label(p.Then("name"), "the node's name", n.Name) &&
			names.Add(p.Then("name"), "the node's name", n.Name, "each node has a name of its own")
		if named || n.Hostname != "" {
			k.checkHostname(hostnames, p, i, n)
		}
		for j, mac := range n.MACs {
			k.sign(signs[identity.MAC], identity.MAC, p.Then("macs", j), "the MAC address", mac)
		}
		for j, ip := range n.IPs {
			q := p.Then("ips", j)
			if a, ok := k.Address(q, "the address", ip); ok && k.inSubnet(q, "the address", a) {
				k.nodeAddress(q, i, a)
			}
		}
		if n.Serial != "" {
			k.sign(signs[identity.Serial], identity.Serial, p.Then("serial"), "the serial number", n.Serial)
		}
		if n.UUID != "" {
			k.sign(signs[identity.UUID], identity.UUID, p.Then("uuid"), "the UUID", n.UUID)
		}
		k.checkRecognition(p, n)
	}
}

func (k *checker) sign(seen check.Unique, kind identity.Kind, p check.Place, what, value string) {
	norm, err := identity.Normalize(kind, value)
	if err != nil {
		k.Errorf(p, "%s %q %v", what, check.Clip(value), err)
		return
	}
	seen.Add(p, what, norm, "two nodes that share it could not be told apart")
}

// checkHostname checks the name that the machine calls itself, which DHCP may recognise it by.
func (k *checker) checkHostname(seen check.Unique, p check.Place, i int, n spec.Node) {
	q := p.Then("name")
	if n.Hostname != "" {
		q = p.Then("hostname")
		if !k.Label(q, "the host name", n.Hostname) {
			return
		}
	}
	hostname := cmp.Or(n.Hostname, n.Name)
	if hostname == "" {
		return
	}
	if hostname == "localhost" || n.Name == "localhost" {
		k.Errorf(q, `the name "localhost" is a name that every machine has; choose another`)
		return
	}
	if fqdn := hostname + "." + k.Cluster.Domain; len(fqdn) > check.MaxName {
		k.Errorf(q, "the full name of the node has %d characters and DNS allows %d; shorten the host name or the domain", len(fqdn), check.MaxName)
		return
	}
	if !seen.Add(q, "the host name", hostname, "two nodes that share it could not be told apart") {
		return
	}
	if other, ok := k.byName[hostname]; ok && other != i && k.Cluster.Nodes[other].Hostname != "" {
		k.Errorf(q, "the host name %q is the name of another node (%s); people and DHCP would confuse them: choose another", hostname, check.In(k.File, "nodes", other, "name").Where())
	}
}

// checkRecognition says what follows from the signs that a node has.
func (k *checker) checkRecognition(p check.Place, n spec.Node) {
	if len(n.MACs) > 0 || n.Serial != "" || n.UUID != "" {
		return
	}
	by := "the address or host name that DHCP gives it"
	if len(n.IPs) == 0 {
		by = "the host name that DHCP gives it"
	}
	if i, ok := k.files[n.Name]; ok && len(k.c.NodeFiles[i].Interfaces) > 0 {
		f := k.c.NodeFiles[i]
		for j, in := range f.Interfaces {
			if in.MAC != "" && !in.DHCP {
				k.Warningf(check.In(k.c.nodeFiles[i], "interfaces", j, "mac"), "node %s is recognised only by %s, although its card is known; add macs: [%q] to it in cluster.yaml, and it needs no DHCP", n.Name, by, check.Clip(in.MAC))
				return
			}
		}
	}
	for _, program := range services.NodePrograms(&facts.Cluster{Services: k.Services, Roles: k.list.Facts()}, &facts.Node{Roles: canonicalRoles(k.list, n.Roles)}) {
		if program.WaitsForSecrets() {
			k.Notef(p, "node %s is recognised only by %s, which is not a proof of identity: %s waits until the node's secrets are on its own state partition or arrive by an approved path; add macs, serial or uuid to avoid this", n.Name, by, program.Name)
			return
		}
	}
	k.Notef(p, "node %s is recognised only by %s, or when somebody chooses it; add macs, serial or uuid unless you want that", n.Name, by)
}
