// Package signedline is the line that what a cluster's key signs begins with: bundles of secrets and updates.
//
//	MAGIC VERSION KEYID SIGNATURE
//
// KEYID is 16 hexadecimal digits of the SHA-256 of the public key, SIGNATURE is an Ed25519 signature (RFC 8032) in base64.
// It covers MAGIC, a blank, VERSION, a NUL byte and the body as it stands: the words in front keep a body of one kind from
// being taken for that of another.
package signedline

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Max is the longest line in bytes, without its end.
const Max = 256

// ErrVersion is a line of a version that this program does not know. All other errors are of a malformed line.
var ErrVersion = errors.New("is unknown")

// Format is a kind of what is signed.
type Format struct {
	// Magic and Version are the first two words.
	Magic, Version string
}

// Line is a line whose signature nobody has verified yet.
type Line struct {
	format    Format
	keyID     string
	signature []byte
}

// Sign returns the line of a body, with its end.
func (f Format) Sign(body []byte, key ed25519.PrivateKey) string {
	signature := base64.StdEncoding.EncodeToString(ed25519.Sign(key, f.covered(body)))
	return fmt.Sprintf("%s %s %s %s\n", f.Magic, f.Version, keyID(key.Public().(ed25519.PublicKey)), signature)
}

// Parse reads a line without its end.
func (f Format) Parse(line string) (Line, error) {
	words := strings.Split(line, " ")
	switch {
	case len(line) > Max || len(words) < 2 || words[0] != f.Magic:
		return Line{}, fmt.Errorf("it does not begin with a line `%s %s …`", f.Magic, f.Version)
	case words[1] != f.Version:
		return Line{}, fmt.Errorf("format %.16q %w, this program has %s", words[1], ErrVersion, f.Version)
	case len(words) != 4:
		return Line{}, fmt.Errorf("its first line has %d words, not 4", len(words))
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(words[3])
	// The decoder passes over the ends of lines, even a strict one.
	if err != nil || len(signature) != ed25519.SignatureSize || strings.ContainsAny(words[3], "\r\n") {
		return Line{}, errors.New("its signature is malformed")
	}
	return Line{f, words[2], signature}, nil
}

// Verify tells whether one of the keys signed the body.
func (l Line) Verify(body []byte, keys []ed25519.PublicKey) bool {
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && keyID(key) == l.keyID && ed25519.Verify(key, l.format.covered(body), l.signature) {
			return true
		}
	}
	return false
}

// covered is what a signature is over.
func (f Format) covered(body []byte) []byte {
	return append([]byte(f.Magic+" "+f.Version+"\x00"), body...)
}

// keyID names a public key.
func keyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}
