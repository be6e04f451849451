package pki

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/service"
)

// Phase is how far the rotation of an authority is.
type Phase string

// Phases.
const (
	Steady     Phase = "steady"     // one generation
	Introduced Phase = "introduced" // the next one is trusted, the current one signs
	Switched   Phase = "switched"   // the new one signs, the previous one is trusted
)

// Phase tells how far the rotation of the authority is.
func (a *Authority) Phase() Phase {
	switch {
	case a.Next != nil:
		return Introduced
	case a.Previous != nil:
		return Switched
	}
	return Steady
}

func (t *Tree) authority(name string, l *services.List) (service.AuthorityRow, *Authority, error) {
	var known []string
	for _, row := range t.rows(l) {
		if t.Authorities[row.Name] == nil {
			continue
		}
		if row.Name == name {
			return row, t.Authorities[name], nil
		}
		known = append(known, row.Name)
	}
	return service.AuthorityRow{}, nil, fmt.Errorf("there is no authority %q; there are %s", name, strings.Join(known, ", "))
}

// Introduce begins a rotation: the authority's next generation is made and trusted, and does not sign yet. Images that
// are built from now on trust both.
func (t *Tree) Introduce(name string, c *facts.Cluster, o Options) error {
	if err := t.isFor(c); err != nil {
		return err
	}
	row, a, err := t.authority(name, services.Of(c))
	if err != nil {
		return err
	}
	if row.Service == unlisted {
		return fmt.Errorf("no role of the configuration has the authority %s any more, so there is nothing to replace", name)
	}
	if p := a.Phase(); p != Steady {
		return fmt.Errorf("%s is being rotated already and is %s; go on with `spore pki rotate-ca %s`", name, p, name)
	}
	for other, x := range t.Authorities {
		if x.Phase() != Steady && (name == RootName || other == RootName) {
			return errors.New("the root and its authorities cannot be rotated at the same time; finish the other rotation first (`spore pki show` says which)")
		}
	}
	number := a.Current.Number + 1
	var next Generation
	if name == RootName && o.Root != nil {
		next, err = o.ownGeneration(number)
	} else {
		root := t.Authorities[RootName]
		next, err = o.generation(row, number, c, func() (signer, error) { return root.Current.signer(RootName, o.Root) })
	}
	if err != nil {
		return fmt.Errorf("rotate %s: %w", name, err)
	}
	if next.PublicKey == a.Current.PublicKey {
		return fmt.Errorf("rotate %s: its key is the present one; bring another root with a new key", name)
	}
	a.Next = &next
	t.Revision++
	return nil
}

// Switch makes the next generation sign. Update then makes again all that the current one signed. It is for the time
// when every node runs an image that trusts both.
func (t *Tree) Switch(name string) error {
	_, a, err := t.authority(name, services.Ours())
	if err != nil {
		return err
	}
	if p := a.Phase(); p != Introduced {
		return fmt.Errorf("the rotation of %s is %s, so there is nothing to switch to", name, p)
	}
	previous := a.Current
	a.Previous, a.Current, a.Next = &previous, *a.Next, nil
	t.Revision++
	return nil
}

// Withdraw takes back what Introduce did.
func (t *Tree) Withdraw(name string) error {
	_, a, err := t.authority(name, services.Ours())
	if err != nil {
		return err
	}
	if p := a.Phase(); p != Introduced {
		return fmt.Errorf("the rotation of %s is %s; only one that has not switched can be withdrawn", name, p)
	}
	a.Next = nil
	t.Revision++
	return nil
}

// StillUsing lists the nodes whose last bundle stands on the previous generation of an authority. A node that never had
// a bundle uses none.
func (t *Tree) StillUsing(name string, nodes []facts.Node) []string {
	a := t.Authorities[name]
	if a == nil || a.Previous == nil {
		return nil
	}
	old := KeyID(a.Previous.PublicKey)
	var out []string
	for _, n := range nodes {
		if t.Issued[n.Name].Authorities[name] == old {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// maxNamed is how many nodes an error names.
const maxNamed = 10

// Finish ends a rotation: the previous generation is trusted no more by images that are built from now on, and its key
// is gone. It is refused while the last bundle of any node stands on it.
func (t *Tree) Finish(name string, c *facts.Cluster, nodes []facts.Node) error {
	if err := t.isFor(c); err != nil {
		return err
	}
	_, a, err := t.authority(name, services.Ours())
	if err != nil {
		return err
	}
	if p := a.Phase(); p != Switched {
		return fmt.Errorf("the rotation of %s is %s, so there is nothing to end", name, p)
	}
	if users := t.StillUsing(name, nodes); len(users) > 0 {
		named := strings.Join(users[:min(len(users), maxNamed)], ", ")
		if more := len(users) - maxNamed; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		return fmt.Errorf("the last bundle of %s stands on the previous %s, so ending now would cut it off; make new ones with `spore pki bundle --node NAME` and bring them to the nodes", named, name)
	}
	a.Previous = nil
	t.Revision++
	if name == RootName {
		for _, other := range t.Authorities {
			other.Current.Former = ""
		}
	}
	return nil
}
