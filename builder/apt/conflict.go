package apt

import (
	"maps"
	"slices"
)

// clashes reports every pair of chosen packages of which one Conflicts with or Breaks the other (Debian Policy 7.3, 7.4).
func (r *resolver) clashes() {
	names := slices.Sorted(maps.Keys(r.chosen))
	for _, a := range names {
		p := r.chosen[a]
		if r.omitted[a] {
			continue
		}
		for _, text := range []string{p.Conflicts, p.Breaks} {
			if _, err := parseRelations(text); err != nil {
				r.problem("package %s: %w", p, err)
			}
		}
		for _, b := range names {
			if field, rel, ok := r.hits(p, r.chosen[b]); ok && !r.omitted[b] {
				r.problem("%s %s %s, which is %s", r.chain(p), field, rel, r.chain(r.chosen[b]))
			}
		}
	}
}

// clashesWithChosen reports whether a package could not be beside those chosen so far.
func (r *resolver) clashesWithChosen(p *Package) bool {
	for name, q := range r.chosen {
		if r.omitted[name] {
			continue
		}
		if _, _, ok := r.hits(p, q); ok {
			return true
		}
		if _, _, ok := r.hits(q, p); ok {
			return true
		}
	}
	return false
}

// hits finds the relation of p that forbids q. A package never clashes with itself: one that provides and conflicts with
// a name means to be the only one of them.
func (r *resolver) hits(p, q *Package) (field string, rel relation, ok bool) {
	if p.Name == q.Name {
		return "", relation{}, false
	}
	for _, f := range []struct{ verb, text string }{{"conflicts with", p.Conflicts}, {"breaks", p.Breaks}} {
		if f.text == "" {
			continue
		}
		provides, _ := q.provides()
		for _, g := range r.relations(f.text) {
			for _, rel := range g {
				if rel.name == q.Name && rel.allows(q.Version) {
					return f.verb, rel, true
				}
				if slices.ContainsFunc(provides, func(v provide) bool { return v.satisfies(rel) }) {
					return f.verb, rel, true
				}
			}
		}
	}
	return "", relation{}, false
}

// relations is parseRelations that remembers; a field that is not understood has none, which clashes reports.
func (r *resolver) relations(text string) []alternatives {
	groups, ok := r.parsed[text]
	if !ok {
		groups, _ = parseRelations(text)
		r.parsed[text] = groups
	}
	return groups
}
