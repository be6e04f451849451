// Package services is the list of the services that a machine can be for: what is particular to one lies in its folder,
// and one line here names it. A configuration may have services of its own behind them (Of).
package services

import (
	"maps"
	"slices"
	"sync"

	"spore/services/ceph"
	"spore/services/dashboard"
	"spore/services/dns"
	"spore/services/kafka"
	"spore/services/kubernetes"
	"spore/services/logs"
	"spore/services/metrics"
	"spore/services/mqtt"
	"spore/services/service"
)

// List is the list of services of a configuration: ours, and behind them those of its roles/. Nobody changes one, nor
// what it holds.
type List struct {
	all      []service.Service
	roles    []service.Role
	programs []service.Program
	// service, role and program find places in those; role has aliases, too.
	service, role, program map[string]int
	words                  map[string]service.Word
	// own are the definitions whose rows stand behind ours.
	own []Definition
}

// Ours is the list of the services that every configuration knows, and that of one without roles of its own.
func Ours() *List { return ours() }

// ours is made once. One line names each service.
var ours = sync.OnceValue(func() *List {
	return newList([]service.Service{
		mqtt.Service(),
		dns.Service(),
		kubernetes.Service(),
		kafka.Service(),
		ceph.Service(),
		metrics.Service(),
		logs.Service(),
		dashboard.Service(),
	}, nil)
})

// newList makes a list of rows whose names are unique.
func newList(rows []service.Service, own []Definition) *List {
	l := &List{
		all: slices.Clone(rows), own: own,
		service: map[string]int{}, role: map[string]int{}, program: map[string]int{}, words: map[string]service.Word{},
	}
	for i := range l.all {
		s := &l.all[i]
		s.Roles = slices.Clone(s.Roles)
		l.service[s.Name] = i
		for j := range s.Roles {
			r := &s.Roles[j]
			r.Service = s.Name
			for _, name := range append([]string{r.Name}, r.Aliases...) {
				l.role[name] = len(l.roles)
			}
			l.roles = append(l.roles, *r)
		}
		l.programs = append(l.programs, s.Programs...)
		maps.Copy(l.words, s.Words)
	}
	l.programs = append(l.programs, everyNode()...)
	for i, p := range l.programs {
		l.program[p.Name] = i
	}
	return l
}

// All lists every service. Nobody changes what it holds.
func (l *List) All() []service.Service { return l.all }

// Names lists the names of all services, as cluster.yaml has them.
func (l *List) Names() []string {
	out := make([]string, len(l.all))
	for i, s := range l.all {
		out[i] = s.Name
	}
	return out
}

// Find finds a service by its name.
func (l *List) Find(name string) (service.Service, bool) {
	if i, ok := l.service[name]; ok {
		return l.all[i], true
	}
	return service.Service{}, false
}

// Roles lists every role.
func (l *List) Roles() []service.Role { return slices.Clone(l.roles) }

// Lookup finds a role by its name or alias.
func (l *List) Lookup(name string) (service.Role, bool) {
	if i, ok := l.role[name]; ok {
		return l.roles[i], true
	}
	return service.Role{}, false
}

// Programs lists every service program that an image can carry: those of the services, and then those of every node.
func (l *List) Programs() []service.Program { return slices.Clone(l.programs) }

// LookupProgram finds a program by its name.
func (l *List) LookupProgram(name string) (service.Program, bool) {
	if i, ok := l.program[name]; ok {
		return l.programs[i], true
	}
	return service.Program{}, false
}

// ProgramsOf returns the rows of the programs that a role runs where these services and parts of services are enabled,
// in the order of the role.
func (l *List) ProgramsOf(r service.Role, enabled func(name string) bool) []service.Program {
	var out []service.Program
	for _, name := range r.Programs {
		if p, ok := l.LookupProgram(name); ok && (p.With == "" || enabled(p.With)) {
			out = append(out, p)
		}
	}
	return out
}

// Words are the words in braces of all services (service.Service.Words). Nobody changes what it holds.
func (l *List) Words() map[string]service.Word { return l.words }
