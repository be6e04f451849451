package services

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spore/services/service"
)

// Clash is what a row of a configuration's own would take from another one.
type Clash struct {
	// Service is the row that is left out.
	Service string
	// What both have, such as "the unit valkey.service".
	What string
	// Other has it: a service, or nothing for what every machine has.
	Other string
}

// Error says it with what to do.
func (c Clash) Error() string {
	other := cmp.Or(c.Other, "every machine")
	return fmt.Sprintf("the role %s has %s, which is that of %s; choose another", c.Service, c.What, other)
}

// Clashes are all that the rows of a configuration would take, in their order.
type Clashes []Clash

// Error has one a line.
func (c Clashes) Error() string {
	lines := make([]string, len(c))
	for i := range c {
		lines[i] = c[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single ones to errors.As.
func (c Clashes) Unwrap() []error {
	out := make([]error, len(c))
	for i := range c {
		out[i] = c[i]
	}
	return out
}

// claims has who has what: names by what they are of, and ports of every machine.
type claims struct {
	names map[string]string
	ports []service.Port
}

// newClaims has what every machine has, and the names in our list.
func newClaims() *claims {
	every := everyMachine()
	c := &claims{names: map[string]string{}}
	for _, what := range append(namesIn(every), thingsOf(every)...) {
		c.names[what] = ""
	}
	for _, p := range every.Programs {
		c.ports = append(c.ports, p.Ports...)
	}
	for _, s := range Ours().all {
		c.add(s)
	}
	return c
}

// everyMachine has what is there without any service. Of what package pki makes for every cluster it has the names.
func everyMachine() service.Service {
	return service.Service{
		Programs: append(append(everyNode(), System()...),
			service.Program{Name: "cluster"}, service.Program{Name: "node"}), // Their files are those of Environment.
		Disks:       map[string]string{"state": ""},
		Authorities: []service.AuthorityRow{{Name: "root"}, {Name: "signing"}, {Name: "agent"}},
		Leaves:      []service.LeafRow{{Name: "agent"}, {Name: "node-admin"}, {Name: "node-operator"}, {Name: "node-reader"}},
		Secrets:     []service.SecretRow{{Name: "state-recovery-key"}},
		Words:       map[string]service.Word{"{node}": nil, "{hostname}": nil, "{fqdn}": nil, "{domain}": nil, "{ips}": nil},
	}
}

// add takes the names of a row. What it has on the nodes is free where its service is off: a plant may write a role of
// its own for the program of a service of ours.
func (c *claims) add(s service.Service) {
	for _, what := range namesIn(s) {
		c.names[what] = s.Name
	}
}

// clashes are what a row would take. Ports whose numbers are settings are compared when the settings are known.
func (c *claims) clashes(s service.Service) []Clash {
	var out []Clash
	for _, what := range append(namesIn(s), thingsOf(s)...) {
		if other, ok := c.names[what]; ok {
			out = append(out, Clash{s.Name, "the " + what, other})
		}
	}
	for _, p := range s.Programs {
		for _, port := range p.Ports {
			if port.Setting == "" && slices.ContainsFunc(c.ports, port.Meets) {
				out = append(out, Clash{s.Name, "the port " + port.String(), ""})
			}
		}
	}
	return out
}

// names are names behind what they are of, each once.
type names []string

func (n *names) add(kind, name string) {
	if what := kind + " " + name; name != "" && !slices.Contains(*n, what) {
		*n = append(*n, what)
	}
}

// namesIn are the names that a row has in the list and the tables that are made of it. Roles and services are of one
// kind: the nodes' domain has both.
func namesIn(s service.Service) []string {
	var out names
	out.add("name", s.Name)
	for _, p := range s.Parts {
		out.add("name", p.Name)
	}
	for _, r := range s.Roles {
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			out.add("name", name)
		}
	}
	for _, p := range s.Programs {
		out.add("program", p.Name)
	}
	for _, use := range slices.Sorted(maps.Keys(s.Disks)) {
		out.add("use of disks", use)
	}
	for _, word := range slices.Sorted(maps.Keys(s.Words)) {
		out.add("word", word)
	}
	for _, a := range s.Authorities {
		out.add("authority", a.Name)
	}
	for _, l := range s.Leaves {
		out.add("certificate", l.Name)
	}
	for _, e := range s.Secrets {
		out.add("secret", e.Name)
	}
	return out
}

// thingsOf are the names that a row has on the nodes where its service is on.
func thingsOf(s service.Service) []string {
	var out names
	for _, r := range s.Roles {
		out.add("unit", r.Target)
	}
	for _, p := range s.Programs {
		out.add("unit", p.Unit)
		if p.User != "root" {
			out.add("user", p.User)
		}
	}
	for _, a := range s.Authorities {
		out.add("bundle entry", cmp.Or(a.Key, a.Name+"-ca-key"))
	}
	for _, l := range s.Leaves {
		out.add("bundle entry", cmp.Or(l.Certificate, l.Name+"-certificate"))
		out.add("bundle entry", cmp.Or(l.Key, l.Name+"-key"))
	}
	for _, e := range s.Secrets {
		out.add("bundle entry", cmp.Or(e.Entry, e.Name))
	}
	return out
}
