package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// versionsData is what the page of versions and updates shows.
type versionsData struct {
	// Same are the images that run, the one of most nodes first, and Unknown are the nodes that have not said.
	Same    []image
	Unknown []string
	Nodes   []versionRow
}

// image is one that runs on nodes.
type image struct {
	Version string
	Nodes   []string
}

type versionRow struct {
	Node, Path, Age, Version, Update, Next, Went, Looked string
	Level                                                Level
	Known, Stale                                         bool
}

// versionsPage has what runs where, and how far updates are.
func (s *Server) versionsPage(a asked, p *page) bool {
	d := &versionsData{}
	p.Data = d
	runs := map[string][]string{}
	for _, n := range a.view.Nodes {
		t := tileOf(*n, a.now)
		row := versionRow{Node: n.Name, Path: nodesPath + n.Name, Age: t.Age, Known: t.Known, Stale: t.Stale, Version: t.Version}
		if !row.Known {
			row.Level = t.Level
		}
		if row.Known && row.Version == "" {
			row.Version = "it does not say"
		}
		if !t.Known || t.Version == "" {
			d.Unknown = append(d.Unknown, n.Name)
		} else {
			runs[t.Version] = append(runs[t.Version], n.Name)
		}
		if t.Known {
			row.take(*n)
		}
		d.Nodes = append(d.Nodes, row)
	}
	for _, version := range slices.Sorted(maps.Keys(runs)) {
		d.Same = append(d.Same, image{version, runs[version]})
	}
	slices.SortStableFunc(d.Same, func(a, b image) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	slices.SortStableFunc(d.Nodes, func(a, b versionRow) int { return cmp.Compare(b.Level, a.Level) })
	return true
}

// take has what a node says of its update.
func (r *versionRow) take(n Node) {
	c := n.Status.Configuration
	if c == nil {
		r.Update, r.Next = "it does not say", "it does not say"
	} else {
		r.Update = "that of the image"
		if c.Serial > 0 {
			r.Update = fmt.Sprint(c.Serial)
		}
		if c.Trial {
			r.Update, r.Level = r.Update+", on trial", Warning
		}
		var next []string
		switch {
		case c.StagedRoot != "":
			next = append(next, fmt.Sprintf("another root, %.12s", c.StagedRoot))
		case c.Staged != "" && !c.Live:
			next = append(next, fmt.Sprintf("another configuration, %.12s", c.Staged))
		}
		if c.Loader != "" {
			next = append(next, "boot loader: "+c.Loader)
		}
		r.Next = cmp.Or(strings.Join(next, "; "), "the same")
		if c.Problem != "" {
			r.Went, r.Level = c.Problem, Critical
		}
	}
	if u := n.Status.Updates; u != nil {
		r.Looked = "at " + u.At.UTC().Format(time.RFC3339) + ", " + u.From
		if u.Problem != "" {
			r.Looked, r.Level = r.Looked+": "+u.Problem, max(r.Level, Warning)
		}
	}
}
