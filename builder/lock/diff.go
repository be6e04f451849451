package lock

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What happened to an item.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is one item that differs between two locks.
type Change struct {
	// Change is Added, Removed or Changed.
	Change string `json:"change"`
	// Kind says what it is: "package", "requested package", "media package", "program", "container image", "source",
	// "index", "spore", "suite", "components", "build time" or "kernel".
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	// Old and New are versions, dates, or the beginnings of hashes where nothing else tells two apart.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Kinds that follow the archive.
const (
	kindIndex = "index"
	kindTime  = "build time"
)

// String is a line such as "+ package curl 8.14.1-2" or "~ package curl 8.14.1-1 -> 8.14.1-2".
func (c Change) String() string {
	sign, value := "~", c.Old+" -> "+c.New
	switch c.Change {
	case Added:
		sign, value = "+", c.New
	case Removed:
		sign, value = "-", c.Old
	}
	return strings.Join(strings.Fields(strings.Join([]string{sign, c.Kind, c.Name, value}, " ")), " ")
}

// item is a line of a lock: what a person reads of it, the hash of what it stands for, and what else there is to compare.
type item struct{ kind, name, text, hash, more string }

// items lists all lines.
func (l *Lock) items() []item {
	out := []item{
		{kind: "spore", text: l.Spore.Version, hash: l.Spore.SHA256},
		{kind: "suite", text: l.Suite},
		{kind: "components", text: strings.Join(l.Components, ",")},
		{kind: kindTime, text: moment(time.Unix(l.BuildTime, 0))},
		{kind: "kernel", text: l.Kernel},
	}
	for _, f := range l.Source {
		out = append(out, item{kind: "source", name: f.Name, hash: f.SHA256})
	}
	for _, i := range l.Indexes {
		out = append(out, item{kind: kindIndex, name: i.Suite, text: moment(i.Date), hash: i.SHA256})
	}
	for _, name := range l.Requested {
		out = append(out, item{kind: "requested package", name: name})
	}
	for _, p := range l.Packages {
		out = append(out, item{kind: "package", name: p.Name, text: p.Version, hash: p.SHA256})
	}
	for _, p := range l.Media {
		out = append(out, item{kind: "media package", name: p.Name, text: p.Version, hash: p.SHA256})
	}
	for _, p := range l.Programs {
		version := p.Version
		if p.Toolchain != "" {
			version = strings.TrimSpace(version + " (" + p.Toolchain + ")")
		}
		out = append(out, item{
			kind: "program", name: p.Name, text: version, hash: cmp.Or(p.Inputs, p.SHA256),
			more: strings.Join(append([]string{p.Mode, p.Path}, p.Links...), " "),
		})
	}
	for _, i := range l.Images {
		out = append(out, item{kind: "container image", name: i.Name, hash: i.SHA256})
	}
	return out
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// Diff lists what differs, in the order of the file: what is changed or gone, then what is new.
func Diff(before, after *Lock) []Change {
	old, fresh := before.items(), after.items()
	find := func(list []item) func(item) (item, bool) {
		byName := make(map[[2]string]item, len(list))
		for _, i := range list {
			byName[[2]string{i.kind, i.name}] = i
		}
		return func(i item) (item, bool) {
			found, ok := byName[[2]string{i.kind, i.name}]
			return found, ok
		}
	}
	now, earlier := find(fresh), find(old)
	var out []Change
	for _, was := range old {
		is, ok := now(was)
		switch {
		case !ok:
			out = append(out, Change{Removed, was.kind, was.name, was.text, ""})
		case is.text != was.text:
			out = append(out, Change{Changed, was.kind, was.name, was.text, is.text})
		case is.hash != was.hash:
			out = append(out, Change{Changed, was.kind, was.name, was.withHash(), is.withHash()})
		case is.more != was.more:
			out = append(out, Change{Changed, was.kind, was.name, was.more, is.more})
		}
	}
	for _, is := range fresh {
		if _, ok := earlier(is); !ok {
			out = append(out, Change{Added, is.kind, is.name, "", is.text})
		}
	}
	return out
}

// withHash is the text of an item whose text alone does not tell it from another.
func (i item) withHash() string {
	return strings.TrimSpace(fmt.Sprintf("%s sha256:%.12s", i.text, i.hash))
}

// OnlyDates reports whether changes are of indexes and the build time alone: archives are signed anew several times a day,
// most often without a change of what an image takes from them.
func OnlyDates(changes []Change) bool {
	return !slices.ContainsFunc(changes, func(c Change) bool { return c.Kind != kindIndex && c.Kind != kindTime })
}
