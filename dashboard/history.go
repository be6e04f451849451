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

	"spore/fleet"
	"spore/fleet/trail"
)

// historyPath is the page of who did what. shownCalls is how many it shows.
const (
	historyPath = "/history"
	shownCalls  = 300
)

// historyData is what the page of history shows.
type historyData struct {
	Node, User, Since string
	Nodes             []string
	Problem           string
	// Silent says which nodes did not answer.
	Silent []string
	// Calls are the newest of All, the newest first.
	Calls []call
	All   int
}

type call struct{ Time, Node, NodePath, User, Role, From, What, Outcome, Remarks string }

// historyOf is the address of what one node was had to change.
func historyOf(node string) string {
	return historyPath + "?" + url.Values{"node": {node}, "since": {"7d"}}.Encode()
}

func (s *Server) historyPage(a asked, p *page) bool {
	d := &historyData{Node: strings.TrimSpace(a.query.Get("node")), User: strings.TrimSpace(a.query.Get("user"))}
	d.Since = cmp.Or(strings.TrimSpace(a.query.Get("since")), "1d")
	p.Data = d
	for _, n := range a.view.Nodes {
		d.Nodes = append(d.Nodes, n.Name)
	}
	q := trail.Question{User: d.User, Since: d.Since}
	if d.Node != "" {
		if _, found := a.view.node(d.Node); !found {
			d.Problem = fmt.Sprintf("no node of cluster.yaml has the name %.64q", d.Node)
			return true
		}
		q.Nodes = []string{d.Node}
	}
	leave, why := s.searches.take(a.ctx)
	if leave == nil {
		d.Problem = why
		return true
	}
	defer leave()
	ctx, cancel := context.WithTimeout(a.ctx, searching)
	defer cancel()
	found, err := s.watcher.asker.Trail(ctx, q)
	if err != nil {
		d.Problem = err.Error()
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(found.Failed)) {
		d.Silent = append(d.Silent, name+": "+found.Failed[name].Error())
	}
	d.All = len(found.Calls)
	size := 0
	for _, c := range slices.Backward(found.Calls) {
		row := call{
			Time: c.Time.UTC().Format("2006-01-02 15:04:05"), Node: shown(c.Node), User: shown(c.User), Role: shown(fleet.RoleName(c.Role)), From: shown(c.From),
			What: shown(c.What()), Outcome: shown(c.Outcome()), Remarks: shown(c.Remarks()),
		}
		if _, found := a.view.node(c.Node); found {
			row.NodePath = nodesPath + url.PathEscape(c.Node)
		}
		for _, text := range []string{row.Node, row.NodePath, row.User, row.From, row.What, row.Outcome, row.Remarks} {
			size += len(template.HTMLEscapeString(text))
		}
		if size += rowBytes; len(d.Calls) == shownCalls || size > shownBytes && len(d.Calls) > 0 {
			break
		}
		d.Calls = append(d.Calls, row)
	}
	return true
}
