// Package pki is the cluster's tree of keys, certificates and other secrets as one table, and what each node is given
// of it.
//
// The tables (Authorities, Leaves, Secrets) say what there is, for whom, and where a key is made. Tree holds what was
// made; Update makes what is missing, due or no longer as the configuration wants it; BundleFor takes one node's share
// out of it, and Public what anybody may read. Certificates follow RFC 5280 with ECDSA P-256 keys.
//
// What the package leaves out: revocation (lives are short, rotation replaces an authority, and the nodes' API refuses
// what cluster.yaml withdraws), certificates for keys that are made on nodes (their rows are in the table, the services
// that sign them are on the nodes), and files: package vault keeps a Tree, package bundle is the wire format.
package pki

import (
	"crypto/x509"
	"fmt"
	"io"
	"time"
)

// Lives of certificates.
const (
	day = 24 * time.Hour
	// AuthorityLife is how long a CA certificate is valid: ten years.
	AuthorityLife = 3653 * day
	// AuthorityReserve is how long before its end a CA certificate is renewed.
	AuthorityReserve = 30 * day
	// LeafLife is how long other certificates are valid; they are renewed at two thirds of it.
	LeafLife = 365 * day
	// backdate makes a certificate good on a machine whose clock is behind.
	backdate = time.Hour
)

// Hidden is text that must not be seen: it formats as a placeholder, whatever the verb. It marshals as it is.
type Hidden string

// Format implements fmt.Formatter.
func (Hidden) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "(hidden)") }

// Options is what making keys needs from outside.
type Options struct {
	// Now is the time that certificates begin at.
	Now time.Time
	// Random gives keys, serial numbers and passwords.
	Random io.Reader
	// Root is the user's own root; nil makes one. It is needed to make the tree and whenever an authority is signed.
	Root *OwnRoot
	// Given holds values for secrets whose row allows it, by bundle entry.
	Given map[string]Hidden
	// All makes every certificate again, due or not; CA certificates keep their keys.
	All bool
}

// OwnRoot is a root that the user brings.
type OwnRoot struct {
	// Certificate is its certificate as PEM.
	Certificate string
	// Key is its key as PEM; empty when it is not at hand.
	Key Hidden
}

// Tree is all that was made for a cluster. Its JSON form is what package vault keeps; it is secret as a whole.
type Tree struct {
	// Version is the version of the form: TreeVersion.
	Version int `json:"version"`
	// Cluster is the cluster's id in lower case, Name its name.
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	// Serial is that of the last bundle.
	Serial uint64 `json:"serial"`
	// Revision counts the changes of the public half: a node that has it from two places takes the one that counts higher.
	Revision uint64 `json:"revision,omitempty"`
	// Authorities by row name, Leaves and Secrets by ID.
	Authorities map[string]*Authority   `json:"authorities"`
	Leaves      map[string]*Certificate `json:"leaves"`
	Secrets     map[string]*Secret      `json:"secrets"`
	// Issued holds the record of each node's last bundle.
	Issued map[string]Record `json:"issued"`
}

// TreeVersion is the version of Tree's form.
const TreeVersion = 1

// Authority is one authority and, while it is rotated, its successor or predecessor. All that are there are trusted.
type Authority struct {
	// Current is the one that signs.
	Current Generation `json:"current"`
	// Next is trusted already and does not sign yet.
	Next *Generation `json:"next,omitempty"`
	// Previous is trusted still and does not sign any more.
	Previous *Generation `json:"previous,omitempty"`
}

// Generation is one key of an authority.
type Generation struct {
	// Number counts from 1.
	Number int `json:"number"`
	// Certificate is PEM; empty for key pairs.
	Certificate string `json:"certificate,omitempty"`
	// Former is the certificate of the same key by the root's previous generation, until that is gone.
	Former string `json:"former,omitempty"`
	// PublicKey is the key's public half, as PKIX PEM.
	PublicKey string `json:"publicKey"`
	// Key is PKCS #8 PEM; empty when the root is the user's own.
	Key Hidden `json:"key,omitempty"`
}

// Certificate is an end-entity certificate and its key.
type Certificate struct {
	// Certificate is PEM, without the chain.
	Certificate string `json:"certificate"`
	// Key is PKCS #8 PEM.
	Key Hidden `json:"key"`
}

// Secret is a secret that is no certificate.
type Secret struct {
	Value Hidden    `json:"value"`
	Made  time.Time `json:"made"`
	// Given tells that the user brought it.
	Given bool `json:"given,omitempty"`
}

// Record says what a node's last bundle was.
type Record struct {
	Serial uint64    `json:"serial"`
	Issued time.Time `json:"issued"`
	// Authorities holds the key ids that the node's work depends on by authority; see KeyID.
	Authorities map[string]string `json:"authorities"`
	// Revision is that of the public half in it.
	Revision uint64 `json:"revision,omitempty"`
}

// leafDue is when an end-entity certificate is to be renewed: at two thirds of its life.
func leafDue(c *x509.Certificate) time.Time {
	begin := c.NotBefore.Add(backdate)
	return begin.Add(c.NotAfter.Sub(begin) * 2 / 3)
}

// authorityDue is when a CA certificate is to be renewed.
func authorityDue(c *x509.Certificate) time.Time { return c.NotAfter.Add(-AuthorityReserve) }

// Whole tells whether a tree that was read has all its parts, so that nobody has to ask again.
func (t *Tree) Whole() bool {
	if t.Cluster == "" || t.Authorities == nil || t.Leaves == nil || t.Secrets == nil || t.Issued == nil {
		return false
	}
	for _, a := range t.Authorities {
		if a == nil {
			return false
		}
	}
	for _, c := range t.Leaves {
		if c == nil {
			return false
		}
	}
	for _, s := range t.Secrets {
		if s == nil {
			return false
		}
	}
	return true
}
