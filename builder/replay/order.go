package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"spore/builder/deb/deb822"
)

// relations are what a control paragraph says of other packages, by the names alone: the resolver has picked versions
// that go together.
type relations struct {
	depends  [][]string // each with its alternatives
	provides []string
	// essential packages are configured before all others, since nobody has to name them.
	essential bool
}

func parseRelations(status []byte) (relations, error) {
	var r relations
	s := deb822.NewScanner(string(status))
	if !s.Next() {
		return r, s.Err()
	}
	p := s.Paragraph()
	r.essential = p.Get("Essential") == "yes"
	for _, field := range []string{"Pre-Depends", "Depends"} {
		for _, group := range strings.Split(p.Get(field), ",") {
			var names []string
			for _, one := range strings.Split(group, "|") {
				if name := relationName(one); name != "" {
					names = append(names, name)
				}
			}
			if len(names) > 0 {
				r.depends = append(r.depends, names)
			}
		}
	}
	for _, one := range strings.Split(p.Get("Provides"), ",") {
		if name := relationName(one); name != "" {
			r.provides = append(r.provides, name)
		}
	}
	return r, nil
}

// relationName is the name in "name:any (>= 1)".
func relationName(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, " \t\n(:[<"); i >= 0 {
		s = s[:i]
	}
	return s
}

// configureOrder sorts packages so that each comes behind those that it depends on, and otherwise essential ones first,
// by name. A circle is cut where the order of names enters it, as dpkg cuts it somewhere, too.
func configureOrder(packages []Package) ([]*Package, error) {
	byName := map[string]*Package{}
	providers := map[string][]string{}
	related := map[string]relations{}
	for i := range packages {
		p := &packages[i]
		r, err := parseRelations(p.Status)
		if err != nil {
			return nil, fmt.Errorf("control paragraph of %s: %w", p.Name, err)
		}
		byName[p.Name], related[p.Name] = p, r
		for _, name := range r.provides {
			providers[name] = append(providers[name], p.Name)
		}
	}
	var names []string
	for name := range byName {
		names = append(names, name)
	}
	// base-files makes directories, and base-passwd the accounts, that every script may rely on.
	first := map[string]int{"base-files": 1, "base-passwd": 2, "libc6": 3, "dpkg": 4}
	rank := func(name string) int {
		switch {
		case first[name] != 0:
			return first[name]
		case related[name].essential:
			return 5
		}
		return 6
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	for _, list := range providers {
		slices.Sort(list)
	}
	var out []*Package
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, group := range related[name].depends {
			for _, one := range group {
				if byName[one] != nil {
					visit(one)
				}
				for _, provider := range providers[one] {
					visit(provider)
				}
			}
		}
		out = append(out, byName[name])
	}
	for _, name := range names {
		visit(name)
	}
	return out, nil
}
