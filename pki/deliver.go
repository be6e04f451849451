package pki

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"spore/cluster/facts"
	"spore/pki/bundle"
	"spore/services/service"
)

// BundleFor signs the bundle of a node: what its rows of the tables give it, and no more. The tree is to be up to date, and
// to be kept afterwards: it now holds the record of the bundle.
func (t *Tree) BundleFor(c *facts.Cluster, n *facts.Node, now time.Time) ([]byte, error) {
	if err := t.isFor(c); err != nil {
		return nil, err
	}
	share, err := ShareOf(c, n)
	if err != nil {
		return nil, err
	}
	b := bundle.Bundle{
		Cluster: t.Cluster, Node: n.Name, Issued: now.UTC().Truncate(time.Second), Serial: t.Serial + 1,
		Authorities: map[string]string{}, Secrets: map[string]string{}, Revision: t.Revision, Trust: t.Public().Trust(),
	}
	if err := t.fillBundle(&b, share); err != nil {
		return nil, fmt.Errorf("bundle of %s: %w", n.Name, err)
	}
	key, err := t.signingKey()
	if err != nil {
		return nil, err
	}
	data, err := bundle.Sign(b, key)
	if err != nil {
		return nil, fmt.Errorf("bundle of %s: %w", n.Name, err)
	}
	t.Serial = b.Serial
	t.Issued[n.Name] = Record{Serial: b.Serial, Issued: b.Issued, Authorities: b.Authorities, Revision: b.Revision}
	return data, nil
}

func (t *Tree) fillBundle(b *bundle.Bundle, share Share) error {
	missing := func(what string) error {
		return fmt.Errorf("%s is not in the operator's folder; make it with `spore pki renew`", what)
	}
	for _, row := range share.Authorities {
		a := t.Authorities[row.Name]
		if a == nil {
			return missing("the authority " + row.Name)
		}
		b.Authorities[row.Name] = KeyID(a.Current.PublicKey)
	}
	for _, row := range share.Issues {
		b.Secrets[row.Key] = string(t.Authorities[row.Name].Current.Key)
	}
	for _, l := range share.Leaves {
		if l.Row.Made != service.Operator {
			continue
		}
		have := t.Leaves[l.ID]
		if have == nil {
			return missing("the certificate " + l.ID)
		}
		b.Secrets[l.Certificate] = t.Chain(l.Row.Authority, have)
		b.Secrets[l.Key] = string(have.Key)
	}
	for _, e := range share.Secrets {
		have := t.Secrets[e.ID]
		if have == nil {
			return missing("the secret " + e.ID)
		}
		b.Secrets[e.Name] = string(have.Value)
	}
	return nil
}

// Chain is a certificate and its authority's behind it, without the root, as TLS sends them (RFC 8446, section 4.4.2).
func (t *Tree) Chain(authority string, c *Certificate) string {
	return c.Certificate + t.Authorities[authority].Current.Certificate
}

func (t *Tree) signingKey() (ed25519.PrivateKey, error) {
	a := t.Authorities[SigningName]
	if a == nil {
		return nil, fmt.Errorf("the signing key is not in the operator's folder; make it with `spore pki renew`")
	}
	key, err := parseKey(a.Current.Key)
	if err != nil {
		return nil, fmt.Errorf("the signing key: %w", err)
	}
	signing, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the signing key is not an Ed25519 key")
	}
	return signing, nil
}
