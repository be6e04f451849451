// Package bundle takes the node's bundle of secrets and lays out what came of it: at the boot, from the boot medium,
// the firmware, the state or the server that the machine was booted from; later, when the operator sends a newer one or
// a certificate is due. It also signs other nodes' certificates, on masters. Packages delivery, sealed, secrets and
// renewal have the rules; the form of a bundle is pki/bundle.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"spore/agent/bootinfo"
	"spore/agent/clusterpart"
	"spore/agent/delivery"
	"spore/agent/medium"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/sealed"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/storage/atomicfile"
)

// Info is the content of paths.BundleInfo.
type Info struct {
	delivery.Info
	// Delivery is the part of Problem that is of the bundle and not of its certificates.
	Delivery string `json:"delivery,omitempty"`
	// Made is when the bundle in use was made.
	Made time.Time `json:"made,omitzero"`
}

// taker is what the steps of the bundle work with.
type taker struct {
	m       *node.Machine
	cluster *facts.Cluster
	node    *facts.Node
	trust   clusterpart.Authorities
	// vault is nil when nothing lasts on this machine, and noVault says why.
	vault   *sealed.Vault
	noVault string
	in      delivery.Input
	// said is the problem that was said last.
	said string
	// renews says that the node is up and the certificates of its bundle are looked at again; ask, when not nil, asks
	// other nodes for those that this one cannot make.
	renews bool
	asks   func(ctx context.Context, agent pki.Certificate, trusted map[string]string, leaves []pki.Leaf) (map[string]pki.Certificate, map[string]error, error)
}

// Take takes the node's bundle and lays out its secrets; with ask it asks for the passphrase of one that has one.
func Take(ctx context.Context, m *node.Machine, ask bool) error {
	m.ReadBoot()
	err := runBundle(ctx, m, ask)
	if err == nil {
		return nil
	}
	// So that roles that are held for it say why.
	info := Info{Info: delivery.Info{Problem: "the bundle could not be taken: " + err.Error()}}
	return errors.Join(err, atomicfile.WriteJSON(m.Root.At(paths.BundleInfo), info))
}

func runBundle(ctx context.Context, m *node.Machine, ask bool) error {
	t, err := newTaker(m)
	if err != nil || t == nil {
		return err
	}
	defer m.Record("bundle")
	if ask {
		return t.ask(ctx)
	}
	_, err = t.take(ctx)
	return err
}

// newTaker collects what there is; nil on a machine that does not match any node.
func newTaker(m *node.Machine) (*taker, error) {
	id, err := m.Identity()
	if err != nil || !id.Known() {
		return nil, err
	}
	t := &taker{m: m}
	if t.cluster, err = m.Part.Cluster(); err != nil {
		return nil, err
	}
	// As it was compiled: the names in certificates are those of the configuration.
	if t.node, err = m.Part.Node(id.Node); err != nil {
		return nil, err
	}
	if t.trust, err = m.Part.Authorities(); err != nil {
		return nil, err
	}
	t.findVault()
	t.in = delivery.Input{
		Whose: bundle.Whose{Cluster: t.cluster.ID, Node: t.node.Name},
		Knows: func(b *bundle.Bundle, authority, keyID string) (bool, error) {
			trust, err := t.trusts(b)
			return trust.Knows(authority, keyID), err
		},
		Taken: m.Root.At(paths.BundleTaken), NoVault: t.noVault, Say: m.Say,
	}
	if t.vault != nil {
		t.in.Vault = bundleVault{t.vault, m.Root}
	}
	if m.Boot.ESP != "" {
		t.in.Medium = medium.ESP{Device: m.Boot.ESP, Dir: m.Root.At(paths.ESP), Mount: medium.Mount, Unmount: medium.Unmount}
	}
	if t.in.Whose.Keys, err = signingKeys(m, t.cluster); err != nil {
		return nil, err
	}
	return t, t.collect()
}

// collect reads what was delivered.
func (t *taker) collect() error {
	if err := t.add(delivery.Medium, t.m.Root.At(bootinfo.Delivered)); err != nil {
		return err
	}
	if err := t.add(delivery.NoCloud, t.m.Root.At(bootinfo.DeliveredNoCloud)); err != nil {
		return err
	}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		return t.add(delivery.Firmware, filepath.Join(dir, delivery.CredentialName))
	}
	return nil
}

// add reads one delivered bundle, if it is there.
func (t *taker) add(from, path string) error {
	data, err := atomicfile.ReadLimited(path, bootinfo.MaxDelivered)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read a delivered bundle: %w", err)
	}
	t.in.Delivered = append(t.in.Delivered, delivery.Delivered{From: from, Data: data, Opened: t.opened(data)})
	return nil
}

// take takes the bundle and lays out what came of it.
func (t *taker) take(ctx context.Context) (delivery.Outcome, error) {
	out := delivery.Take(ctx, t.in)
	if out.Removed {
		if err := os.RemoveAll(filepath.Dir(t.m.Root.At(bootinfo.Delivered))); err != nil {
			return out, fmt.Errorf("remove the copy of the boot medium's bundle: %w", err)
		}
	}
	if out.Ask == nil {
		if err := os.Remove(t.m.Root.At(paths.BundleOpened)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
	}
	if t.renews && out.Bundle == nil {
		return out, nil // What lies in memory alone is not looked at again: the next boot brings another one.
	}
	info := Info{Info: out.Info, Delivery: out.Info.Problem}
	if t.renews {
		info = t.renewed(info)
	}
	trust, err := t.trusts(out.Bundle)
	if err != nil {
		return out, err
	}
	var have map[string]string
	if out.Bundle != nil {
		t.m.RaiseClockTo(out.Bundle.Issued)
		entries, problem := t.reissue(ctx, out.Bundle, trust)
		have = maps.Clone(out.Bundle.Secrets)
		maps.Copy(have, entries)
		info.Problem, info.Made = node.Joined(info.Delivery, problem), out.Bundle.Issued
	}
	if info.Problem != "" && info.Problem != t.said {
		t.m.Say(info.Problem)
	}
	t.said = info.Problem
	if err := t.layOut(out.Bundle, have, trust); err != nil {
		return out, err
	}
	if t.renews {
		return out, atomicfile.WriteJSON(t.m.Root.At(paths.BundleInfo), info)
	}
	if err := t.mark(paths.BundleAsk, out.Ask != nil); err != nil {
		return out, err
	}
	if err := t.mark(paths.BundleEnroll, t.enrols(out)); err != nil {
		return out, err
	}
	return out, atomicfile.WriteJSON(t.m.Root.At(paths.BundleInfo), info)
}

// mark makes a file that a unit's condition looks for, or removes it.
func (t *taker) mark(name string, there bool) error {
	if there {
		_, err := atomicfile.Write(t.m.Root.At(name), nil, 0o600)
		return err
	}
	if err := os.Remove(t.m.Root.At(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// renewed is what there is to say of a bundle that is looked at again: what was said of its delivery at the boot stays,
// since only then the boot medium was there, unless it is another bundle.
func (t *taker) renewed(now Info) Info {
	var before Info
	if err := atomicfile.ReadJSON(t.m.Root.At(paths.BundleInfo), &before); err == nil && before.Serial == now.Serial {
		now.Delivery, now.From = before.Delivery, before.From
	}
	return now
}
