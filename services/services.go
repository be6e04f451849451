// Package services is the list of the services that a machine can be for: what is particular to one lies in its folder, and
// one line here names it. The lookups walk the list.
package services

import (
	"slices"
	"sync"

	"spore/services/ceph"
	"spore/services/dns"
	"spore/services/kafka"
	"spore/services/kubernetes"
	"spore/services/mqtt"
	"spore/services/service"
)

// list is the list, made once: nodes are looked up by the thousand.
var list = sync.OnceValue(func() []service.Service {
	out := []service.Service{
		mqtt.Service(),
		dns.Service(),
		kubernetes.Service(),
		kafka.Service(),
		ceph.Service(),
	}
	for _, s := range out {
		for i := range s.Roles {
			s.Roles[i].Service = s.Name
		}
	}
	return out
})

// All lists every service. Nobody changes what it holds.
func All() []service.Service { return list() }

// Names lists the names of all services, as cluster.yaml has them.
func Names() []string {
	var out []string
	for _, s := range All() {
		out = append(out, s.Name)
	}
	return out
}

// Find finds a service by its name.
func Find(name string) (service.Service, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return service.Service{}, false
}

// allRoles are the roles of all services.
var allRoles = sync.OnceValue(func() []service.Role {
	var out []service.Role
	for _, s := range All() {
		out = append(out, s.Roles...)
	}
	return out
})

// Roles lists every role.
func Roles() []service.Role { return slices.Clone(allRoles()) }

// Lookup finds a role by its name or alias.
func Lookup(name string) (service.Role, bool) {
	for _, r := range allRoles() {
		if r.Name == name || slices.Contains(r.Aliases, name) {
			return r, true
		}
	}
	return service.Role{}, false
}

// allPrograms are the programs of all services, and of every node.
var allPrograms = sync.OnceValue(func() []service.Program {
	var out []service.Program
	for _, s := range All() {
		out = append(out, s.Programs...)
	}
	return append(out, everyNode()...)
})

// Programs lists every service program that an image can carry.
func Programs() []service.Program { return slices.Clone(allPrograms()) }

// LookupProgram finds a program by its name.
func LookupProgram(name string) (service.Program, bool) {
	for _, p := range allPrograms() {
		if p.Name == name {
			return p, true
		}
	}
	return service.Program{}, false
}

// ProgramsOf returns the rows of the programs that a role runs where these services and parts of services are enabled, in
// the order of the role.
func ProgramsOf(r service.Role, enabled func(name string) bool) []service.Program {
	var out []service.Program
	for _, name := range r.Programs {
		if p, ok := LookupProgram(name); ok && (p.With == "" || enabled(p.With)) {
			out = append(out, p)
		}
	}
	return out
}
