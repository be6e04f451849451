// Package seal encrypts and decrypts with age (age-encryption.org/v1): for a passphrase, or for recipients.
package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// Magic is how an encrypted file begins.
const Magic = "age-encryption.org/v1"

// Bounds.
const (
	// WorkFactor is the usual logarithm of scrypt's cost: 256 MiB and about a second.
	WorkFactor = 18
	// maxWorkFactor is the dearest that is opened: 1 GiB.
	maxWorkFactor = 20
	// MinPassphrase is the fewest characters of a passphrase that is taken for something new.
	MinPassphrase = 12
	maxRecipients = 64
)

// ErrPassphrase is a wrong passphrase, or an identity that is no recipient.
var ErrPassphrase = errors.New("the passphrase or identity does not open it")

// IsSealed tells whether data is encrypted, armored or not.
func IsSealed(data []byte) bool {
	return bytes.HasPrefix(data, []byte(Magic)) || bytes.HasPrefix(data, []byte(armor.Header))
}

// CheckPassphrase refuses a passphrase that is too short to withstand guessing.
func CheckPassphrase(p string) error {
	if n := len([]rune(p)); n < MinPassphrase {
		return fmt.Errorf("the passphrase has %d characters; take at least %d, such as five words drawn by dice", n, MinPassphrase)
	}
	return nil
}

// WithPassphrase encrypts data. workFactor 0 means WorkFactor.
func WithPassphrase(data []byte, passphrase string, workFactor int) ([]byte, error) {
	r, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if workFactor == 0 {
		workFactor = WorkFactor
	}
	r.SetWorkFactor(workFactor)
	return encrypt(data, r)
}

// ForRecipients encrypts data for the holders of keys, each an age recipient (age1…).
func ForRecipients(data []byte, recipients []string) ([]byte, error) {
	list, err := ParseRecipients(recipients)
	if err != nil {
		return nil, err
	}
	return encrypt(data, list...)
}

// ParseRecipients reads age recipients.
func ParseRecipients(recipients []string) ([]age.Recipient, error) {
	if len(recipients) == 0 || len(recipients) > maxRecipients {
		return nil, fmt.Errorf("there are %d recipients; name 1 to %d", len(recipients), maxRecipients)
	}
	var out []age.Recipient
	for _, r := range recipients {
		if strings.HasPrefix(r, "AGE-SECRET-KEY-") {
			return nil, errors.New("a recipient is the public key, age1…; this is the secret key")
		}
		list, err := age.ParseRecipients(strings.NewReader(r))
		if err != nil || len(list) != 1 {
			return nil, fmt.Errorf("%.80q is not an age recipient; `age-keygen -y FILE` prints one (age1…)", r)
		}
		out = append(out, list[0])
	}
	return out, nil
}

func encrypt(data []byte, to ...age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to...)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return out.Bytes(), nil
}

// OpenPassphrase decrypts what WithPassphrase encrypted, at most limit bytes of content.
func OpenPassphrase(data []byte, passphrase string, limit int64) ([]byte, error) {
	id, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, ErrPassphrase
	}
	id.SetMaxWorkFactor(maxWorkFactor)
	return decrypt(data, limit, id)
}

// OpenIdentities decrypts what ForRecipients encrypted, with the text of an age identity file.
func OpenIdentities(data, identities []byte, limit int64) ([]byte, error) {
	list, err := age.ParseIdentities(bytes.NewReader(identities))
	if err != nil {
		return nil, errors.New("the identity file is malformed; `age-keygen` makes one") // The cause could quote it.
	}
	return decrypt(data, limit, list...)
}

func decrypt(data []byte, limit int64, with ...age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(data), with...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("decrypt: it was changed or cut short: %w", err)
	}
	if int64(len(out)) > limit {
		return nil, fmt.Errorf("decrypt: it holds more than %d bytes", limit)
	}
	return out, nil
}
