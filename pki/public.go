package pki

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"spore/services"
	"spore/services/service"
)

// PublicDir is the directory of the cluster part that holds the public half of the tree.
const PublicDir = "pki"

// Public is what anybody may read of a tree. Where an authority is being rotated, all its generations are there.
type Public struct {
	Version int    `json:"version"`
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	// Revision is that of the tree.
	Revision uint64 `json:"revision,omitempty"`
	// Authorities is in the order of the table, those of roles of the configuration behind it by their names.
	Authorities []PublicAuthority `json:"authorities"`
}

// PublicAuthority is the public half of an authority; the one that signs is first.
type PublicAuthority struct {
	Name string       `json:"name"`
	Kind service.Kind `json:"kind"`
	// Certificates is PEM; empty for key pairs.
	Certificates []string `json:"certificates,omitempty"`
	// Keys is PKIX PEM.
	Keys []string `json:"keys"`
}

// Public returns the public half of the tree.
func (t *Tree) Public() Public {
	p := Public{Version: TreeVersion, Cluster: t.Cluster, Name: t.Name, Revision: t.Revision}
	for _, row := range t.rows(services.Ours()) {
		a := t.Authorities[row.Name]
		if a == nil {
			continue
		}
		pa := PublicAuthority{Name: row.Name, Kind: row.Kind}
		for _, g := range a.generations() {
			pa.Keys = append(pa.Keys, g.PublicKey)
			for _, c := range []string{g.Certificate, g.Former} {
				if c != "" {
					pa.Certificates = append(pa.Certificates, c)
				}
			}
		}
		p.Authorities = append(p.Authorities, pa)
	}
	return p
}

// rows are those of the table that a list of services gives, and behind them what the tree has besides, by name:
// authorities of roles that a configuration has, or had, of its own.
func (t *Tree) rows(l *services.List) []service.AuthorityRow {
	out := Authorities(l)
	known := map[string]bool{}
	for _, row := range out {
		known[row.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(t.Authorities)) {
		if !known[name] {
			out = append(out, service.AuthorityRow{Name: name, Kind: service.CA, Service: unlisted})
		}
	}
	return out
}

// unlisted is the service of an authority that no row of a list has; no service has this name.
const unlisted = "-"

// generations lists what is trusted, the one that signs first.
func (a *Authority) generations() []*Generation {
	out := []*Generation{&a.Current}
	for _, g := range []*Generation{a.Next, a.Previous} {
		if g != nil {
			out = append(out, g)
		}
	}
	return out
}

// RevisionFile is the file of PublicDir that holds the revision in decimal, with a newline. Other files there are of
// authorities.
const RevisionFile = "revision"

// Files returns the files for the cluster part by their path in it: those of Trust, and the revision.
func (p Public) Files() map[string][]byte {
	out := map[string][]byte{}
	for name, text := range p.Trust() {
		out[PublicDir+"/"+name] = []byte(text)
	}
	out[PublicDir+"/"+RevisionFile] = []byte(strconv.FormatUint(p.Revision, 10) + "\n")
	return out
}

// Trust returns whom nodes trust, as files: NAME.crt with the certificates of a CA, NAME.pub with the public keys of a
// key pair, all PEM, the one that signs first.
func (p Public) Trust() map[string]string {
	out := map[string]string{}
	for _, a := range p.Authorities {
		name, list := a.Name+".crt", a.Certificates
		if a.Kind != service.CA {
			name, list = a.Name+".pub", a.Keys
		}
		out[name] = strings.Join(list, "")
	}
	return out
}

// SigningKeys returns the keys that may sign the cluster's bundles.
func (p Public) SigningKeys() ([]ed25519.PublicKey, error) {
	for _, a := range p.Authorities {
		if a.Name == SigningName {
			return ParseSigningKeys(strings.Join(a.Keys, ""))
		}
	}
	return nil, fmt.Errorf("the file of public keys has no signing key; make it again with `spore pki renew`")
}
