package apt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Clash is an error of Choose: two packages that cannot be in one image.
type Clash struct {
	text string
	// Named are the packages of the list that brought the two; empty where an essential package did.
	Named [2]string
}

// Error implements error.
func (c *Clash) Error() string { return c.text }

// Clashes returns those among the problems of an error of Choose.
func Clashes(err error) []*Clash {
	var c *Clash
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*Clash
		for _, e := range list.Unwrap() {
			out = append(out, Clashes(e)...)
		}
		return out
	}
	if next := errors.Unwrap(err); next != nil {
		return Clashes(next)
	}
	if errors.As(err, &c) {
		return []*Clash{c}
	}
	return nil
}

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
				r.problems = append(r.problems, &Clash{
					text:  fmt.Sprintf("%s %s %s, which is %s", r.chain(p), field, rel, r.chain(r.chosen[b])),
					Named: [2]string{r.root(p), r.root(r.chosen[b])},
				})
			}
		}
	}
}

// root is the package of the list that brought one, or empty.
func (r *resolver) root(p *Package) string {
	for q := p; q != nil; q = r.chosen[q.NeededBy] {
		if q.NeededBy == byList {
			return q.Name
		}
		if q.NeededBy == q.Name {
			break
		}
	}
	return ""
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
