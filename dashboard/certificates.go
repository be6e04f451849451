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

// inUse is what is said of a node that has nothing to take.
const inUse = "all that is new is in use"

// certificatesData is what the page of certificates shows.
type certificatesData struct {
	Asked   string
	Problem string
	Masters bool
	Rows    []certificate
	// Wrong is what is wrong with them, bounded; MoreWrong is how many have no room.
	Wrong     []Trouble
	MoreWrong int
}

type certificate struct {
	Node, Whose, Ends, Left, Renews, Has string
	Path                                 string
	Level                                Level
	ends                                 time.Time
	// silent says that the node does not say, and pending that programs have yet to take what is new.
	silent, pending bool
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
			row.Has, row.Level, row.silent = "not known, it does not say: "+answer.Err.Error(), Warning, true
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
	for _, row := range d.Rows {
		if row.Level > Fine {
			d.Wrong = append(d.Wrong, row.trouble(s.Dir, d.Masters))
		}
	}
	d.Wrong, d.MoreWrong = topmost(d.Wrong)
	return true
}

// take has what a node says of its certificates.
func (c *certificate) take(r nodeapi.Renewal) {
	c.ends = r.Ends
	var has []string
	if r.Ends.IsZero() {
		has = append(has, "it has no bundle")
	}
	if c.pending = len(r.Pending) > 0; c.pending {
		has = append(has, "what is new was not taken yet by "+strings.Join(r.Pending, ", "))
	}
	if r.Problem != "" {
		has = append(has, r.Problem)
	}
	if len(has) > 0 {
		c.Level = Warning
	}
	c.Has = cmp.Or(strings.Join(has, "; "), inUse)
}

// trouble says what is wrong with the certificates, and what to do.
func (c certificate) trouble(dir string, masters bool) Trouble {
	t := Trouble{Level: c.Level, Node: c.Node, Name: "certificate", Text: c.Has}
	switch {
	case c.Node == "":
		t.Text, t.Do = "the certificate of this page has ended", []string{c.Renews}
	case c.silent:
		t.Text, t.Do = strings.TrimPrefix(c.Has, "not known, "), []string{"spore status " + dir + " --node " + c.Node}
	case c.pending:
		t.Do = []string{"spore health " + dir + " --all --node " + c.Node, "read docs/keys.md#how-programs-load-new-certificates"}
	case !masters:
		t.Do = []string{"spore bundle " + dir + " --node " + c.Node + " --make"}
	default: // A master should have renewed them.
		t.Do = []string{
			"spore health " + dir + " --all --node " + c.Node, "see whether a master answers, and why none has signed: docs/keys.md#renewal-on-running-nodes",
			"spore bundle " + dir + " --node " + c.Node + " --make",
		}
	}
	if left := c.Left; c.Node != "" && !c.ends.IsZero() {
		if c.Level < Critical {
			left = "the first ends in " + left
		}
		if t.Text = left; c.Has != inUse {
			t.Text += "; " + c.Has
		}
	}
	return t
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
