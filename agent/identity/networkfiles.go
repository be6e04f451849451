package identity

import (
	"net/netip"

	"spore/agent/arp"
	"spore/agent/network"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/services"
	"spore/storage/atomicfile"
)

// writeNetwork writes the files of networkd for a node, or for DHCP on every card when it is nil. Addresses of used are
// left out.
func writeNetwork(m *node.Machine, c *facts.Cluster, n *facts.Node, used []arp.Used) (changed bool, err error) {
	cards, err := m.Cards()
	if err != nil {
		return false, err
	}
	o := network.Options{
		Current: map[string]bool{}, Withheld: map[netip.Addr]bool{}, SendHostname: n != nil, AskNTP: len(c.Network.NTPServers) == 0,
		Pods: n != nil && services.RunsPods(c, n),
	}
	for _, card := range cards {
		if !card.Permanent {
			o.Current[card.MAC] = true
		}
	}
	for _, u := range used {
		o.Withheld[u.IP] = true
	}
	files := network.Everywhere(o)
	if n != nil {
		files = network.ForNode(n.Interfaces, o)
	}
	return network.Write(m.Root.At(network.Dir), files)
}

// conflicts reads what the last probe found.
func Conflicts(m *node.Machine) []arp.Used {
	var used []arp.Used
	_ = atomicfile.ReadJSON(m.Root.At(paths.Conflicts), &used) // No file means no conflict.
	return used
}
