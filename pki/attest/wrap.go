package attest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-tpm/tpm2"
)

// wrapped is data that one TPM can open.
type wrapped struct {
	// Wrapped is the version, which tells it from other data.
	Wrapped int `json:"sporeWrapped"`
	// Credential and Secret are what TPM2_ActivateCredential takes; it gives the key of Data.
	Credential []byte `json:"credential"`
	Secret     []byte `json:"secret"`
	// Data is encrypted with AES-256-GCM. The key is used once, and so the nonce is zero.
	Data []byte `json:"data"`
}

const (
	wrapVersion = 1
	wrapBegin   = `{"sporeWrapped":`
	keySize     = 32
	// maxCredential bounds Credential and Secret each, in bytes.
	maxCredential = 1024
)

// Wrap encrypts data so that only the TPM that has this EK and, beside it, the AK that signed a quote can open it.
func Wrap(data []byte, k Keys) ([]byte, error) {
	if _, err := ekPublic(k.EK); err != nil {
		return nil, err
	}
	public, err := publicOf(k.EK, EKTemplate())
	if err != nil {
		return nil, err
	}
	ek, err := tpm2.ImportEncapsulationKey(public)
	if err != nil {
		return nil, fmt.Errorf("encrypt to the TPM: %w", err)
	}
	// The Name of an object is the hash of its public area (part 1, section 16).
	sum := sha256.Sum256(k.AK)
	name := slices.Concat([]byte{0, byte(tpm2.TPMAlgSHA256)}, sum[:])
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	w := wrapped{Wrapped: wrapVersion}
	if w.Credential, w.Secret, err = tpm2.CreateCredential(rand.Reader, ek, name, key); err != nil {
		return nil, fmt.Errorf("encrypt to the TPM: %w", err)
	}
	gcm, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	w.Data = gcm.Seal(nil, make([]byte, gcm.NonceSize()), data, nil)
	return json.Marshal(w)
}

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// IsWrapped tells whether data is what Wrap made.
func IsWrapped(data []byte) bool {
	return strings.HasPrefix(string(data[:min(len(data), len(wrapBegin))]), wrapBegin)
}

// Unwrap opens what Wrap made, by the TPM's TPM2_ActivateCredential.
func Unwrap(data []byte, activate func(credential, secret []byte) ([]byte, error)) ([]byte, error) {
	var w wrapped
	if err := json.Unmarshal(data, &w); err != nil || w.Wrapped != wrapVersion || len(w.Credential) > maxCredential || len(w.Secret) > maxCredential {
		return nil, errors.New("it is in an unknown form")
	}
	key, err := activate(w.Credential, w.Secret)
	if err != nil {
		return nil, fmt.Errorf("this machine's TPM does not open it: %w", err)
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("this machine's TPM gives a key of %d bytes", len(key))
	}
	gcm, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	out, err := gcm.Open(nil, make([]byte, gcm.NonceSize()), w.Data, nil)
	if err != nil {
		return nil, errors.New("it was changed on the way")
	}
	return out, nil
}
