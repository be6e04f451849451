package services

import (
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/services/service"
)

// Members returns the names of the nodes that do what a role is for: those with the role, else those with the role that
// stands in for it.
func Members(c *facts.Cluster, role string) []string {
	if r, ok := Of(c).Lookup(role); ok && len(c.Members[role]) == 0 && r.StandIn != "" {
		return c.Members[r.StandIn]
	}
	return c.Members[role]
}

// nodePorts returns those of a program's ports at which it listens on this node.
func nodePorts(c *facts.Cluster, n *facts.Node, ports []service.Port) []service.Port {
	var out []service.Port
	for _, p := range ports {
		if p.Role != "" && !slices.Contains(Members(c, p.Role), n.Name) {
			continue
		}
		if number := portOf(c, p.Setting); number != 0 {
			p.First = number
		}
		out = append(out, p)
	}
	return out
}

// portOf is the number that a setting with a port gives; 0 when its service is off.
func portOf(c *facts.Cluster, setting string) int {
	name, key, _ := strings.Cut(setting, ".")
	if s, ok := Of(c).Find(name); ok && s.Port != nil && c.Services.Has(name) {
		return s.Port(c.Services, key)
	}
	return 0
}

// Listening returns the rows of all that listens on the node: the programs of its roles, those of every node, and the
// system's own.
func Listening(c *facts.Cluster, n *facts.Node) []service.Program {
	out := append(NodePrograms(c, n), everyNode()...)
	for _, p := range System() {
		if p.Name != TimeServer || c.ServesTime(n.Name) {
			out = append(out, p)
		}
	}
	return slices.DeleteFunc(out, func(p service.Program) bool { return len(p.Ports) == 0 })
}
