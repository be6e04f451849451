package bundle

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"spore/agent/clusterpart"
	"spore/agent/paths"
	"spore/pki"
	"spore/pki/bundle"
	"spore/pki/reissue"
)

// trusts is whom the node trusts with a bundle: as its image says, or the bundle where that is newer.
func (t *taker) trusts(b *bundle.Bundle) (clusterpart.Authorities, error) {
	if b == nil || len(b.Trust) == 0 || b.Revision <= t.trust.Revision {
		return t.trust, nil
	}
	return clusterpart.NewAuthorities(b.Trust, b.Revision)
}

// reissue makes certificates again whose time is over, where the node holds the key of their authority, and keeps them. What
// it returns goes over the bundle's entries.
func (t *taker) reissue(ctx context.Context, b *bundle.Bundle, trust clusterpart.Authorities) (entries map[string]string, problem string) {
	path := t.m.Root.At(paths.Leaves)
	var kept map[string]string
	if t.vault != nil {
		data, _, err := t.vault.Open(ctx, path, leavesName)
		if err == nil {
			err = json.Unmarshal(data, &kept)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.m.Say(fmt.Sprintf("certificates that were made again are lost: %v", err)) // What is due is made again.
			kept = map[string]string{}
		}
	}
	r, err := reissue.Leaves(reissue.Input{
		Cluster: t.cluster, Node: t.node, Bundle: b.Secrets, Kept: kept, Authorities: trust.Certificates, Now: t.m.Now(), Random: rand.Reader,
	})
	if err != nil {
		return nil, fmt.Sprintf("the certificates were not looked at: %v", err)
	}
	for _, c := range r.Made {
		t.m.Say(fmt.Sprintf("certificate %s: %s: %s", c.ID, c.Did, c.Why))
	}
	if t.asks != nil {
		agent := pki.Certificate{Certificate: cmp.Or(r.Entries["agent-certificate"], b.Secrets["agent-certificate"]), Key: pki.Hidden(cmp.Or(r.Entries["agent-key"], b.Secrets["agent-key"]))}
		r.Ask(kept, func(leaves []pki.Leaf) (map[string]pki.Certificate, map[string]error, error) {
			return t.asks(ctx, agent, trust.Certificates, leaves)
		})
		for _, c := range r.Asked {
			t.m.Say(fmt.Sprintf("certificate %s: %s by a master: %s", c.ID, c.Did, c.Why))
		}
	}
	var problems []string
	for _, p := range r.Problems {
		if p.Works {
			t.m.Say(p.Err.Error())
		} else {
			problems = append(problems, p.Err.Error())
		}
	}
	if r.Changed && t.vault != nil {
		if err := t.keepLeaves(ctx, path, r.Entries); err != nil {
			problems = append(problems, fmt.Sprintf("certificates that were made again are not kept: %v", err))
		}
	}
	return r.Entries, strings.Join(problems, "; ")
}

func (t *taker) keepLeaves(ctx context.Context, path string, entries map[string]string) error {
	if len(entries) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(entries)
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	_, err = t.vault.Seal(ctx, path, leavesName, data)
	return err
}
