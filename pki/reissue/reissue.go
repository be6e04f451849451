// Package reissue makes a node's certificates again, on the node, when they end and no new bundle came: those of the
// authorities whose keys the node's bundle holds. What each certificate is to be is the table of package pki.
//
// What it makes lies over the bundle's entries and is kept by the caller, sealed, until the next boot. Of a leaf that is in
// both, the bundle's wins while it is good. The package writes no files, and issues nothing for other nodes.
package reissue

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"spore/cluster/facts"
	"spore/pki"
	"spore/services/service"
)

// Input is what the node has.
type Input struct {
	Cluster *facts.Cluster
	Node    *facts.Node
	// Bundle holds the entries of the bundle.
	Bundle map[string]string
	// Kept holds the entries that an earlier call returned.
	Kept map[string]string
	// Authorities holds the certificates by which each authority is trusted, by its name: NAME.crt of the cluster part.
	Authorities map[string]string
	// Now is the node's time, Random gives keys.
	Now    time.Time
	Random io.Reader
}

// Result is what came of it.
type Result struct {
	// Entries take the place of the bundle's entries of the same names. They are secret.
	Entries map[string]string
	// Changed tells that Entries are not what was kept: they are to be kept instead.
	Changed bool
	// Made lists what was made now.
	Made []pki.Change
	// Asked lists what another node made (Ask).
	Asked []pki.Change
	// Problems lists what is not as it should be and could not be made.
	Problems []Problem
}

// Format implements fmt.Formatter, so that no verb shows the secrets.
func (r Result) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "%d certificates made again, %d problems", len(r.Made), len(r.Problems))
}

// Problem is a certificate that should be another and could not be made.
type Problem struct {
	// ID is that of the leaf, NAME/NODE, and Leaf itself.
	ID   string
	Leaf pki.Leaf
	// Why says what is wrong with what is there.
	Why string
	// Works tells that what is there works for now; it ends at Ends.
	Works bool
	Ends  time.Time
	// Err says what is wrong with it, why it could not be made, and what to do.
	Err error
}

// ErrNotHeld is a certificate whose authority's key is not on this node.
var ErrNotHeld = errors.New("this node does not hold the key of its authority")

// Leaves looks at each certificate that the tables give to the node and makes again what is missing, past two thirds of its
// life, at its end, or for other names than the node has now. One that cannot be made is a Problem and does not keep the
// others. An error means that nothing could be looked at.
func Leaves(in Input) (Result, error) {
	share, err := pki.ShareOf(in.Cluster, in.Node)
	if err != nil {
		return Result{}, err
	}
	r := Result{Entries: map[string]string{}}
	for _, l := range share.Leaves {
		if l.Row.Made == service.Operator {
			r.leaf(in, share, l)
		}
	}
	r.Changed = !maps.Equal(r.Entries, in.Kept)
	return r, nil
}

// Ask has others make what this node could not, for want of an authority's key: by asks at once for all of that, and returns
// what was made, and why the rest was not. kept is Input.Kept.
func (r *Result) Ask(kept map[string]string, by func([]pki.Leaf) (map[string]pki.Certificate, map[string]error, error)) {
	var leaves []pki.Leaf
	for _, p := range r.Problems {
		if errors.Is(p.Err, ErrNotHeld) {
			leaves = append(leaves, p.Leaf)
		}
	}
	if len(leaves) == 0 {
		return
	}
	made, refused, err := by(leaves)
	var rest []Problem
	for _, p := range r.Problems {
		c, ok := made[p.ID]
		switch {
		case ok:
			r.Entries[p.Leaf.Certificate], r.Entries[p.Leaf.Key] = c.Certificate, string(c.Key)
			r.Asked = append(r.Asked, pki.Change{ID: p.ID, Did: "renewed", Why: p.Why})
			continue
		case err != nil && errors.Is(p.Err, ErrNotHeld):
			p.Err = fmt.Errorf("certificate %s: %s: %w", p.ID, p.Why, err)
		case refused[p.ID] != nil:
			p.Err = fmt.Errorf("certificate %s: %s: %w", p.ID, p.Why, refused[p.ID])
		}
		rest = append(rest, p)
	}
	r.Problems, r.Changed = rest, !maps.Equal(r.Entries, kept)
}

// leaf decides on one.
func (r *Result) leaf(in Input, share pki.Share, l pki.Leaf) {
	trusted := in.Authorities[l.Row.Authority]
	of := func(entries map[string]string) pki.Certificate {
		return pki.Certificate{Certificate: entries[l.Certificate], Key: pki.Hidden(entries[l.Key])}
	}
	have, bundled := of(in.Bundle), true
	state := l.Examine(have, trusted, in.Now)
	if kept := of(in.Kept); state.Worth != pki.Good {
		if other := l.Examine(kept, trusted, in.Now); better(other, state) {
			have, state, bundled = kept, other, false
		}
	}
	if state.Worth != pki.Good {
		made, err := in.make(share, l, state)
		if err == nil {
			did := "renewed"
			if state.Ends.IsZero() {
				did = "made"
			}
			r.Made = append(r.Made, pki.Change{ID: l.ID, Did: did, Why: state.Why})
			have, bundled = made, false
		} else {
			r.Problems = append(r.Problems, Problem{ID: l.ID, Leaf: l, Why: state.Why, Works: state.Worth != pki.Useless, Ends: state.Ends, Err: fmt.Errorf("certificate %s: %s: %w", l.ID, state.Why, err)})
		}
	}
	if !bundled {
		r.Entries[l.Certificate], r.Entries[l.Key] = have.Certificate, string(have.Key)
	}
}

// better tells whether one certificate is to be preferred: for what it is worth, then for how long it lasts.
func better(a, b pki.Examination) bool {
	return cmp.Or(cmp.Compare(a.Worth, b.Worth), b.Ends.Compare(a.Ends)) < 0
}

func (in *Input) make(share pki.Share, l pki.Leaf, state pki.Examination) (pki.Certificate, error) {
	var key string
	for _, a := range share.Issues {
		if a.Name == l.Row.Authority {
			key = in.Bundle[a.Key]
		}
	}
	if key == "" {
		return pki.Certificate{}, fmt.Errorf("%w; run `spore pki bundle --node %s` and bring the bundle to the node", ErrNotHeld, in.Node.Name)
	}
	by, err := pki.NewIssuer(l.Row.Authority, in.Authorities[l.Row.Authority], pki.Hidden(key), in.Now)
	if err != nil {
		return pki.Certificate{}, err
	}
	if state.Worth == pki.Due && !by.Ends().After(state.Ends) {
		return pki.Certificate{}, fmt.Errorf("the authority %s ends on %s, so a new certificate would expire then too; run `spore pki renew`, build the image again and bring it to the nodes", l.Row.Authority, by.Ends().UTC().Format(time.DateOnly))
	}
	return by.Issue(l, pki.Options{Now: in.Now, Random: in.Random})
}
