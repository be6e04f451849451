package pki

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/service"
)

// Line is one line of what `spore pki show` prints. Nothing in it is secret.
type Line struct {
	// Kind is authority, certificate, secret or bundle.
	Kind string `json:"kind"`
	// Name is the authority's name or the row's name, For the node (or the entry that a user named).
	Name string `json:"name"`
	For  string `json:"for,omitempty"`
	// By is the authority that signed.
	By string `json:"by,omitempty"`
	// KeyID is that of an authority's key.
	KeyID string `json:"keyID,omitempty"`
	// Expires and Due (the time to renew) are there for certificates; Made for secrets and bundles.
	Expires *time.Time `json:"expires,omitempty"`
	Due     *time.Time `json:"due,omitempty"`
	Made    *time.Time `json:"made,omitempty"`
	// State is ok, due, expired, changed, missing, next, previous, given, unused or outdated.
	State string `json:"state"`
}

// Show lists the tree as it is at a time, against what a configuration wants of it: authorities in the order of the
// table, certificates, secrets and bundles sorted.
func (t *Tree) Show(c *facts.Cluster, nodes []facts.Node, now time.Time) ([]Line, error) {
	if err := t.isFor(c); err != nil {
		return nil, err
	}
	out := t.showAuthorities(c, now)
	shares, bundles := []Share{ShareOfOperator(c)}, []Line{}
	for i := range nodes {
		s, err := ShareOf(c, &nodes[i])
		if err != nil {
			return nil, err
		}
		shares = append(shares, s)
		bundles = append(bundles, t.showBundle(nodes[i].Name, s))
	}
	slices.SortFunc(bundles, func(a, b Line) int { return cmp.Compare(a.For, b.For) })
	leaves, secrets := map[string]Leaf{}, map[string]bool{}
	for _, s := range shares {
		for _, l := range s.Leaves {
			if l.Row.Made == service.Operator {
				leaves[l.ID] = l
			}
		}
		for _, e := range s.Secrets {
			secrets[e.ID] = true
		}
	}
	out = append(out, t.showLeaves(leaves, now)...)
	out = append(out, t.showSecrets(secrets)...)
	return append(out, bundles...), nil
}

func (t *Tree) showAuthorities(c *facts.Cluster, now time.Time) []Line {
	var out []Line
	for _, row := range t.rows(services.Of(c)) {
		a := t.Authorities[row.Name]
		if a == nil {
			if enabled(c, row.Service) {
				out = append(out, Line{Kind: "authority", Name: row.Name, State: "missing"})
			}
			continue
		}
		for i, g := range a.generations() {
			l := Line{Kind: "authority", Name: row.Name, KeyID: KeyID(g.PublicKey), State: "ok"}
			if row.Kind == service.CA {
				l.dates(g.Certificate, now, true)
			}
			switch {
			case i > 0 && g == a.Next:
				l.State = "next"
			case i > 0:
				l.State = "previous"
			case !enabled(c, row.Service):
				l.State = "unused"
			}
			if row.Kind == service.CA && row.Name != RootName {
				l.By = RootName
			}
			out = append(out, l)
		}
	}
	return out
}

// dates fills in what a certificate says of its life.
func (l *Line) dates(text string, now time.Time, authority bool) {
	c, err := parseCertificate(text)
	if err != nil {
		l.State = "broken"
		return
	}
	end, due := c.NotAfter, leafDue(c)
	if authority {
		due = authorityDue(c)
	}
	l.Expires, l.Due = &end, &due
	switch {
	case !now.Before(end):
		l.State = "expired"
	case !now.Before(due):
		l.State = "due"
	}
}

func (t *Tree) showLeaves(wanted map[string]Leaf, now time.Time) []Line {
	ids := map[string]bool{}
	for id := range wanted {
		ids[id] = true
	}
	for id := range t.Leaves {
		ids[id] = true
	}
	var out []Line
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		name, node, _ := strings.Cut(id, "/")
		line := Line{Kind: "certificate", Name: name, For: node, State: "ok"}
		want, isWanted := wanted[id]
		line.By = want.Row.Authority
		have := t.Leaves[id]
		if have == nil {
			line.State = "missing"
			out = append(out, line)
			continue
		}
		line.dates(have.Certificate, now, false)
		switch x, err := parseCertificate(have.Certificate); {
		case err != nil:
		case !isWanted:
			line.State = "unused"
		case differs(x, want) != "" || !t.signs(want.Row.Authority, have):
			line.State = "changed"
		}
		out = append(out, line)
	}
	return out
}

// signs tells whether the current generation of an authority signed a certificate.
func (t *Tree) signs(authority string, c *Certificate) bool {
	a := t.Authorities[authority]
	if a == nil {
		return false
	}
	leaf, err1 := parseCertificate(c.Certificate)
	ca, err2 := parseCertificate(a.Current.Certificate)
	return err1 == nil && err2 == nil && signedBy(leaf, ca)
}

func (t *Tree) showSecrets(wanted map[string]bool) []Line {
	ids := maps.Clone(wanted)
	for id := range t.Secrets {
		ids[id] = true
	}
	var out []Line
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		name, whom, _ := strings.Cut(id, "/")
		line := Line{Kind: "secret", Name: name, For: whom, State: "ok"}
		have := t.Secrets[id]
		switch {
		case have == nil:
			line.State = "missing"
		case !wanted[id]:
			line.State = "unused"
		case have.Given:
			line.State = "given"
		}
		if have != nil {
			line.Made = &have.Made
		}
		out = append(out, line)
	}
	return out
}

// showBundle tells of a node's last bundle: outdated when something that it gives the node is newer.
func (t *Tree) showBundle(node string, share Share) Line {
	line := Line{Kind: "bundle", Name: "bundle", For: node, State: "missing"}
	r, ok := t.Issued[node]
	if !ok {
		return line
	}
	line.State, line.Made = "ok", &r.Issued
	for _, row := range share.Authorities {
		if a := t.Authorities[row.Name]; a == nil || KeyID(a.Current.PublicKey) != r.Authorities[row.Name] {
			line.State = "outdated"
		}
	}
	for _, l := range share.Leaves {
		if have := t.Leaves[l.ID]; have != nil {
			if c, err := parseCertificate(have.Certificate); err != nil || c.NotBefore.Add(backdate).After(r.Issued) {
				line.State = "outdated"
			}
		}
	}
	for _, e := range share.Secrets {
		if have := t.Secrets[e.ID]; have == nil || have.Made.After(r.Issued) {
			line.State = "outdated"
		}
	}
	return line
}
