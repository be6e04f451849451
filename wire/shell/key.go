package shell

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxKeys is how many keys an image trusts at most: one more than while one replaces another.
const MaxKeys = 3

// KeysPath is where an image has the keys whose grants it takes, one a line (EncodeKey). An image without the file has
// no shell.
const KeysPath = "/usr/lib/spore/shell-keys"

// NewKey makes a key that signs grants from a random source.
func NewKey(random io.Reader) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// EncodePrivate is a key as PEM of PKCS #8.
func EncodePrivate(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("internal error: encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ParsePrivate reads what EncodePrivate wrote. Its errors quote nothing.
func ParsePrivate(data []byte) (ed25519.PrivateKey, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("it has no private key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("its private key cannot be read")
	}
	out, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("its key is not an Ed25519 key; make one with `spore shell make-key`")
	}
	return out, nil
}

// EncodeKey is the public half of a key as image.yaml has it: base64 of its 32 bytes (RFC 8032).
func EncodeKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// ParseKey reads what EncodeKey wrote.
func ParseKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize || EncodeKey(key) != text {
		return nil, fmt.Errorf("%.64q is not a key that signs grants; `spore shell make-key` prints one", text)
	}
	return key, nil
}

// ParseKeys reads the file of an image.
func ParseKeys(data []byte) ([]ed25519.PublicKey, error) {
	var out []ed25519.PublicKey
	for line := range strings.Lines(string(data)) {
		key, err := ParseKey(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		if out = append(out, key); len(out) > MaxKeys {
			return nil, fmt.Errorf("there are more than %d keys", MaxKeys)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("there is no key")
	}
	return out, nil
}
