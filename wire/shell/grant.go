// Package shell is what is said of an emergency shell on a node (`spore shell`): the grant that the operator's
// offline key signs, the frames of an open session, and what is kept of a session.
//
// A grant is a signed line (package signedline), and behind it canonical JSON in one line:
//
//	spore-shell 1 KEYID SIGNATURE
//	{"cluster":…,"node":…,"id":…,"issued":…,"until":…,"minutes":…,"certificate":…,"reason":…}
//
// It holds no secret: without the certificate that it names nobody can use it. Whether it was used already is for the
// node to know.
package shell

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"spore/wire/signedline"
)

// Bounds of a grant.
const (
	// MaxGrant is that of a whole grant, MaxReason that of the reason, in bytes.
	MaxGrant  = 2 << 10
	MaxReason = 200
	// MaxMinutes is how long a session may last, and MaxUse how long after its issue a grant may be used.
	MaxMinutes = 60
	MaxUse     = 24 * time.Hour

	maxName = 253
)

// idSize is that of the random number that names a grant, in bytes.
const idSize = 16

var format = signedline.Format{Magic: "spore-shell", Version: "1"}

// ErrSignature is a grant that no key of the image signed, or that was changed afterwards.
var ErrSignature = errors.New("the grant is not signed by a key of this image, or was changed")

// Grant lets one person open one shell on one node.
type Grant struct {
	// Cluster is the cluster's id in lower case, Node the name of the node.
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// ID is a random number, 32 hexadecimal digits in lower case. A node takes it once, and the session has this name.
	ID string `json:"id"`
	// Issued is when it was signed, Until the end of the time in which it may be used: both in whole seconds of UTC.
	Issued time.Time `json:"issued"`
	Until  time.Time `json:"until"`
	// Minutes is how long the session may last.
	Minutes int `json:"minutes"`
	// Certificate is the SHA-256 of the client certificate (DER) that may use it, in lower-case hexadecimal.
	Certificate string `json:"certificate"`
	// Reason says for people why it is needed.
	Reason string `json:"reason"`
}

// NewID makes the id of a grant from a random source.
func NewID(random io.Reader) (string, error) {
	id := make([]byte, idSize)
	if _, err := io.ReadFull(random, id); err != nil {
		return "", fmt.Errorf("make the id of a grant: %w", err)
	}
	return hex.EncodeToString(id), nil
}

// Sign returns a grant as it is handed over.
func Sign(g Grant, key ed25519.PrivateKey) ([]byte, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("internal error: encode a grant: %w", err)
	}
	out := append([]byte(format.Sign(body, key)), append(body, '\n')...)
	if len(out) > MaxGrant {
		return nil, fmt.Errorf("the grant has %d bytes, more than %d", len(out), MaxGrant)
	}
	return out, nil
}

// Open reads a grant that one of the keys signed.
func Open(data []byte, keys []ed25519.PublicKey) (Grant, error) {
	line, body, err := split(data)
	if err != nil {
		return Grant{}, err
	}
	if !line.Verify(body, keys) {
		return Grant{}, ErrSignature
	}
	return parse(body)
}

// Peek reads a grant whose signature nobody verifies: for whoever hands it on, and for a person to look at.
func Peek(data []byte) (Grant, error) {
	_, body, err := split(data)
	if err != nil {
		return Grant{}, err
	}
	return parse(body)
}

func split(data []byte) (signedline.Line, []byte, error) {
	if len(data) > MaxGrant {
		return signedline.Line{}, nil, fmt.Errorf("a grant has at most %d bytes", MaxGrant)
	}
	first, rest, found := bytes.Cut(data, []byte("\n"))
	if !found {
		return signedline.Line{}, nil, errors.New("the grant is malformed: it has no second line")
	}
	line, err := format.Parse(string(first))
	if err != nil {
		return signedline.Line{}, nil, fmt.Errorf("the grant is malformed: %w", err)
	}
	body, found := bytes.CutSuffix(rest, []byte("\n"))
	if !found || bytes.IndexByte(body, '\n') >= 0 {
		return signedline.Line{}, nil, errors.New("the grant is malformed: it does not have two lines")
	}
	return line, body, nil
}

// parse takes canonical JSON alone: there is one way to write a grant.
func parse(body []byte) (Grant, error) {
	var g Grant
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&g); err != nil {
		return Grant{}, fmt.Errorf("the grant is malformed: %w", err)
	}
	again, err := json.Marshal(g)
	if err != nil || !bytes.Equal(again, body) {
		return Grant{}, errors.New("the grant is malformed: it is not in its one form")
	}
	if err := g.check(); err != nil {
		return Grant{}, fmt.Errorf("the grant is malformed: %w", err)
	}
	return g, nil
}

func (g Grant) check() error {
	switch {
	case g.Cluster == "" || len(g.Cluster) > 64 || g.Cluster != strings.ToLower(g.Cluster) || !harmless(g.Cluster):
		return errors.New("the cluster's id is not one in lower case")
	case g.Node == "" || len(g.Node) > maxName || !harmless(g.Node):
		return errors.New("the name of the node is missing or malformed")
	case !IsID(g.ID):
		return errors.New("its id is not 32 hexadecimal digits in lower case")
	case !isHex(g.Certificate, 32):
		return errors.New("its certificate is not a SHA-256 in lower-case hexadecimal")
	case !whole(g.Issued) || !whole(g.Until):
		return errors.New("its times are not whole seconds of UTC")
	case !g.Until.After(g.Issued) || g.Until.Sub(g.Issued) > MaxUse:
		return fmt.Errorf("it is to be used within %s of its issue", MaxUse)
	case g.Minutes < 1 || g.Minutes > MaxMinutes:
		return fmt.Errorf("a session lasts 1 to %d minutes, not %d", MaxMinutes, g.Minutes)
	case g.Reason == "" || strings.TrimSpace(g.Reason) != g.Reason || len(g.Reason) > MaxReason || !harmless(g.Reason):
		return fmt.Errorf("the reason is text of 1 to %d bytes without control characters", MaxReason)
	}
	return nil
}

// ErrRefused is a grant that holds, and not here, now or for this caller.
var ErrRefused = errors.New("the grant is refused")

// Here is where, when and by whom a grant is used.
type Here struct {
	Cluster, Node string
	// Now is the node's time.
	Now time.Time
	// Certificate is that of whoever shows the grant: the SHA-256 of the certificate.
	Certificate string
}

// For says why a grant that was opened does not hold here. A clock that is behind does not refuse it: a node whose
// clock is wrong is one that may need a shell. The grant is used once in any case.
func (g Grant) For(h Here) error {
	switch {
	case !strings.EqualFold(g.Cluster, h.Cluster):
		return fmt.Errorf("%w: it is for another cluster", ErrRefused)
	case g.Node != h.Node:
		return fmt.Errorf("%w: it is for %s, and this is %s", ErrRefused, g.Node, h.Node)
	case g.Certificate != h.Certificate:
		return fmt.Errorf("%w: it is for another certificate; use that one (--access), or sign one for the certificate that "+
			"you use", ErrRefused)
	case h.Now.After(g.Until):
		return fmt.Errorf("%w: it could be used until %s, and it is %s here", ErrRefused, g.Until.Format(time.RFC3339),
			h.Now.UTC().Format(time.RFC3339))
	}
	return nil
}

// IsID tells whether a text is the id of a grant, which is that of its session.
func IsID(text string) bool { return isHex(text, idSize) }

func isHex(text string, size int) bool {
	data, err := hex.DecodeString(text)
	return err == nil && len(data) == size && strings.ToLower(text) == text
}

func whole(t time.Time) bool {
	return !t.IsZero() && t.Nanosecond() == 0 && t.Location() == time.UTC
}

// harmless tells whether a text has nothing that a terminal or a log would take for something else.
func harmless(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
