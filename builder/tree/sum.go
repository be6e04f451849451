package tree

import (
	"crypto/sha256"
	"io"
)

// summed is content that was hashed before.
type summed interface{ SHA256() [sha256.Size]byte }

// KnownSHA256 returns the hash of the data where the content knows it without reading.
func KnownSHA256(c Content) (sum [sha256.Size]byte, known bool) {
	s, ok := c.(summed)
	if !ok {
		return sum, false
	}
	return s.SHA256(), true
}

// SHA256 returns the hash of the data.
func SHA256(c Content) (sum [sha256.Size]byte, err error) {
	if sum, ok := KnownSHA256(c); ok {
		return sum, nil
	}
	r, err := c.Open()
	if err != nil {
		return sum, err
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
