package dataversion

import (
	"fmt"
	"slices"
)

// Verdict says whether an older program reads what a newer one wrote.
type Verdict int

const (
	// Unknown is where upstream promises nothing, or where it depends on what was done meanwhile.
	Unknown Verdict = iota
	// Safe is where upstream says that it does.
	Safe
	// Unsafe is where upstream says that it does not.
	Unsafe
)

// String is the word for it.
func (v Verdict) String() string {
	return [...]string{Unknown: "unknown", Safe: "safe", Unsafe: "unsafe"}[v]
}

// MarshalText writes the same into JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Row is one kind of data that a service keeps on a node.
type Row struct {
	// Name is what the data is called in updates and messages.
	Name string
	// Roles are those of the nodes that keep it.
	Roles []string
	// Package is the Debian package whose version it is of, Payload the entry of payloads/, or Own a program of ours; one
	// of them.
	Package, Payload, Own string
	// Format is the version of the format in which Own writes the data, such as 1.0: a release of Spore changes it with
	// the format alone. Manifests have it.
	Format string
	// Keeps says what lies where; empty for a program that keeps nothing between two starts, which has no Judge.
	Keeps string
	// Rule says in words what Judge does, and Source where upstream has written it: document and section, or file and
	// function.
	Rule, Source string
	// Judge says whether older reads what newer wrote, and why. It is asked only of two releases of which newer is the
	// newer.
	Judge func(newer, older Version) (Verdict, string)
}

// Way is the way back of one kind of data.
type Way struct {
	// Data is the name of the row, Newer and Older are the versions; empty where a system does not have it.
	Data  string `json:"data"`
	Newer string `json:"newer,omitempty"`
	Older string `json:"older,omitempty"`
	// Verdict, and Why in words; Source is where upstream says so, empty where that is not needed.
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	Source  string  `json:"source,omitempty"`
}

// String says it in one sentence, without a full stop.
func (w Way) String() string {
	return fmt.Sprintf("the way back of %s from %s to %s is %s: %s", w.Data, w.Newer, w.Older, w.Verdict, w.Why)
}

// Back judges the way back of a row, from a version of its program to another. An empty version is that of a system
// without the program.
func (r Row) Back(newer, older string) Way {
	w := Way{Data: r.Name, Newer: newer, Older: older, Verdict: Safe}
	switch {
	case r.Judge == nil:
		w.Why = "it keeps nothing between two starts"
		return w
	case older == "":
		w.Why = "the older system does not have it, and leaves its data as it is"
		return w
	case newer == "":
		w.Why = "the newer system does not have it, and wrote nothing"
		return w
	case newer == older:
		w.Why = "it is the same version"
		return w
	}
	w.Verdict = Unknown
	n, err := Parse(newer)
	o, err2 := Parse(older)
	switch {
	case err != nil:
		w.Why = err.Error()
	case err2 != nil:
		w.Why = err2.Error()
	case n.Pre || o.Pre:
		w.Why = "one of the versions is no release"
	case Compare(o, n) >= 0:
		w.Verdict, w.Why = Safe, "it is no older release"
	default:
		w.Verdict, w.Why = r.Judge(n, o)
		w.Source = r.Source
	}
	return w
}

// Back judges the way back from a newer system to an older one: a way for each row that one of them has the program of
// and whose data nodes with the roles keep, in the order of the rows. No roles mean all. versions are those of
// ReadVersions. What has a version in both and no row is not known of, and comes last.
func Back(rows []Row, newer, older map[string]string, roles []string) []Way {
	var out []Way
	known := map[string]bool{}
	for _, r := range rows {
		known[r.Name] = true
		if newer[r.Name] == "" && older[r.Name] == "" || !r.keptBy(roles) {
			continue
		}
		out = append(out, r.Back(newer[r.Name], older[r.Name]))
	}
	var others []string
	for n, version := range newer {
		if !known[n] && older[n] != "" && older[n] != version {
			others = append(others, n)
		}
	}
	slices.Sort(others)
	for _, n := range others {
		out = append(out, Way{Data: n, Newer: newer[n], Older: older[n], Why: "this program knows no rule for it"})
	}
	return out
}

// keptBy says whether nodes with some of the roles keep the data.
func (r Row) keptBy(roles []string) bool {
	return len(roles) == 0 || slices.ContainsFunc(r.Roles, func(role string) bool { return slices.Contains(roles, role) })
}

// Only are the ways with a verdict.
func Only(ways []Way, v Verdict) []Way {
	var out []Way
	for _, w := range ways {
		if w.Verdict == v {
			out = append(out, w)
		}
	}
	return out
}
