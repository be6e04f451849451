package services

import (
	"slices"

	"spore/cluster/facts"
	"spore/services/service"
)

// Enabled tells whether a service is switched on, by the name that cluster.yaml has for it, and some node runs it; or
// whether a part of such a service is (service.Part).
func Enabled(c *facts.Cluster, name string) bool {
	l := Of(c)
	if s, ok := l.Find(name); ok {
		return on(c, s)
	}
	for _, s := range l.all {
		for _, p := range s.Parts {
			if p.Name == name {
				return on(c, s) && p.On(c)
			}
		}
	}
	return false
}

func on(c *facts.Cluster, s service.Service) bool {
	return c.Services.Has(s.Name) && slices.ContainsFunc(s.Roles, func(r service.Role) bool { return len(c.Members[r.Name]) > 0 })
}

// RolePrograms returns the rows of the programs that a role runs in this cluster, in the order of the role.
func RolePrograms(c *facts.Cluster, r service.Role) []service.Program {
	return Of(c).ProgramsOf(r, func(name string) bool { return Enabled(c, name) })
}

// NodePrograms returns the rows of the programs that the node's roles run in this cluster, and of those that the
// cluster's services have on every node, in the order of the program table. Their ports are those of this node: of its
// roles, with the numbers that settings give.
func NodePrograms(c *facts.Cluster, n *facts.Node) []service.Program {
	l, wanted := Of(c), map[string]bool{}
	for _, name := range n.Roles {
		if r, ok := l.Lookup(name); ok {
			for _, p := range RolePrograms(c, r) {
				wanted[p.Name] = true
			}
		}
	}
	for _, s := range l.all {
		if len(s.EveryNode) > 0 && on(c, s) {
			for _, name := range s.EveryNode {
				wanted[name] = true
			}
		}
	}
	var out []service.Program
	for _, p := range l.programs {
		if wanted[p.Name] {
			p.Ports = nodePorts(c, n, p.Ports)
			out = append(out, p)
		}
	}
	return out
}

// NodeTargets returns the systemd targets of the node's roles, sorted. Roles that the image cannot run have none.
func NodeTargets(c *facts.Cluster, n *facts.Node) []string {
	var out []string
	for _, name := range n.Roles {
		if r, ok := Of(c).Lookup(name); ok && len(r.Programs) > 0 {
			out = append(out, r.Target)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// RunsPods tells whether a role of the node runs pods, which have interfaces and processes on it.
func RunsPods(c *facts.Cluster, n *facts.Node) bool {
	return slices.ContainsFunc(n.Roles, func(name string) bool {
		r, _ := Of(c).Lookup(name)
		return r.RunsPods
	})
}
