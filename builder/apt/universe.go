package apt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"spore/cluster/spelling"
)

// provide is a name that a package provides; version is empty when it gives none.
type provide struct {
	name, version string
	by            *Package
}

// universe is every package that can be chosen: the newest version of each name over the suites. It reads those that somebody
// asks for. An error of reading stays in err, and the package counts as not there.
type universe struct {
	arch  string
	table *table
	// read returns the package of a name from its place in one of the indexes.
	read func(name string, at place) (*Package, error)
	err  error

	byName    map[string]*Package
	providers map[string][]provide
}

func newUniverse(arch string, t *table, read func(string, place) (*Package, error)) *universe {
	return &universe{arch: arch, table: t, read: read, byName: map[string]*Package{}, providers: map[string][]provide{}}
}

// named is the newest package of a name, or nil.
func (u *universe) named(name string) *Package {
	p, known := u.byName[name]
	if known {
		return p
	}
	at, ok, err := u.table.place(name)
	if ok && err == nil {
		p, err = u.read(name, at)
	}
	if err != nil {
		u.err = cmp.Or(u.err, fmt.Errorf("read package %s from its index: %w", name, err))
		p = nil
	}
	u.byName[name] = p
	return p
}

// providing lists the packages that provide a name.
func (u *universe) providing(name string) []provide {
	list, known := u.providers[name]
	if known {
		return list
	}
	for _, by := range u.table.providers(name) {
		p := u.named(by)
		if p == nil {
			continue
		}
		provides, err := p.provides()
		u.err = cmp.Or(u.err, err)
		for _, v := range provides {
			if v.name == name {
				list = append(list, v)
			}
		}
	}
	u.providers[name] = list
	return list
}

// provides reads the field Provides: names, perhaps with a version "(= 1.0)" (Debian Policy 7.5).
func (p *Package) provides() ([]provide, error) {
	if p.Provides == "" {
		return nil, nil
	}
	groups, err := parseRelations(p.Provides)
	if err != nil {
		return nil, fmt.Errorf("package %s: field Provides: %w", p, err)
	}
	out := make([]provide, 0, len(groups))
	for _, g := range groups {
		if len(g) != 1 || (g[0].op != "" && g[0].op != "=") {
			return nil, fmt.Errorf("package %s: field Provides: %q is not a name or name (= version)", p, g)
		}
		out = append(out, provide{g[0].name, g[0].version, p})
	}
	return out, nil
}

// priorities of Debian Policy 2.5, the most important first.
var priorities = []string{"required", "important", "standard", "optional", "extra"}

// preferred orders packages that provide the same thing: by priority, then by name.
func preferred(a, b *Package) int {
	rank := func(p *Package) int {
		if i := slices.Index(priorities, p.Priority); i >= 0 {
			return i
		}
		return len(priorities)
	}
	if c := rank(a) - rank(b); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// satisfies reports whether a provided name is what a relation asks for: one with a version only holds for a provide with
// a version (Debian Policy 7.5).
func (v provide) satisfies(r relation) bool {
	return v.name == r.name && (r.op == "" || (v.version != "" && r.allows(v.version)))
}

// options lists the packages that satisfy one of the alternatives, the most wanted first: in the order of the
// alternatives, and for each the package of that name before those that provide it.
func (u *universe) options(alts alternatives) []*Package {
	var out []*Package
	add := func(p *Package) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, r := range alts {
		if !r.usable(u.arch) {
			continue
		}
		if p := u.named(r.name); p != nil && r.allows(p.Version) {
			add(p)
		}
		for _, v := range u.providing(r.name) {
			if v.satisfies(r) {
				add(v.by)
			}
		}
	}
	return out
}

// newest lists the packages of these names that there are, sorted by name.
func (u *universe) newest(names []string) ([]Package, error) {
	out := []Package{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if p := u.named(name); p != nil {
			out = append(out, *p)
		}
	}
	return out, u.err
}

// similar names up to three packages that a misspelt name may mean.
func (u *universe) similar(name string) []string {
	type near struct {
		name     string
		distance int
	}
	limit := 1 + len(name)/5
	var found []near
	for n := range u.table.names() {
		if d := spelling.Distance(n, name, limit); d <= limit {
			found = append(found, near{n, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, f := range found[:min(3, len(found))] {
		out = append(out, f.name)
	}
	return out
}
