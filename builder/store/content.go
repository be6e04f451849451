package store

import (
	"errors"
	"io"
	"os"
)

// Content is an object that is read later.
type Content struct {
	store *Store
	key   Key
	size  int64
}

// Content returns the object of a key to be read into memory that is there; the error is fs.ErrNotExist when it is not in the
// store.
func (s *Store) Content(k Key) (Content, error) {
	info, err := os.Stat(s.Path(k))
	if err != nil {
		return Content{}, err
	}
	return Content{store: s, key: k, size: info.Size()}, nil
}

// Size is its length in bytes.
func (c Content) Size() int64 { return c.size }

// ReadInto fills p, which has the length Size. An object that is not as it was put in is removed, and the error is ErrDamaged.
func (c Content) ReadInto(p []byte) error {
	f, err := c.store.Open(c.key)
	if err != nil {
		return err
	}
	defer f.Close()
	switch _, err := io.ReadFull(f, p); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return c.store.Damaged(c.key, err)
	case err != nil:
		return err
	}
	return c.store.verify(c.key, p)
}
