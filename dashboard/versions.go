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
	// Wrong is what is wrong with updates, bounded; MoreWrong is how many have no room.
	Wrong     []Trouble
	MoreWrong int
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
			d.Wrong = append(d.Wrong, updateTroubles(*n, s.Dir)...)
		}
		d.Nodes = append(d.Nodes, row)
	}
	for _, version := range slices.Sorted(maps.Keys(runs)) {
		d.Same = append(d.Same, image{version, runs[version]})
	}
	slices.SortStableFunc(d.Same, func(a, b image) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	d.Wrong, d.MoreWrong = topmost(d.Wrong)
	slices.SortStableFunc(d.Nodes, func(a, b versionRow) int { return cmp.Compare(b.Level, a.Level) })
	return true
}

// maxWrong is how many troubles are on top of the page of versions, and of that of certificates: the rows below have all.
const maxWrong = 20

// topmost are as many troubles as have room, the worst first, and how many have none.
func topmost(all []Trouble) (kept []Trouble, more int) {
	slices.SortStableFunc(all, func(a, b Trouble) int { return cmp.Compare(b.Level, a.Level) })
	kept = all[:min(len(all), maxWrong)]
	return kept, len(all) - len(kept)
}

// updateTroubles are what is wrong with the updates of a node, and what to do.
func updateTroubles(n Node, dir string) []Trouble {
	var out []Trouble
	if c := n.Status.Configuration; c != nil && c.Problem != "" {
		out = append(out, Trouble{Level: Critical, Node: n.Name, Name: "update", Text: c.Problem, Do: []string{
			"spore logs " + dir + " " + n.Name + " spore-agent", "push a better update; read docs/repair.md#a-node-went-back-from-an-update",
		}})
	}
	if u := n.Status.Updates; u != nil && u.Problem != "" {
		out = append(out, Trouble{Level: Warning, Node: n.Name, Name: "look for updates", Text: u.Problem, Do: []string{
			"see whether the node reaches " + cmp.Or(u.From, "the web server") + "; read docs/update.md#what-came-of-it", "spore net " + dir + " " + n.Name,
		}})
	}
	return out
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
