// Package bundle is the wire format of a node's secrets: a signed line (package signedline), and canonical JSON behind
// it.
//
//	spore-bundle 1 KEYID SIGNATURE
//	{"cluster":…,"node":…,"issued":…,"serial":…,"authorities":{…},"secrets":{…},"revision":…,"trust":{…}}
//
// A reader takes no other spelling of the JSON than the canonical one (keys in this order, maps sorted, no blanks), so
// that one content has one form.
//
// The package has no secrecy of its own: package seal encrypts a bundle for transport. It uses the standard library
// only, for the agent's sake.
package bundle

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"spore/wire/signedline"
)

// Bounds. A systemd credential has at most 1 MiB (CREDENTIAL_SIZE_MAX).
const (
	MaxSize        = 1 << 20
	maxSecrets     = 1024
	maxAuthorities = 64
)

var format = signedline.Format{Magic: "spore-bundle", Version: "1"}

// Errors that callers tell apart.
var (
	// ErrVersion is a bundle of a format that this program does not know.
	ErrVersion = errors.New("the secret bundle has a format that this version does not know")
	// ErrSignature is a bundle that the cluster's key did not sign, or that was changed or cut afterwards.
	ErrSignature = errors.New("the secret bundle is not signed by this cluster, or was changed or cut short")
	// ErrForm is a bundle that is none.
	ErrForm = errors.New("the secret bundle is malformed")
	// ErrOther is a bundle of another cluster or node.
	ErrOther = errors.New("the secret bundle is for another machine")
)

// Bundle is what one node is given.
type Bundle struct {
	// Cluster is the cluster's id in lower case, Node the node's name.
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Issued is when it was made, in whole seconds of UTC.
	Issued time.Time `json:"issued"`
	// Serial counts the bundles of the cluster from 1; a node's newer bundle has the higher one.
	Serial uint64 `json:"serial"`
	// Authorities holds, by name, the ids of the authorities' keys that sign when the bundle is made (pki.KeyID). A node
	// whose cluster part lacks one of them would trust nobody who has a newer certificate.
	Authorities map[string]string `json:"authorities"`
	// Secrets holds texts by name.
	Secrets map[string]string `json:"secrets"`
	// Trust holds whom the node trusts, by file name: certificates of authorities (NAME.crt) and public keys (NAME.pub),
	// as PEM. Revision counts the states of it, so that a node tells whether its image has a newer one. A bundle without
	// either leaves it to the image.
	Revision uint64            `json:"revision,omitempty"`
	Trust    map[string]string `json:"trust,omitempty"`
}

// String says whose bundle it is and never what is in it.
func (b Bundle) String() string {
	return fmt.Sprintf("bundle %d of node %s with %d secrets", b.Serial, b.Node, len(b.Secrets))
}

// Format implements fmt.Formatter, so that no verb shows the secrets.
func (b Bundle) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, b.String()) }

// Sign returns the bundle in its wire format.
func Sign(b Bundle, key ed25519.PrivateKey) ([]byte, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	body, err := canonical(b)
	if err != nil {
		return nil, err
	}
	header := format.Sign(body, key)
	if len(header)+len(body) > MaxSize {
		return nil, fmt.Errorf("the secret bundle has %d bytes, more than %d", len(header)+len(body), MaxSize)
	}
	return append([]byte(header), body...), nil
}

// canonical is the one JSON form of a bundle.
func canonical(b Bundle) ([]byte, error) {
	b.Issued = b.Issued.UTC().Truncate(time.Second)
	body, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("internal error: encode a bundle: %w", err)
	}
	return append(body, '\n'), nil
}

// Whose says for whom a bundle must be.
type Whose struct {
	// Cluster is the cluster's id.
	Cluster string
	// Node is the node's name.
	Node string
	// Keys holds the cluster's signing keys; one of them must have signed.
	Keys []ed25519.PublicKey
}

// Open reads a bundle and verifies that the cluster signed it for this node. Nothing of the content is in its errors
// but the names of cluster and node, and those only when the signature is good.
func Open(r io.Reader, whose Whose) (Bundle, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return Bundle{}, fmt.Errorf("read the secret bundle: %w", err)
	}
	if len(data) > MaxSize {
		return Bundle{}, fmt.Errorf("%w: it has more than %d bytes", ErrForm, MaxSize)
	}
	body, err := verify(data, whose.Keys)
	if err != nil {
		return Bundle{}, err
	}
	b, err := parse(body)
	if err != nil {
		return Bundle{}, err
	}
	if !strings.EqualFold(b.Cluster, whose.Cluster) {
		return Bundle{}, fmt.Errorf("%w: it is for the cluster with the id %.64q, and this is %q", ErrOther, b.Cluster, whose.Cluster)
	}
	if b.Node != whose.Node {
		return Bundle{}, fmt.Errorf("%w: it is for node %.64q, and this is %q", ErrOther, b.Node, whose.Node)
	}
	return b, nil
}

// Claim is what a bundle says of itself.
type Claim struct {
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Issued  time.Time `json:"issued"`
	Serial  uint64    `json:"serial"`
}

// Claimed reads it for whoever only carries the bundle: nothing is verified, which the node does.
func Claimed(data []byte) (Claim, error) {
	if len(data) > MaxSize {
		return Claim{}, fmt.Errorf("%w: it has more than %d bytes", ErrForm, MaxSize)
	}
	first, body, _ := bytes.Cut(data, []byte("\n"))
	if _, err := parseLine(first); err != nil {
		return Claim{}, err
	}
	b, err := parse(body)
	return Claim{Cluster: b.Cluster, Node: b.Node, Issued: b.Issued, Serial: b.Serial}, err
}

// verify checks header and signature and returns the body.
func verify(data []byte, keys []ed25519.PublicKey) ([]byte, error) {
	first, body, _ := bytes.Cut(data, []byte("\n"))
	line, err := parseLine(first)
	if err != nil {
		return nil, err
	}
	if !line.Verify(body, keys) {
		return nil, ErrSignature
	}
	return body, nil
}

func parseLine(first []byte) (signedline.Line, error) {
	line, err := format.Parse(string(first))
	switch {
	case errors.Is(err, signedline.ErrVersion):
		return line, fmt.Errorf("%w: %w; build a newer image, or make the bundle with the program that built this one", ErrVersion, err)
	case err != nil:
		return line, fmt.Errorf("%w: %w", ErrForm, err)
	}
	return line, nil
}

// parse reads the body of a bundle; its errors quote nothing of it.
func parse(body []byte) (Bundle, error) {
	var b Bundle
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return Bundle{}, fmt.Errorf("%w: its JSON is not as it must be", ErrForm)
	}
	if err := b.check(); err != nil {
		return Bundle{}, err
	}
	if again, err := canonical(b); err != nil || !bytes.Equal(again, body) {
		return Bundle{}, fmt.Errorf("%w: its JSON is not canonical", ErrForm)
	}
	return b, nil
}

// check holds a bundle to its bounds.
func (b *Bundle) check() error {
	switch {
	case b.Cluster == "" || b.Node == "" || b.Serial == 0:
		return fmt.Errorf("%w: it names no cluster, node or serial", ErrForm)
	case len(b.Secrets) > maxSecrets:
		return fmt.Errorf("%w: it has %d secrets, more than %d", ErrForm, len(b.Secrets), maxSecrets)
	case len(b.Trust) > maxAuthorities:
		return fmt.Errorf("%w: it trusts %d authorities, more than %d", ErrForm, len(b.Trust), maxAuthorities)
	case len(b.Authorities) > maxAuthorities:
		return fmt.Errorf("%w: it has %d authorities, more than %d", ErrForm, len(b.Authorities), maxAuthorities)
	}
	for name := range b.Authorities {
		if !ValidName(name) {
			return fmt.Errorf("%w: it has an authority named %.64q", ErrForm, name)
		}
	}
	for file, text := range b.Trust {
		name, extension, _ := strings.Cut(file, ".")
		if !ValidName(name) || extension != "crt" && extension != "pub" || !utf8.ValidString(text) {
			return fmt.Errorf("%w: it trusts a file with the name %.64q", ErrForm, file)
		}
	}
	for name, value := range b.Secrets {
		if !ValidName(name) {
			return fmt.Errorf("%w: it has a secret named %.64q; names are 1 to 63 lower-case letters, digits and -", ErrForm, name)
		}
		if !utf8.ValidString(value) {
			return fmt.Errorf("%w: the secret %s is not text", ErrForm, name)
		}
	}
	return nil
}

// ValidName tells whether a name can name a secret: [a-z0-9][a-z0-9-]{0,62}. It becomes a file name.
func ValidName(name string) bool {
	if len(name) == 0 || len(name) > 63 || name[0] == '-' {
		return false
	}
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}
