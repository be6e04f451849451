package apt

import (
	"fmt"
	"strings"

	"spore/builder/deb"
	"spore/builder/deb/version"
)

// relation is one package of a relation field: name, perhaps with an architecture qualifier and a version (Debian Policy
// 7.1, deb-control(5)).
type relation struct {
	name string
	// qualifier is what follows a colon: "any", "native", an architecture, or nothing.
	qualifier string
	// op is "<<", "<=", "=", ">=", ">>" or empty when any version will do.
	op, version string
}

func (r relation) String() string {
	s := r.name
	if r.qualifier != "" {
		s += ":" + r.qualifier
	}
	if r.op != "" {
		s += " (" + r.op + " " + r.version + ")"
	}
	return s
}

// allows reports whether a version is one that the relation asks for.
func (r relation) allows(v string) bool {
	if r.op == "" {
		return true
	}
	c := version.Compare(v, r.version)
	switch r.op {
	case "<<":
		return c < 0
	case "<=":
		return c <= 0
	case "=":
		return c == 0
	case ">=":
		return c >= 0
	}
	return c > 0 // ">>"
}

// usable reports whether the qualifier lets a package of this machine's architecture count. All packages are of one
// architecture, so ":any" and ":native" hold for each.
func (r relation) usable(arch string) bool {
	return r.qualifier == "" || r.qualifier == "any" || r.qualifier == "native" || r.qualifier == arch
}

// alternatives is a group "a | b | c": any one of them will do.
type alternatives []relation

func (a alternatives) String() string {
	parts := make([]string, len(a))
	for i, r := range a {
		parts[i] = r.String()
	}
	return strings.Join(parts, " | ")
}

// parseRelations reads a relation field.
func parseRelations(field string) ([]alternatives, error) {
	var out []alternatives
	for group := range strings.SplitSeq(field, ",") {
		if strings.TrimSpace(group) == "" {
			continue
		}
		var alts alternatives
		for one := range strings.SplitSeq(group, "|") {
			r, err := parseRelation(one)
			if err != nil {
				return nil, err
			}
			alts = append(alts, r)
		}
		out = append(out, alts)
	}
	return out, nil
}

func parseRelation(text string) (relation, error) {
	text = strings.TrimSpace(text)
	bad := func() (relation, error) {
		return relation{}, fmt.Errorf("%.120q is not a relation such as \"name (>= 1.0)\"", text)
	}
	head, constraint, versioned := strings.Cut(text, "(")
	var r relation
	r.name, r.qualifier, _ = strings.Cut(strings.TrimSpace(head), ":")
	if !deb.ValidName(r.name) || strings.ContainsAny(r.qualifier, " \t:[<") {
		return bad()
	}
	if !versioned {
		return r, nil
	}
	constraint, rest, closed := strings.Cut(constraint, ")")
	if !closed || strings.TrimSpace(rest) != "" {
		return bad()
	}
	constraint = strings.TrimSpace(constraint)
	r.version = strings.TrimSpace(strings.TrimLeft(constraint, "<>="))
	switch op := constraint[:len(constraint)-len(strings.TrimLeft(constraint, "<>="))]; op {
	case "<<", "<=", "=", ">=", ">>":
		r.op = op
	case "<", ">": // obsolete spellings of <= and >= (deb-control(5))
		r.op = op + "="
	default:
		return bad()
	}
	if version.Check(r.version) != nil {
		return bad()
	}
	return r, nil
}
