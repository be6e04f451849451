package cluster

import (
	"net/netip"
	"slices"

	"spore/cluster/check"
)

func (k *checker) checkNetwork() {
	src, n := k.c.cluster, &k.Cluster.Network
	k.reserved, k.Owners = map[netip.Addr]string{}, map[netip.Addr]int{}
	k.Subnets = k.prefixes("nodeSubnets", n.NodeSubnets)
	k.Pods = k.prefixes("podCIDRs", n.PodCIDRs)
	k.ServiceNets = k.prefixes("serviceCIDRs", n.ServiceCIDRs)
	if src.Has("network", "nodeSubnets") && len(n.NodeSubnets) == 0 {
		k.Errorf(check.In(src, "network", "nodeSubnets"), "there is no node subnet; write the prefix that the nodes' addresses come from, such as [10.77.0.0/24]")
	}
	k.checkOverlaps()
	k.checkGateways()
	k.checkNameservers()
	k.checkTimeServers()
	k.checkEnroll()
	k.checkEndpoint()
}

// prefixes parses a list of networks under network.
func (k *checker) prefixes(key string, list []string) []netip.Prefix {
	var out []netip.Prefix
	families := map[bool]string{}
	for i, s := range list {
		p := check.In(k.File, "network", key, i)
		n, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			k.Errorf(p, "%q is not a network; write address/length such as 10.77.0.0/24", check.Clip(s))
			continue
		case n.Masked() != n:
			k.Errorf(p, "%s is an address inside a network; write the network itself, %s", s, n.Masked())
			continue
		case n.Addr().IsLoopback() || n.Addr().IsMulticast() || n.Addr().IsLinkLocalUnicast() || n.Bits() == 0:
			k.Errorf(p, "%s cannot hold addresses of machines; write a private network such as 10.77.0.0/24", s)
			continue
		case n.Bits() > n.Addr().BitLen()-2:
			k.Errorf(p, "%s has no room for two machines; write a shorter prefix length", s)
			continue
		}
		if first, twice := families[n.Addr().Is4()]; twice {
			k.Errorf(p, "%s is the second %s network of %s after %s; write at most one for each address family", s, check.Family(n.Addr()), key, first)
			continue
		}
		families[n.Addr().Is4()] = s
		out = append(out, n)
	}
	return out
}

func (k *checker) checkOverlaps() {
	groups := []struct {
		key  string
		list []netip.Prefix
	}{{"nodeSubnets", k.Subnets}, {"podCIDRs", k.Pods}, {"serviceCIDRs", k.ServiceNets}}
	var clash []netip.Prefix
	for i, a := range groups {
		for _, b := range groups[i+1:] {
			for _, x := range a.list {
				for _, y := range b.list {
					if x.Overlaps(y) {
						j := slices.Index(k.NetworkList(b.key), y.String())
						clash = append(clash, y)
						k.Errorf(check.In(k.File, "network", b.key, max(j, 0)), "%s of %s overlaps %s of %s; packets would go to the wrong network: choose separate networks", y, b.key, x, a.key)
					}
				}
			}
		}
	}
	// What was reported here is not reported again for each address inside.
	known := func(n netip.Prefix) bool { return slices.Contains(clash, n) }
	k.Pods, k.ServiceNets = slices.DeleteFunc(k.Pods, known), slices.DeleteFunc(k.ServiceNets, known)
}

// inSubnet checks that an address is one that a machine of a node subnet can have.
func (k *checker) inSubnet(p check.Place, what string, a netip.Addr) bool {
	var same []netip.Prefix
	for _, s := range k.Subnets {
		if s.Contains(a) {
			if a == s.Addr() || a.Is4() && a == broadcast(s) {
				k.Errorf(p, "%s %s is the network or broadcast address of %s; choose one between", what, a, s)
				return false
			}
			return true
		}
		same = append(same, s)
	}
	if len(same) > 0 { // Otherwise the subnets are wrong themselves, which was said.
		k.Errorf(p, "%s %s lies outside the node subnets %v; choose an address inside, or correct network.nodeSubnets", what, a, same)
	}
	return false
}

// broadcast is the last address of an IPv4 network.
func broadcast(n netip.Prefix) netip.Addr {
	b := n.Addr().As4()
	for i := n.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// outside checks that an address of the real network is not one that Kubernetes gives out.
func (k *checker) outside(p check.Place, what string, a netip.Addr) {
	for _, n := range slices.Concat(k.Pods, k.ServiceNets) {
		if n.Contains(a) {
			k.Errorf(p, "%s %s lies inside %s, which Kubernetes gives to pods and services; choose another network for one of them", what, a, n)
		}
	}
}

func (k *checker) checkGateways() {
	families := map[bool]bool{}
	for i, s := range k.Cluster.Network.Gateways {
		p := check.In(k.File, "network", "gateways", i)
		a, ok := k.Address(p, "the gateway", s)
		if !ok || !k.inSubnet(p, "the gateway", a) {
			continue
		}
		if families[a.Is4()] {
			k.Errorf(p, "%s is the second %s gateway; write at most one for each address family", a, check.Family(a))
		}
		families[a.Is4()] = true
		k.reserved[a] = "the gateway"
	}
}

// maxNameservers is MAXNS of glibc, resolv.conf(5).
const maxNameservers = 3

func (k *checker) checkNameservers() {
	seen := k.Unique()
	for i, s := range k.Cluster.Network.Nameservers {
		p := check.In(k.File, "network", "nameservers", i)
		a, ok := k.Address(p, "the nameserver", s)
		if !ok || !seen.Add(p, "the nameserver", a.String(), "remove one") {
			continue
		}
		k.outside(p, "the nameserver", a)
		if i == maxNameservers {
			k.Warningf(p, "%s and what follows is never asked: programs read the first %d nameservers only (resolv.conf(5))", a, maxNameservers)
		}
	}
}

func (k *checker) checkTimeServers() {
	seen := k.Unique()
	for i, s := range k.Cluster.Network.NTPServers {
		p := check.In(k.File, "network", "ntpServers", i)
		if _, err := netip.ParseAddr(s); err == nil {
			if a, ok := k.Address(p, "the time server", s); ok {
				k.outside(p, "the time server", a)
			}
		} else if !check.IsDomain(s) {
			k.Errorf(p, "the time server %q is neither an IP address nor a DNS name; write one such as 10.77.0.2 or ntp.example.org", check.Clip(s))
			continue
		}
		seen.Add(p, "the time server", s, "remove one")
	}
}

// checkEndpoint checks the virtual address of the Kubernetes API.
func (k *checker) checkEndpoint() {
	s := k.Cluster.Network.ControlPlaneEndpoint
	if s == "" {
		return
	}
	p := check.In(k.File, "network", "controlPlaneEndpoint")
	if !slices.Contains(k.Cluster.Services, "kubernetes") && !p.File.Faulty(p.File.At("services")) {
		k.Warningf(p, "controlPlaneEndpoint has no use without the service kubernetes; remove it or add the service")
	}
	a, ok := k.Address(p, "controlPlaneEndpoint", s)
	if !ok || !k.inSubnet(p, "controlPlaneEndpoint", a) {
		return
	}
	if what := k.reserved[a]; what != "" {
		k.Errorf(p, "controlPlaneEndpoint %s is %s; choose a free address of the node subnet", a, what)
		return
	}
	if slices.Contains(k.Cluster.Network.Nameservers, a.String()) {
		k.Errorf(p, "controlPlaneEndpoint %s is a nameserver too; choose a free address of the node subnet", a)
	}
	k.reserved[a] = "the control-plane endpoint (VIP)"
}

// nodeAddress checks one address of a node against everything else that has addresses.
func (k *checker) nodeAddress(p check.Place, node int, a netip.Addr) {
	if what := k.reserved[a]; what != "" {
		k.Errorf(p, "the address %s is %s; give the node its own address", a, what)
		return
	}
	if other, taken := k.Owners[a]; taken {
		k.Errorf(p, "the address %s belongs to node %s already (%s); an address belongs to one node", a, k.NodeName(other), check.In(k.File, "nodes", other).Where())
		return
	}
	k.Owners[a] = node
	k.outside(p, "the address", a)
	if slices.Contains(k.Cluster.Network.Nameservers, a.String()) && !k.HasRole(node, "dns-server") {
		k.Errorf(p, "the address %s is in network.nameservers, but node %s has no role dns-server: nothing would answer; add the role or correct the address", a, k.NodeName(node))
	}
	if slices.Contains(k.Cluster.Network.NTPServers, a.String()) {
		k.Warningf(p, "the address %s is in network.ntpServers, but nodes ask each other by themselves; name time servers outside of the cluster", a)
	}
}
