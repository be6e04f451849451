package cluster

import (
	"fmt"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/services"
	"spore/services/service"
)

// meeting is a port that a setting gives to a program, a port of another one that it meets, and the nodes that run
// both.
type meeting struct {
	program, other string
	port, taken    service.Port
	nodes          []int
}

// checkPorts holds that no setting gives a program a port that something else on its node has. Ports whose numbers
// are fixed never meet: a test of package services holds all of them against each other.
func (k *checker) checkPorts() {
	shared, nodes := Facts(k.c)
	var found []*meeting
	// Nodes that do the same listen at the same ports, and thousands of nodes do only a few things.
	known := map[string][]meeting{}
	for i := range nodes {
		does := fmt.Sprint(nodes[i].Roles, shared.ServesTime(nodes[i].Name))
		if _, ok := known[does]; !ok {
			known[does] = meetings(services.Listening(&shared, &nodes[i]))
		}
		for _, m := range known[does] {
			at := slices.IndexFunc(found, func(f *meeting) bool { return f.program == m.program && f.other == m.other })
			if at < 0 {
				at, found = len(found), append(found, &m)
			}
			found[at].nodes = append(found[at].nodes, i)
		}
	}
	for _, m := range found {
		k.Errorf(k.setting(m.port), "port %d/%s is not free on %s: %s has %s there for %s, %s; write another port, such as %d",
			m.port.First, m.port.Protocol, k.nodeNames(m.nodes), m.other, m.taken, m.taken.For, k.brings(m), k.defaultOf(m.program, m.port))
	}
}

// meetings are the ports of settings that meet others, each pair of programs once.
func meetings(programs []service.Program) []meeting {
	var out []meeting
	for i, p := range programs {
		for j, other := range programs {
			m, ok := meet(p, other)
			if i != j && ok && !slices.ContainsFunc(out, func(o meeting) bool { return o.program == other.Name && o.other == p.Name }) {
				out = append(out, m)
			}
		}
	}
	return out
}

// meet finds the first port of a setting of one program that meets one of the other.
func meet(p, other service.Program) (meeting, bool) {
	for _, port := range p.Ports {
		for _, taken := range other.Ports {
			if port.Setting != "" && port.Meets(taken) {
				return meeting{program: p.Name, other: other.Name, port: port, taken: taken}, true
			}
		}
	}
	return meeting{}, false
}

// setting is where a port's number stands.
func (k *checker) setting(p service.Port) check.Place {
	service, key, _ := strings.Cut(p.Setting, ".")
	return check.In(k.c.services[service], key)
}

// brings says where it stands that the other program of a meeting runs, or has its port.
func (k *checker) brings(m *meeting) string {
	spot := func(p check.Place) string {
		line, column := p.File.At(p.Path...)
		return fmt.Sprintf("%s:%d:%d", p.File.Path(), line, column)
	}
	if m.taken.Setting != "" {
		return "as " + spot(k.setting(m.taken)) + " has it"
	}
	node := m.nodes[0]
	for i, name := range k.Cluster.Nodes[node].Roles {
		if r, ok := k.list.Lookup(name); ok && slices.Contains(r.Programs, m.other) {
			return fmt.Sprintf("by the role %s at %s", name, spot(check.In(k.File, "nodes", node, "roles", i)))
		}
	}
	return "as on every node"
}

// nodeNames is "node a" or "the nodes a, b, c and 7 more".
func (k *checker) nodeNames(nodes []int) string {
	const most = 3
	var names []string
	for _, i := range nodes[:min(most, len(nodes))] {
		names = append(names, k.NodeName(i))
	}
	switch more := len(nodes) - most; {
	case len(nodes) == 1:
		return "node " + names[0]
	case more > 0:
		return fmt.Sprintf("the nodes %s and %d more", strings.Join(names, ", "), more)
	}
	return "the nodes " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// defaultOf is the number that a program's row has for a setting.
func (k *checker) defaultOf(program string, p service.Port) int {
	row, _ := k.list.LookupProgram(program)
	for _, own := range row.Ports {
		if own.Setting == p.Setting {
			return own.First
		}
	}
	return 0
}
