package network

import (
	"slices"

	"spore/cluster/facts"
	"spore/cluster/spec"
)

// Given gives a node that the configuration gives no network the one that its hypervisor describes. Any other node stays as
// it is: the configuration is verified, and what a hypervisor says is not.
func Given(n *facts.Node, given []spec.Interface) *facts.Node {
	if len(n.Interfaces) > 0 || len(given) == 0 {
		return n
	}
	out := *n
	out.Interfaces = given
	return &out
}

// Complete gives a node that was recognised by a DHCP lease, and of whose cards the configuration knows nothing, the
// addresses that it has there and that DHCP did not give: they go onto the card of that lease, beside what DHCP says. All
// cards go on with DHCP. Any other node stays as it is.
func Complete(c *facts.Cluster, n *facts.Node, leased string, cards, given []string) *facts.Node {
	if leased == "" || len(n.Interfaces) > 0 {
		return n
	}
	var missing []string
	for _, ip := range n.IPs {
		if !slices.Contains(given, ip) {
			missing = append(missing, facts.WithPrefix(c.Network.NodeSubnets, ip))
		}
	}
	if len(missing) == 0 {
		return n
	}
	out := *n
	for _, mac := range cards {
		i := spec.Interface{MAC: mac, DHCP: true}
		if mac == leased {
			i.Addresses = missing
		}
		out.Interfaces = append(out.Interfaces, i)
	}
	return &out
}
