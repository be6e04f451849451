package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"spore/wire/nodeapi"
)

const (
	// certificateSoon is how long before its end a certificate is a warning. Nodes renew theirs long before.
	certificateSoon = 14 * 24 * time.Hour
	// masterRole is that of the nodes that renew certificates (docs/keys.md).
	masterRole = "control-plane"
)

// certificatesData is what the page of certificates shows.
type certificatesData struct {
	Asked   string
	Problem string
	Masters bool
	Rows    []certificate
}

type certificate struct {
	Node, Whose, Ends, Left, Renews, Has string
	Path                                 string
	Level                                Level
	ends                                 time.Time
}

// certificatesPage has the ends of certificates, the first and those not known on top. A node says when the first of its own does.
func (s *Server) certificatesPage(a asked, p *page) bool {
	d := &certificatesData{Masters: len(s.watcher.cluster.Members[masterRole]) > 0, Asked: a.now.UTC().Format("2006-01-02 15:04:05 UTC")}
	p.Data = d
	if ends := s.watcher.asker.Ends; !ends.IsZero() {
		d.Rows = append(d.Rows, certificate{Whose: "of this page: what the nodes are shown", Renews: "start spore dashboard again, or spore access " + s.Dir, ends: ends})
	}
	leave, why := s.searches.take(a.ctx)
	if leave == nil {
		d.Problem = why
		return true
	}
	defer leave()
	ctx, cancel := context.WithTimeout(a.ctx, searching)
	defer cancel()
	renews := "a master, by itself, when two thirds of its life are over"
	if !d.Masters {
		renews = "you: spore bundle " + s.Dir + " --all --make"
	}
	for _, answer := range s.watcher.asker.Renewals(ctx) {
		row := certificate{Node: answer.Node.Name, Path: nodesPath + answer.Node.Name, Whose: "the first of those of the node", Renews: renews}
		if answer.Err != nil {
			row.Has, row.Level = "not known, it does not say: "+answer.Err.Error(), Warning
		} else {
			row.take(answer.Value)
		}
		d.Rows = append(d.Rows, row)
	}
	for i := range d.Rows {
		row := &d.Rows[i]
		if row.ends.IsZero() {
			row.Ends, row.Left = "not known", "–"
			continue
		}
		row.Ends = row.ends.UTC().Format("2006-01-02 15:04 UTC")
		switch left := row.ends.Sub(a.now); {
		case left <= 0:
			row.Left, row.Level = "it has ended", Critical
		case left < certificateSoon && row.Node != "":
			row.Left, row.Level = remaining(left), max(row.Level, Warning)
		default:
			row.Left = remaining(left)
		}
	}
	// What is not known may be the first to end.
	slices.SortStableFunc(d.Rows, func(a, b certificate) int { return a.ends.Compare(b.ends) })
	return true
}

// take has what a node says of its certificates.
func (c *certificate) take(r nodeapi.Renewal) {
	c.ends = r.Ends
	var has []string
	if r.Ends.IsZero() {
		has = append(has, "it has no bundle")
	}
	if len(r.Pending) > 0 {
		has = append(has, "what is new was not taken yet by "+strings.Join(r.Pending, ", "))
	}
	if r.Problem != "" {
		has = append(has, r.Problem)
	}
	if len(has) > 0 {
		c.Level = Warning
	}
	c.Has = cmp.Or(strings.Join(has, "; "), "all that is new is in use")
}

// remaining is a time that is left, for people.
func remaining(d time.Duration) string {
	switch {
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
