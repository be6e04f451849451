package cluster

import (
	"slices"

	"spore/cluster/check"
	"spore/cluster/role"
	"spore/cluster/role/rules"
	"spore/cluster/units"
	"spore/services"
)

// architecture is that of the machines that images are for, in Debian's words.
const architecture = "amd64"

// checkDefinitions checks the roles of the user's own, with each other and with the services that cluster.yaml lists.
func (k *checker) checkDefinitions() {
	if len(k.c.Roles) == 0 {
		return
	}
	var sources []rules.Source
	for i, d := range k.c.Roles {
		if !k.c.roleFiles[i].broken {
			sources = append(sources, rules.Source{Definition: d, File: k.c.roleFiles[i]})
		}
	}
	rules.CheckAll(k.Checker, sources, k.rest())
	for _, clash := range k.c.clashes {
		if i := slices.IndexFunc(k.c.Roles, func(d *role.Definition) bool { return d.Name == clash.Service }); !k.failed(k.c.roleFiles[i]) {
			k.Errorf(check.In(k.c.roleFiles[i]), "%s", clash)
		}
	}
}

// failed tells whether an error in a file is known.
func (k *checker) failed(s *source) bool {
	return s.broken || len(s.faults) > 0 || slices.ContainsFunc(k.Report, func(p check.Problem) bool {
		return p.File == s.path && p.Severity == check.Error
	})
}

// rest is what a role must not take.
func (k *checker) rest() rules.Rest {
	every := services.System()
	for _, name := range services.EveryNode(nil) {
		if p, ok := services.Ours().LookupProgram(name); ok {
			every = append(every, p)
		}
	}
	r := rules.RestOf(services.Ours().All(), func(name string) bool { return slices.Contains(k.Cluster.Services, name) }, every)
	for _, p := range k.c.Programs {
		r.Programs = append(r.Programs, p.Name)
	}
	slices.Sort(r.Programs)
	r.Starts = func(unit string) []units.Start { return units.StartsOthers(k.c.Units, unit) }
	r.Architecture = architecture
	return r
}
