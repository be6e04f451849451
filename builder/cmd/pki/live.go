package pki

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"spore/builder/cmd/exit"
	"spore/builder/rotate"
	tree "spore/pki"
	"spore/services"
	"spore/services/kubernetes"
	"spore/services/service"
	"spore/wire/nodeapi"
)

// Times of a rotation over running nodes.
const (
	// settleUsual is longer than any program of a node takes to look at its files again by itself: clients of Kubernetes
	// do so every five minutes (client-go, transport).
	settleUsual = 11 * time.Minute
	// settleTokens is longer than the token of a service account lives in a pod.
	settleTokens = 75 * time.Minute
	// rightsLife is how long the certificate lives that the nodes are asked with; each phase makes another one.
	rightsLife  = 12 * time.Hour
	operatorWho = "rotate-ca"
)

// liveFlags are those of a rotation over running nodes.
type liveFlags struct {
	addresses []string
	settle    time.Duration
}

// rotateLive carries a rotation through over the running cluster, from wherever it is.
func (s *session) rotateLive(ctx context.Context, w io.Writer, name string, f liveFlags) error {
	if name == tree.SigningName {
		return exit.Usage(errors.New("running nodes verify bundles with the signing key, so it can only be replaced with images: leave --live out"))
	}
	_, a, err := s.lookup(name)
	if err != nil {
		return err
	}
	if err := s.ready(ctx, f); err != nil {
		return err
	}
	settle := settleUsual
	if name == kubernetes.ServiceAccountAuthority {
		settle = settleTokens
	}
	if f.settle > 0 {
		settle = f.settle
	}
	if a.Phase() == tree.Steady {
		if err := s.introduce(io.Discard, name); err != nil {
			return err
		}
	}
	if a.Phase() == tree.Introduced {
		fmt.Fprintf(w, "%s: phase 1 of 3, all nodes trust the next key\n", name)
		if err := s.spread(ctx, w, f, settle); err != nil {
			return err
		}
		if err := s.switchOver(io.Discard, name); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%s: phase 2 of 3, the new key signs, and all nodes get their certificates\n", name)
	if err := s.spread(ctx, w, f, settle); err != nil {
		return err
	}
	if err := s.vault.Tree.Finish(name, s.cluster, s.nodes); err != nil {
		return err
	}
	if err := s.vault.Save(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: phase 3 of 3, the old key is no longer trusted\n", name)
	if err := s.spread(ctx, w, f, 0); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: replaced on all nodes; build the images again, and export the certificates for programs outside the nodes again\n", name)
	return nil
}

// lookup finds an authority.
func (s *session) lookup(name string) (service.AuthorityRow, *tree.Authority, error) {
	for _, row := range tree.Authorities(services.Of(s.cluster)) {
		if a := s.vault.Tree.Authorities[name]; row.Name == name && a != nil {
			return row, a, nil
		}
	}
	return service.AuthorityRow{}, nil, exit.Usage(fmt.Errorf("there is no authority %q; `spore pki show` lists them", name))
}

func (s *session) nodeNames() []string {
	var names []string
	for _, n := range s.nodes {
		names = append(names, n.Name)
	}
	return rotate.Order(names, func(n string) bool { return slices.Contains(s.cluster.Members["control-plane"], n) })
}

// ready refuses to begin while a node is away: before anything in the folder is changed.
func (s *session) ready(ctx context.Context, f liveFlags) error {
	fleet, err := s.fleet(f)
	if err != nil {
		return err
	}
	return rotate.Ready(ctx, fleet, s.nodeNames())
}

// spread brings what is in the folder now to all nodes. Those whose last bundle has it already are not sent another
// one, if they have taken that.
func (s *session) spread(ctx context.Context, w io.Writer, f liveFlags, settle time.Duration) error {
	fleet, err := s.fleet(f)
	if err != nil {
		return err
	}
	if _, err := s.update(false); err != nil {
		return err
	}
	t := s.vault.Tree
	var bundles []rotate.Bundle
	for _, name := range s.nodeNames() {
		n, err := s.node(name)
		if err != nil {
			return err
		}
		b := rotate.Bundle{Node: name, Serial: t.Issued[name].Serial}
		if r, err := fleet.Ask(ctx, name); err != nil || t.Issued[name].Revision != t.Revision || r.Serial != b.Serial {
			if b.Data, err = t.BundleFor(s.cluster, n, s.world.now()); err != nil {
				return err
			}
			b.Serial = t.Serial
		}
		bundles = append(bundles, b)
	}
	// The record is there before a bundle is.
	if err := s.vault.Save(); err != nil {
		return err
	}
	p := rotate.Phase{
		Fleet: fleet, Bundles: bundles, Revision: t.Revision, Settle: settle, Bound: rotate.NodeBound, Every: rotate.LookEvery,
		Say:   func(text string) { fmt.Fprintln(w, "  "+text) },
		Sleep: rotate.Sleep,
	}
	if err := p.Run(ctx); err != nil {
		return fmt.Errorf("%w (the folder of keys stays in this phase)", err)
	}
	return nil
}

// fleet is the running nodes, asked with a certificate that is made for the moment.
func (s *session) fleet(f liveFlags) (rotate.Fleet, error) {
	id, err := s.administers(operatorWho)
	if err != nil {
		return nil, err
	}
	at := map[string][]string{}
	for _, n := range s.nodes {
		if at[n.Name] = n.IPs; len(n.IPs) == 0 {
			at[n.Name] = []string{n.FQDN}
		}
	}
	for _, text := range f.addresses {
		name, place, ok := strings.Cut(text, "=")
		if !ok || place == "" || at[name] == nil {
			return nil, exit.Usage(fmt.Errorf("the address %q is not valid; write it as NODE=HOST or NODE=HOST:PORT", text))
		}
		at[name] = []string{place}
	}
	return rotate.Nodes{Client: nodeapi.Client{
		Identity:  func() (nodeapi.Identity, error) { return id, nil },
		Addresses: func(node string) ([]string, error) { return at[node], nil },
	}}, nil
}

// administers makes a certificate for the moment, with which somebody may change nodes.
func (s *session) administers(person string) (nodeapi.Identity, error) {
	o, err := s.options(false)
	if err != nil {
		return nodeapi.Identity{}, err
	}
	admin, err := s.vault.Tree.Access(s.cluster, tree.NodeAdmin, person, rightsLife, o)
	if err != nil {
		return nodeapi.Identity{}, err
	}
	return nodeapi.Identity{Certificate: []byte(admin.Certificate), Key: []byte(admin.Key), Authorities: admin.Authority}, nil
}
