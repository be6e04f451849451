package facts

import (
	"slices"
)

// maxTimeNodes bounds the time nodes: two can be lost, and nobody asks more servers than that.
const maxTimeNodes = 3

// TimeNode is a node that the others ask for the time when no server outside of the cluster answers.
type TimeNode struct {
	Name string `json:"name"`
	// IP is the address that it answers at.
	IP string `json:"ip"`
}

// TimeNodes chooses them among the nodes, in the order of cluster.yaml: masters before others, and only those whose address
// is known beforehand. A node that is alone has nobody to tell.
func TimeNodes(nodes []Node) []TimeNode {
	if len(nodes) < 2 {
		return nil
	}
	var masters, others []TimeNode
	for i := range nodes {
		n := &nodes[i]
		switch {
		case len(n.IPs) == 0:
		case slices.Contains(n.Roles, "control-plane"):
			masters = append(masters, TimeNode{n.Name, n.IPs[0]})
		default:
			others = append(others, TimeNode{n.Name, n.IPs[0]})
		}
	}
	out := slices.Concat(masters, others)
	return out[:min(len(out), maxTimeNodes)]
}

// ServesTime tells whether a node is a time node.
func (c *Cluster) ServesTime(node string) bool {
	return slices.ContainsFunc(c.TimeNodes, func(t TimeNode) bool { return t.Name == node })
}

// TimeServers lists whom a node asks for the time, in this order: the servers of cluster.yaml, then the time nodes. A time node asks
// only those before it, so that no circle of nodes follows itself; one whose clock is known to be wrong gives no time to anybody,
// and asks them all. node is empty for a machine that is no node.
func (c *Cluster) TimeServers(node string, wrong bool) []string {
	out := slices.Clone(c.Network.NTPServers)
	rank := slices.IndexFunc(c.TimeNodes, func(t TimeNode) bool { return t.Name == node })
	for i, t := range c.TimeNodes {
		if i != rank && (rank < 0 || i < rank || wrong) && !slices.Contains(out, t.IP) {
			out = append(out, t.IP)
		}
	}
	return out
}
