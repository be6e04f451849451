package services

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services/service"
)

// Definition is a role that a configuration has of its own, as its nodes are told of it. Its JSON form stands in
// facts.ClusterFile.
type Definition interface {
	// Service makes the row of the list. It has all that service.Service says is never empty.
	Service() service.Service
}

// Of is the list of a cluster, and Ours where there is none. It costs nothing: who read the cluster has made it.
func Of(c *facts.Cluster) *List {
	if c != nil && c.Roles != nil {
		if l, ok := c.Roles.(*List); ok {
			return l
		}
	}
	return Ours()
}

// With is the list of a configuration that has roles of its own: their rows stand behind ours, by their names. A row
// that would take a name of another one, or what every machine has, is left out; the error, of the type Clashes, has
// all that it would take. Without any row that is kept, the list is Ours.
func With(own []Definition) (*List, error) {
	rows, taken := Ours().all, newClaims()
	var kept []Definition
	var clashes Clashes
	for _, d := range sorted(own) {
		if found := taken.clashes(d.row); len(found) > 0 {
			clashes = append(clashes, found...)
			continue
		}
		taken.add(d.row)
		rows, kept = append(slices.Clip(rows), d.row), append(kept, d.of)
	}
	l := Ours()
	if len(kept) > 0 {
		l = newList(rows, kept)
	}
	if len(clashes) > 0 {
		return l, clashes
	}
	return l, nil
}

// defined is a definition with its row.
type defined struct {
	of  Definition
	row service.Service
}

// sorted has definitions by the names of their services.
func sorted(own []Definition) []defined {
	out := make([]defined, len(own))
	for i, d := range own {
		out[i] = defined{d, d.Service()}
	}
	slices.SortStableFunc(out, func(a, b defined) int { return cmp.Compare(a.row.Name, b.row.Name) })
	return out
}

// Only is the list without those of the configuration's own services that are not to be kept.
func (l *List) Only(keep func(name string) bool) *List {
	ours := len(l.all) - len(l.own)
	rows, own := l.all[:ours:ours], []Definition(nil)
	for i, s := range l.all[ours:] {
		if keep(s.Name) {
			rows, own = append(rows, s), append(own, l.own[i])
		}
	}
	switch len(own) {
	case len(l.own):
		return l
	case 0:
		return Ours()
	}
	return newList(rows, own)
}

// Facts is what facts.Cluster holds of the list: nothing where it is Ours.
func (l *List) Facts() facts.Roles {
	if len(l.own) == 0 {
		return nil
	}
	return l
}

// OwnNames are the names of the services that the configuration has of its own.
func (l *List) OwnNames() []string { return l.Names()[len(l.all)-len(l.own):] }

// Own is the definition of one of the configuration's own services.
func (l *List) Own(name string) (Definition, bool) {
	for i, own := range l.OwnNames() {
		if own == name {
			return l.own[i], true
		}
	}
	return nil, false
}

// MarshalJSON writes the definitions of the configuration's own roles by the names of their services.
func (l *List) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for i, name := range l.OwnNames() {
		text, err := json.Marshal(l.own[i])
		if err != nil {
			return nil, fmt.Errorf("role %s: %w", name, err)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(strconv.AppendQuote(b, name), ':'), text...)
	}
	return append(b, '}'), nil
}

// readOwn makes the list of what MarshalJSON wrote; definition reads one.
func readOwn(text []byte, definition func([]byte) (Definition, error)) (*List, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("roles: %w", err)
	}
	var own []Definition
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d, err := definition(all[name])
		if err != nil {
			return nil, fmt.Errorf("role %s: %w", name, err)
		}
		if is := d.Service().Name; is != name {
			return nil, fmt.Errorf("role %s: it is called %s", name, is)
		}
		own = append(own, d)
	}
	return With(own)
}

// readDefinition reads the JSON form of a definition.
func readDefinition(text []byte) (Definition, error) {
	d := new(role.Definition)
	return d, json.Unmarshal(text, d)
}
