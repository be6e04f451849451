package facts

import (
	"slices"

	"spore/cluster/roles"
)

// nodePorts returns those of a program's ports at which it listens on this node.
func nodePorts(c *Cluster, n *Node, ports []roles.Port) []roles.Port {
	var out []roles.Port
	for _, p := range ports {
		if p.Role == KafkaController && !slices.Contains(c.KafkaControllers(), n.Name) || p.Role == KafkaBroker && !slices.Contains(c.KafkaBrokers(), n.Name) {
			continue
		}
		if number := c.Services.Port(p.Setting); number != 0 {
			p.First = number
		}
		out = append(out, p)
	}
	return out
}

// Listening returns the rows of all that listens on the node: the programs of its roles, those of every node, and the
// system's own.
func Listening(c *Cluster, n *Node) []roles.Program {
	out := NodePrograms(c, n)
	for _, name := range roles.EveryNode() {
		p, _ := roles.LookupProgram(name)
		out = append(out, p)
	}
	for _, p := range roles.System() {
		if p.Name != roles.TimeServer || c.ServesTime(n.Name) {
			out = append(out, p)
		}
	}
	return slices.DeleteFunc(out, func(p roles.Program) bool { return len(p.Ports) == 0 })
}
