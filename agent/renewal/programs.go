package renewal

import (
	"maps"
	"slices"
	"time"

	"spore/cluster/facts"
	"spore/pki"
	"spore/services"
	"spore/services/service"
)

// Programs is the table of how programs take what is new, with the rows of the services. A secret that is no
// certificate is taken by a restart, always.
//
// What it says of a program was read in the program's source and is tried by test/services.
func Programs(l *services.List) []service.Renewal {
	rows := []service.Renewal{
		{Program: "api", Leaves: service.Reads, Trust: map[string]service.Way{"agent.crt": service.Reads}}, // reads both for each connection
	}
	for _, s := range l.All() {
		rows = append(rows, s.Renewal...)
	}
	return rows
}

// rowOf is a program's row; one that is not in the table is started again for whatever is new.
func rowOf(l *services.List, program string) service.Renewal {
	for _, r := range Programs(l) {
		if r.Program == program {
			return r
		}
	}
	return service.Renewal{Program: program, Leaves: service.Restarts}
}

// Entries are the names of the bundle's entries that are certificates of the node, and their keys.
func Entries(share pki.Share) map[string]bool {
	out := map[string]bool{}
	for _, l := range share.Leaves {
		if l.Row.Made == service.Operator {
			out[l.Certificate], out[l.Key] = true, true
		}
	}
	return out
}

// Plan says how the programs of a node take what is new: secrets by program, and files of paths.Trust. Programs that
// read by themselves are not in it.
func Plan(l *services.List, share pki.Share, secrets map[string][]string, trust, programs []string) map[string]service.Way {
	leaves, out := Entries(share), map[string]service.Way{}
	for _, name := range programs {
		row, way := rowOf(l, name), service.Reads
		for _, ref := range secrets[name] {
			if leaves[ref] {
				way = max(way, row.Leaves)
			} else {
				way = service.Restarts
			}
		}
		for _, file := range trust {
			way = max(way, row.Trust[file])
		}
		if way > service.Reads {
			out[name] = way
		}
	}
	return out
}

// ProgramsOf are the programs of a node's roles, sorted, each once.
func ProgramsOf(c *facts.Cluster, n *facts.Node) []string {
	out := map[string]bool{}
	for _, name := range services.EveryNode(c) {
		out[name] = true
	}
	for _, name := range n.Roles {
		role, _ := services.Of(c).Lookup(name)
		for _, p := range services.RolePrograms(c, role) {
			out[p.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// Others are the other nodes that a program takes turns with.
func Others(c *facts.Cluster, n *facts.Node, program string) []string {
	turns := rowOf(services.Of(c), program).Turns
	if turns == "" {
		return nil
	}
	role, _ := services.Of(c).Lookup(turns)
	members := slices.Concat(c.Members[turns], c.Members[role.StandIn])
	slices.Sort(members)
	return slices.DeleteFunc(slices.Compact(members), func(name string) bool { return name == n.Name })
}

// Ends is when the first of a node's certificates does; zero when it has none.
func Ends(share pki.Share, have map[string]string) (first time.Time) {
	for _, l := range share.Leaves {
		list, err := certificates(have[l.Certificate])
		if l.Row.Made == service.Operator && err == nil && (first.IsZero() || list[0].NotAfter.Before(first)) {
			first = list[0].NotAfter
		}
	}
	return first
}
