package rules

import (
	"cmp"
	"path"

	"spore/cluster/role"
	"spore/services/service"
	"spore/units"
)

// RestOf is what services have that a role must not take. rows are all services but those of roles; on tells which of
// them the configuration lists: of the others, names alone are taken. everyNode are programs of every node.
func RestOf(rows []service.Service, on func(name string) bool, everyNode []service.Program) Rest {
	r := Rest{
		Names: map[string]string{}, Units: map[string]string{}, Users: map[string]string{},
		Paths: map[string]string{}, Secrets: map[string]string{},
		Authorities: map[string]string{}, Off: map[string]bool{},
	}
	const node = "the node itself"
	for _, p := range everyNode {
		addProgram(&r, p, node, nil)
	}
	for _, name := range nodeAuthorities {
		r.Authorities[name], r.Secrets[name+"-ca-key"] = node, node
	}
	r.Secrets[recoveryKey] = node
	for _, s := range rows {
		whose := "the service " + s.Name
		r.Names[s.Name] = whose
		for _, one := range s.Roles {
			for _, name := range append([]string{one.Name}, one.Aliases...) {
				r.Names[name] = whose
			}
		}
		for _, p := range s.Programs {
			r.Names[p.Name] = whose
		}
		if !on(s.Name) {
			for _, p := range s.Programs {
				r.Off[p.Unit] = true
			}
			continue
		}
		for _, one := range s.Roles {
			r.Units[one.Target] = whose
		}
		addPaths(&r, s.Name, whose)
		for _, p := range s.Programs {
			addProgram(&r, p, whose, rolesOf(s, p.Name))
		}
		for _, a := range s.Authorities {
			r.Authorities[a.Name] = whose
			r.Secrets[a.Name+"-ca-key"] = whose
		}
		for _, l := range s.Leaves {
			r.Secrets[cmp.Or(l.Certificate, l.Name+role.CertificateEnding)] = whose
			r.Secrets[cmp.Or(l.Key, l.Name+role.KeyEnding)] = whose
		}
		for _, e := range s.Secrets {
			r.Secrets[e.Name], r.Secrets[e.Entry] = whose, whose
		}
	}
	delete(r.Secrets, "")
	addDirectories(&r, node)
	return r
}

// addDirectories adds what systemd makes for our units, but for those of services that are off.
func addDirectories(r *Rest, node string) {
	for _, u := range units.Names() {
		if r.Off[u] {
			continue
		}
		for _, dir := range units.Directories(u) {
			if r.Paths[dir] == "" {
				r.Paths[dir] = cmp.Or(r.Units[u], node)
			}
		}
	}
}

// What package pki makes for every cluster.
var nodeAuthorities = []string{"root", "signing", "agent"}

const recoveryKey = "state-recovery-key"

// addPaths adds where services and programs have their directories, by their names.
func addPaths(r *Rest, name, whose string) {
	for _, dir := range []string{"/etc", "/run", "/var/lib"} {
		r.Paths[path.Join(dir, name)] = whose
	}
}

func addProgram(r *Rest, p service.Program, whose string, roles []string) {
	r.Names[p.Name] = whose
	r.Units[p.Unit] = whose
	addPaths(r, p.Name, whose)
	if p.User != "root" && p.User != "" {
		r.Users[p.User] = whose
	}
	for _, entry := range p.Secrets {
		r.Secrets[entry] = whose
	}
	for _, port := range p.Ports {
		of := roles
		if port.Role != "" {
			of = []string{port.Role}
		}
		r.Ports = append(r.Ports, Listener{
			Protocol: port.Protocol, First: port.First, Last: max(port.First, port.Last), At: scopeWords[port.At],
			Whose: p.Name + " of " + whose, Roles: of,
		})
	}
}

var scopeWords = map[service.Scope]string{service.Everywhere: role.Everywhere, service.Node: role.Node,
	service.Loopback: role.Loopback}

// rolesOf are the roles that run a program.
func rolesOf(s service.Service, program string) []string {
	var out []string
	for _, r := range s.Roles {
		for _, name := range r.Programs {
			if name == program {
				out = append(out, r.Name)
			}
		}
	}
	return out
}
