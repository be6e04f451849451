package cluster

import (
	"slices"

	"spore/cluster/check"
	"spore/services"
)

// roleNames lists every name that roles may have in cluster.yaml.
func roleNames(l *services.List) []string {
	var out []string
	for _, r := range l.Roles() {
		out = append(append(out, r.Name), r.Aliases...)
	}
	return out
}

// checkRoles checks what the nodes do, and whether that is enough of each.
func (k *checker) checkRoles() {
	listed := !k.File.Faulty(k.File.At("services")) // Otherwise nobody knows which services were meant.
	members := map[string][]int{}
	for i, n := range k.Cluster.Nodes {
		p := check.In(k.File, "nodes", i, "roles")
		if len(n.Roles) == 0 {
			k.Notef(p, "node %s has no role: it boots and runs no service", check.Clip(n.Name))
		}
		seen := map[string]bool{}
		for j, name := range n.Roles {
			r, ok := k.list.Lookup(name)
			if !ok {
				k.OneOf(p.Then(j), "the role", name, roleNames(k.list))
				continue
			}
			if seen[r.Name] {
				k.Errorf(p.Then(j), "the role %q appears twice; remove one", name)
				continue
			}
			seen[r.Name] = true
			members[r.Name] = append(members[r.Name], i)
			if listed && !slices.Contains(k.Cluster.Services, r.Service) {
				k.Errorf(p.Then(j), "the role %q needs the service %s; add it to services, or remove the role", name, r.Service)
			}
		}
	}
	k.checkServicesHaveRoles(members)
	k.checkMembers()
}

func (k *checker) checkServicesHaveRoles(members map[string][]int) {
	for i, service := range k.Cluster.Services {
		var names []string
		some := false
		for _, r := range k.list.Roles() {
			if r.Service == service {
				names = append(names, r.Name)
				some = some || len(members[r.Name]) > 0
			}
		}
		if row, _ := k.list.Find(service); !some && len(names) > 0 && !row.NeedsRoles {
			k.Warningf(check.In(k.File, "services", i), "no node has a role of the service %s; give one the role %s, or remove the service", service, check.OrWords(names))
		}
	}
}

// checkMembers checks the number of nodes of each role that votes or that others depend on.
func (k *checker) checkMembers() {
	for _, s := range k.list.All() {
		if i := slices.Index(k.Cluster.Services, s.Name); i >= 0 && s.Members != nil {
			s.Members(k.Checker, check.In(k.File, "services", i))
		}
		if s.Nodes != nil {
			s.Nodes(k.Checker)
		}
	}
}
