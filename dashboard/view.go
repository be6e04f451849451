package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// maxSteps bounds the steps of a start that are shown.
const maxSteps = 50

// page is what the templates show.
type page struct {
	Title, Cluster, Dir, Command, Ends string
	// Main is the content, and Sum tells it from another.
	Main       template.HTML
	Sum        string
	Links      []link
	Troubles   []Trouble
	Conditions []nodeapi.Condition
	// Known says that all have answered just now.
	Known bool
	Nodes []tile
	// Of one node.
	Node            tile
	Status          nodeapi.Status
	NodeConditions  []nodeapi.Condition
	Units, Programs []named
	Steps           []step
	// Journal is where the lines of the node are had as they are written; empty on other pages.
	Journal string
	// Of alerts.
	NoAlerts, AlertsKnown, AlertsStale bool
	AlertsProblem, AlertsAge           string
	Firing                             []alert
	// Fire is how many of them fire, and SilencedAlerts and HeldBack how many do not, and why.
	Fire, SilencedAlerts, HeldBack int
	// Charts says that it has some, and wants the scripts that draw them.
	Charts bool
	// Data is what a page has that has no field here.
	Data any
	// Still says that it does not change while it is open.
	Still bool
	// Acts says that alerts can be silenced, and Form is where.
	Acts bool
	Form *form
	// Problem is why there is no other page.
	Problem *problem
	// From is the node that serves the page; empty on an operator's machine. Guest is who looks at it.
	From  string
	Guest *Guest
}

type link struct {
	Name, Path string
	Here       bool
}

// tile is a node in short.
type tile struct {
	Name                        string
	Level                       Level
	Roles                       []string
	System, Version, Waits, Age string
	// Known says that it has answered once, Stale that it was long ago.
	Known, Stale bool
}

// named is a row with a state.
type named struct {
	Name, State string
	Level       Level
}

type alert struct {
	Level                                                Level
	Severity, Name, Node, Since, State, Summary, Runbook string
	Known, Fires                                         bool
	Silences                                             []silenced
	// Silence is where it can be silenced; empty where it cannot.
	Silence string
}

// problem is a page about what is not there.
type problem struct {
	Title, Text string
	Do          []string
}

// tileOf is a node in short, at a moment.
func tileOf(n Node, now time.Time) tile {
	t := tile{Name: n.Name, Level: n.Level(), Roles: n.Roles, Known: !n.Answered.IsZero()}
	if !t.Known {
		t.Stale, t.Age = true, "it has not answered yet"
		if n.Problem == nil {
			t.Level = Warning
		}
		return t
	}
	if age := now.Sub(n.Answered); age > stale {
		t.Stale, t.Age = true, "as of "+ago(age)
	}
	t.System, t.Version = n.Status.System, n.Status.Version()
	var waits []string
	for _, h := range n.Status.Held {
		waits = append(waits, h.Role+": "+h.Reason)
	}
	for _, service := range slices.Sorted(maps.Keys(n.Status.Waiting)) {
		waits = append(waits, service+": "+n.Status.Waiting[service])
	}
	t.Waits = strings.Join(waits, "; ")
	return t
}

// ago is an age for people. It changes rarely, so that a page does: by the second below a minute of which somebody
// sees that it grows.
func ago(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// units are those of a node, the worst first.
func units(s nodeapi.Status) []named {
	var out []named
	for _, unit := range slices.Sorted(maps.Keys(s.Services)) {
		row := named{Name: unit, State: s.Services[unit]}
		switch row.State {
		case "active", "inactive":
		case "failed":
			row.Level = Critical
		default:
			row.Level = Warning
		}
		out = append(out, row)
	}
	for _, unit := range s.Failed {
		if _, there := s.Services[unit]; !there {
			out = append(out, named{unit, "failed", Critical})
		}
	}
	slices.SortStableFunc(out, func(a, b named) int { return int(b.Level) - int(a.Level) })
	return out
}

func programs(s nodeapi.Status) []named {
	var out []named
	for _, name := range slices.Sorted(maps.Keys(s.Versions)) {
		out = append(out, named{Name: name, State: s.Versions[name]})
	}
	return out
}

// step is one of the start of a machine: when it was done, what it took since the one before, and both in thousandths of
// the whole.
type step struct {
	Name, At, Took string
	Begin, Width   int
}

// steps are those of the start of a node, in the order in which they were done.
func steps(s nodeapi.Status) []step {
	names := slices.SortedFunc(maps.Keys(s.Times), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Times[a], s.Times[b]), cmp.Compare(a, b))
	})
	if len(names) == 0 || len(names) > maxSteps {
		return nil
	}
	whole := max(s.Times[names[len(names)-1]], 0.001)
	var out []step
	before := 0.0
	for _, name := range names {
		at := max(s.Times[name], 0)
		row := step{Name: name, At: fmt.Sprintf("%.1f s", at), Took: fmt.Sprintf("%.1f s", at-before), Begin: int(before / whole * 1000)}
		row.Width = max(2, int(at/whole*1000)-row.Begin)
		out, before = append(out, row), at
	}
	return out
}

// firing are the alerts, the worst first, but for the one that always fires, while it does.
func (s *Server) firing(v View, now time.Time) []alert {
	var out []alert
	for _, a := range v.Alerts {
		name := a.Labels[machine.AlertName]
		if name == metrics.Watchdog && a.State == machine.Fires {
			continue
		}
		row := alert{
			Severity: a.Labels[machine.Severity], Name: name, Node: a.Labels[machine.AlertNode], Since: ago(now.Sub(a.Since)),
			State: a.State, Summary: a.Summary, Runbook: a.Page(), Level: Warning, Fires: a.State == machine.Fires,
		}
		if a.State != machine.Fires {
			row.Level = Fine
		} else if row.Severity == "critical" {
			row.Level = Critical
		}
		_, row.Known = v.node(row.Node)
		row.Silences = silences(a, s.acts())
		if s.acts() && row.Fires {
			row.Silence = silencePath + "?" + wishOf(a, row.Known).Encode()
		}
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b alert) int { return int(b.Level) - int(a.Level) })
	return out
}

// node finds a node by its name.
func (v View) node(name string) (Node, bool) {
	i := slices.IndexFunc(v.Nodes, func(n *Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}, false
	}
	return *v.Nodes[i], true
}

// acts tells whether alerts can be silenced.
func (s *Server) acts() bool { return s.watcher.asker.Silence != nil && s.Token != "" }

// frame is what all pages have.
func (s *Server) frame(path string) page {
	p := page{
		Cluster: s.Cluster, Dir: s.Dir, Command: "spore dashboard", Acts: s.acts(), Links: s.links(path), Title: s.Cluster,
		From: s.watcher.asker.From,
	}
	if !s.watcher.asker.Ends.IsZero() {
		p.Ends = s.watcher.asker.Ends.UTC().Format("2006-01-02 15:04 UTC")
	}
	return p
}

// pageOf is what an address shows; the row's name of a template is its second value.
func (s *Server) pageOf(ctx context.Context, at *url.URL, v View, now time.Time) (page, string) {
	p := s.frame(at.Path)
	troubles := v.Troubles(s.Dir)
	if len(troubles) > 0 {
		p.Title = fmt.Sprintf("%d wrong – %s", len(troubles), s.Cluster)
	}
	r, name, found := s.find(at.Path)
	// Also where there is only a problem to show: what is not drawn again has no events, and would tell of a lost connection.
	p.Still = found && r.still
	switch {
	case s.watcher.Ended():
		p.Title = "The certificate has ended – " + s.Cluster
		p.Problem = &problem{
			Title: "The certificate has ended", Text: "The nodes answer nothing any more that this page asks. What is open is old.",
			Do: []string{"stop spore dashboard by Ctrl-C, and start it again", "spore access " + s.Dir},
		}
	case found && !s.there(r):
		p.Problem = &problem{
			Title: "This cluster has no page " + r.title, Text: "No node has the role " + strings.Join(r.needs, " or ") + ".",
			Do: []string{"go to the page of the cluster"},
		}
	case found:
		if r.title != "" && r.path != "/" {
			p.Title = r.title + " – " + p.Title
		}
		if r.make(s, asked{ctx: ctx, name: name, query: at.Query(), view: v, troubles: troubles, now: now}, &p) {
			return p, r.template
		}
	}
	if p.Problem == nil {
		p.Problem = &problem{
			Title: "There is no such page", Text: "Perhaps the node is not in cluster.yaml any more, or the address was typed wrong.",
			Do: []string{"go to the page of the cluster"},
		}
	}
	return p, "problem"
}

func (s *Server) clusterPage(a asked, p *page) bool {
	p.Troubles, p.Conditions = a.troubles, a.view.cluster().Conditions
	p.Known = s.watcher.asker.Alerts == nil || !a.view.AlertsAt.IsZero()
	for _, n := range a.view.Nodes {
		t := tileOf(*n, a.now)
		p.Known = p.Known && !t.Stale
		p.Nodes = append(p.Nodes, t)
	}
	return true
}

func (s *Server) alertsPage(a asked, p *page) bool {
	p.NoAlerts = s.watcher.asker.Alerts == nil
	if a.view.AlertsProblem != nil {
		p.AlertsProblem = a.view.AlertsProblem.Error()
	}
	if p.AlertsKnown = !a.view.AlertsAt.IsZero(); p.AlertsKnown {
		age := a.now.Sub(a.view.AlertsAt)
		p.AlertsStale, p.AlertsAge = a.now.After(a.view.alertsLate) || a.view.AlertsProblem != nil, "moments ago"
		if p.AlertsStale {
			p.AlertsAge = ago(age)
		}
	}
	p.Firing = s.firing(a.view, a.now)
	for _, f := range p.Firing {
		switch f.State {
		case machine.Fires:
			p.Fire++
		case machine.Silenced:
			p.SilencedAlerts++
		case machine.HeldBack:
			p.HeldBack++
		}
	}
	return true
}

func (s *Server) nodePage(a asked, p *page) bool {
	n, found := a.view.node(a.name)
	if !found {
		return false
	}
	p.Node, p.Troubles, p.Status, p.NodeConditions = tileOf(n, a.now), n.Troubles(s.Dir), n.Status, n.Health.Conditions
	slices.SortStableFunc(p.Troubles, func(a, b Trouble) int { return cmp.Compare(b.Level, a.Level) })
	p.Units, p.Programs, p.Steps = units(n.Status), programs(n.Status), steps(n.Status)
	p.Journal = journalPath + "?node=" + url.QueryEscape(n.Name)
	p.Title = n.Name + " – " + p.Title
	return true
}
