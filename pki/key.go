package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
)

// newECDSA makes a P-256 key from the reader. (ecdsa.GenerateKey passes its reader over since Go 1.26.)
func newECDSA(random io.Reader) (*ecdsa.PrivateKey, error) {
	scalar := make([]byte, 32)
	for range 64 { // one in 2^32 is no scalar
		if _, err := io.ReadFull(random, scalar); err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("make a key: the random source gives no random bytes")
}

func newEd25519(random io.Reader) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func encodeKey(key crypto.Signer) (Hidden, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("internal error: encode a key: %w", err)
	}
	return Hidden(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

func encodePublic(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("internal error: encode a public key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}

func encodeCertificate(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// ParseKey reads a private key in PEM, for those who sign with it themselves. Its errors quote nothing.
func ParseKey(text Hidden) (crypto.Signer, error) { return parseKey(text) }

// parseKey reads a private key in any of the PEM forms that openssl writes without a passphrase. Its errors quote nothing.
func parseKey(text Hidden) (crypto.Signer, error) {
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("there is no private key in PEM")
		}
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the private key is encrypted; write it without its passphrase to a file in memory (`openssl pkey`) and name that")
		default: // such as EC PARAMETERS
			continue
		}
		if err != nil {
			return nil, errors.New("the private key cannot be read")
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, errors.New("the private key is of a kind that does not sign")
		}
		return signer, nil
	}
}

func parseCertificate(text string) (*x509.Certificate, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("there is no certificate in PEM")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("there is more than one certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parsePublic(text string) (crypto.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("there is no public key in PEM")
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

// samePublic tells whether two public keys are the same.
func samePublic(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// KeyID names a public key in PEM: the SHA-256 of its PKIX form, in hexadecimal.
func KeyID(public string) string {
	block, _ := pem.Decode([]byte(public))
	if block == nil {
		return ""
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}

// maxSigningKeys is one more than a rotation ever has.
const maxSigningKeys = 4

// ParseSigningKeys reads Ed25519 public keys, one PEM block each, as signing.pub of the cluster part has them.
func ParseSigningKeys(text string) ([]ed25519.PublicKey, error) {
	var out []ed25519.PublicKey
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		key, err := parsePublic(string(pem.EncodeToMemory(block)))
		if err != nil {
			return nil, fmt.Errorf("signing keys: %w", err)
		}
		ed, ok := key.(ed25519.PublicKey)
		if !ok || len(out) == maxSigningKeys {
			return nil, errors.New("signing keys: they are not at most four Ed25519 keys")
		}
		out = append(out, ed)
	}
	if len(out) == 0 {
		return nil, errors.New("there are no signing keys")
	}
	return out, nil
}
