package template

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
)

// maxRounds bounds the iterations of one key, and maxAllRounds those of all keys in a template, which take a small
// machine about ten seconds.
const maxRounds, maxAllRounds = 1_000_000, 2_000_000

// ErrRounds is a template that derives keys for too long.
var ErrRounds = fmt.Errorf("its calls of pbkdf2 have more than %d iterations in sum; write fewer", maxAllRounds)

// digests are the functions that pbkdf2 can use.
var digests = map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New}

// derived is a text that a function made. What is made of a secret is one, too.
func (r *run) derived(v any, most int, form func(s string) string) (string, error) {
	s := fmt.Sprint(v)
	out, err := r.make(most+2*len(s), func() string { return form(s) })
	if err == nil && len(r.told) > 0 {
		r.told = append(r.told, out)
	}
	return out, err
}

// base64 encodes the bytes of a text (RFC 4648, section 4).
func (r *run) base64(v any) (string, error) {
	return r.derived(v, 4, func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })
}

// sha256 is the digest of a text in 64 hexadecimal digits.
func (r *run) sha256(v any) (string, error) {
	return r.derived(v, 2*sha256.Size, func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])
	})
}

// pbkdf2 derives a key as long as the digest from a password (RFC 8018, section 5.2), in base64.
func (r *run) pbkdf2(digest string, rounds any, salt string, password any) (string, error) {
	h, known := digests[digest]
	n, err := integer(rounds)
	switch {
	case !known:
		return "", errors.New("the digest of pbkdf2 is unknown; write \"sha256\" or \"sha512\"")
	case err != nil:
		return "", err
	case n < 1 || n > maxRounds:
		return "", fmt.Errorf("%d iterations of pbkdf2 are out of bounds; write 1 to %d", n, maxRounds)
	case salt == "":
		return "", errors.New("the salt of pbkdf2 is empty; write one that each user has of its own")
	case fmt.Sprint(password) == "":
		return "", errors.New("the password for pbkdf2 is empty; anybody would know it")
	}
	if r.rounds += int(n); r.rounds > maxAllRounds {
		return "", r.stop(ErrRounds)
	}
	if _, err := r.step(1); err != nil { // Those before it took their time.
		return "", err
	}
	out, stopped := r.derived(password, 2*sha512.Size, func(s string) string {
		var key []byte
		if key, err = pbkdf2.Key(h, s, []byte(salt), int(n), h().Size()); err != nil {
			return ""
		}
		return base64.StdEncoding.EncodeToString(key)
	})
	return out, errors.Join(stopped, err)
}
