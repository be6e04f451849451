package bundle

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	keys "spore/builder/cmd/pki"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/builder/rotate"
	"spore/cluster/facts"
	"spore/pki/bundle"
	"spore/pki/seal"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// parcel is a bundle for a node; without data it is one that would be made.
type parcel struct {
	data  []byte
	claim bundle.Claim
	// made tells that it was made for this.
	made bool
}

// deliver brings bundles to nodes, one after the other.
func deliver(cmd *cobra.Command, f flags, dir string) error {
	made := map[string][]byte{}
	if f.make && !f.dryRun {
		folder := keys.Folder{
			Configs: dir, Dir: f.reach.PKI, PassphraseFile: f.reach.PassphraseFile, Identity: f.reach.Identity,
		}
		issued, err := keys.Issue(cmd, folder, f.reach.Nodes, reach.Person())
		if err != nil {
			return err
		}
		made, f.reach.Shown = issued.Bundles, &issued.Identity
	}
	c, err := f.reach.Open(cmd, dir, nodeapi.Admin)
	if err != nil {
		return err
	}
	parcels := map[string]parcel{}
	for _, n := range c.Nodes {
		switch {
		case f.send != "":
			made[n.Name], err = read(f.send, n.Name, len(c.Nodes) > 1)
		case f.dryRun:
			continue
		}
		if err == nil {
			parcels[n.Name], err = open(made[n.Name], f.make, c.Facts.ID, n.Name)
		}
		if err != nil {
			return err
		}
	}
	var answers []reach.Answer[verb.Reply]
	for i, n := range c.Nodes {
		a := one(cmd, c, n, parcels[n.Name], f.dryRun)
		answers = append(answers, a)
		if left := len(c.Nodes) - i - 1; a.Err != nil && !f.dryRun && left > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d nodes after %s were left as they are\n", left, n.Name)
			break
		}
	}
	return verb.Tell(cmd, answers, f.json, nil)
}

// read reads the bundle of a node from a file, or from a folder in which each node has one.
func read(path, node string, several bool) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		path = filepath.Join(path, node+".bundle")
	} else if several {
		return nil, exit.Usage(fmt.Errorf("%s is the bundle of one node; name a folder with a NODE.bundle for each "+
			"(spore pki bundle --all)", path))
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, bundle.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if seal.IsSealed(data) {
		return nil, fmt.Errorf("%s is encrypted with a passphrase, which a running node asks nobody for; make it without "+
			"--encrypt, or use --make", path)
	}
	return data, nil
}

// open reads what a bundle says of itself. Whether that is true the node finds out.
func open(data []byte, made bool, cluster, node string) (parcel, error) {
	claim, err := bundle.Claimed(data)
	if err == nil && (!strings.EqualFold(claim.Cluster, cluster) || claim.Node != node) {
		err = fmt.Errorf("%w: it is for node %.64q of the cluster %.64q", bundle.ErrOther, claim.Node, claim.Cluster)
	}
	if err != nil {
		return parcel{}, fmt.Errorf("the bundle for %s: %w", node, err)
	}
	return parcel{data, claim, made}, nil
}

// one brings one node its bundle, and waits until its programs run with it.
func one(cmd *cobra.Command, c *reach.Cluster, n facts.Node, p parcel, dryRun bool) (a reach.Answer[verb.Reply]) {
	a.Node = n
	fleet := rotate.Nodes{Client: c.Client}
	has, err := fleet.Ask(cmd.Context(), n.Name)
	switch {
	case err != nil:
		a.Err = err
		return a
	case p.made && p.claim.Serial <= has.Serial:
		a.Err = fmt.Errorf("it has bundle %d, and the operator's folder, which is from before, made bundle %d; run this "+
			"again, until the number of a new one is higher", has.Serial, p.claim.Serial)
		return a
	case p.data != nil && p.claim.Serial < has.Serial:
		a.Err = fmt.Errorf("it has bundle %d, and takes no older one, such as %d; make a new one with --make",
			has.Serial, p.claim.Serial)
		return a
	case dryRun:
		a.Value.Done, a.Err = outlook(has, p), rotate.Ready(cmd.Context(), fleet, []string{n.Name})
		return a
	}
	b := rotate.Bundle{Node: n.Name, Serial: p.claim.Serial, Data: p.data}
	if has.Serial == b.Serial {
		b.Data = nil // It was sent before, and has to be waited for.
	}
	a.Err = rotate.Phase{
		Fleet: fleet, Bundles: []rotate.Bundle{b}, Bound: rotate.NodeBound, Every: rotate.LookEvery, Sleep: rotate.Sleep,
		Say: func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), nodeapi.Harmless(text)) },
	}.Run(cmd.Context())
	if a.Err == nil {
		a.Value = kept(cmd, c, n, b.Serial)
	}
	return a
}

// outlook is what would be done.
func outlook(has nodeapi.Renewal, p parcel) string {
	switch {
	case p.data == nil:
		return fmt.Sprintf("has bundle %d, and would be sent a new one; nothing was done", has.Serial)
	case p.claim.Serial == has.Serial:
		return fmt.Sprintf("has bundle %d already; nothing was done", has.Serial)
	}
	return fmt.Sprintf("has bundle %d, and would be sent bundle %d; nothing was done", has.Serial, p.claim.Serial)
}

// kept asks a node that runs with its bundle how it keeps it. One whose image is older does not say.
func kept(cmd *cobra.Command, c *reach.Cluster, n facts.Node, serial uint64) verb.Reply {
	alone := *c
	alone.Nodes = []facts.Node{n}
	a := verb.Ask(cmd, &alone, verb.Row("bundle"), verb.Same(nodeapi.Order{}), nil)[0]
	var b machine.Bundle
	if a.Err == nil {
		b, a.Err = parse(a.Value.Results)
	}
	if a.Err != nil {
		unknown := fmt.Sprintf("runs with bundle %d", serial)
		if !errors.As(a.Err, new(nodeapi.Refusal)) {
			unknown += "; how it keeps it is not known: " + a.Err.Error()
		}
		return verb.Reply{Done: unknown}
	}
	return verb.Reply{Results: a.Value.Results, Done: strings.Join(append([]string{"runs with " + say(b)}, notes(b)...), "\n")}
}
