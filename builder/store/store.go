// Package store is the content-addressed cache of the builder. Everything slow is a pure function of hashes, and its
// result is kept here under the hash of its inputs. A file appears in the store whole or not at all.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Key is the SHA-256 over the name of a step and all its inputs.
type Key [sha256.Size]byte

// KeyOf hashes a step's name (with a version that changes when its output does) and its inputs. Each part is hashed with
// its length, so that no two lists collide.
func KeyOf(step string, inputs ...string) Key {
	h := sha256.New()
	for _, s := range append([]string{step}, inputs...) {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	var k Key
	h.Sum(k[:0])
	return k
}

// ParseKey reads a key from 64 lower-case hexadecimal digits. The SHA-256 of a file that came from outside is the key of
// that file.
func ParseKey(s string) (Key, error) {
	var k Key
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(k) || hex.EncodeToString(b) != s {
		return k, fmt.Errorf("%.80q is not a SHA-256 of 64 lower-case hexadecimal digits", s)
	}
	copy(k[:], b)
	return k, nil
}

// String is the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Store is a cache directory. Any number of processes may use it at once.
type Store struct {
	dir string
}

// Open makes the directory where needed.
func Open(dir string) (*Store, error) {
	for _, d := range []string{"objects", "tmp", "partial", "notes"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	return &Store{dir: dir}, nil
}

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// PartialDir is a directory for downloads that can be resumed; its names are free to choose by their owner.
func (s *Store) PartialDir() string { return filepath.Join(s.dir, "partial") }

// Path is where the object of a key is, whether it exists or not.
func (s *Store) Path(k Key) string {
	h := k.String()
	return filepath.Join(s.dir, "objects", h[:2], h[2:])
}

// Has reports whether the object is there.
func (s *Store) Has(k Key) bool {
	_, err := os.Stat(s.Path(k))
	return err == nil
}

// Open returns the object of a key for reading; the error is fs.ErrNotExist when it is not there.
func (s *Store) Open(k Key) (*os.File, error) { return os.Open(s.Path(k)) }

// Put writes the object of a key with fn, flushes it to the disk, and only then gives it its name. An error of fn leaves
// nothing behind.
func (s *Store) Put(k Key, fn func(w *os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), k.String()[:12]+"-*")
	if err != nil {
		return fmt.Errorf("put %s into store: %w", k, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err = fn(f); err != nil {
		return err
	}
	return s.name(k, f)
}

// Adopt gives the file at path, which must be on the store's filesystem (PartialDir is), the name of a key, as Put does.
// The caller has checked its content.
func (s *Store) Adopt(k Key, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("put %s into store: %w", k, err)
	}
	if err := s.name(k, f); err != nil {
		f.Close()
		return err
	}
	return nil
}

// name flushes a finished file to the disk, closes it and moves it to its place.
func (s *Store) name(k Key, f *os.File) error {
	for _, step := range []func() error{
		f.Sync,
		func() error { return f.Chmod(0o644) },
		f.Close,
		func() error { return os.MkdirAll(filepath.Dir(s.Path(k)), 0o755) },
		func() error { return os.Rename(f.Name(), s.Path(k)) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("put %s into store: %w", k, err)
		}
	}
	return nil
}

// Ensure opens the object of a key and makes it first with fn where it is missing.
func (s *Store) Ensure(k Key, fn func(w *os.File) error) (*os.File, error) {
	f, err := s.Open(k)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := s.Put(k, fn); err != nil {
		return nil, err
	}
	return s.Open(k)
}

// ReadAll returns the object of a key whole; for small objects.
func (s *Store) ReadAll(k Key) ([]byte, error) {
	return os.ReadFile(s.Path(k)) // which asks for the size first, and so needs the memory once
}

// ReadNote returns a note by its name; the error is fs.ErrNotExist when there is none.
func (s *Store) ReadNote(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.dir, "notes", name))
}

// WriteNote keeps a note: a small file that changes, such as what was last seen of a mirror. An output never depends on
// one. The name is one path element; the last writer wins, and a reader sees the old or the new text whole.
func (s *Store) WriteNote(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), "note-*")
	if err != nil {
		return fmt.Errorf("write note %s into store: %w", name, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, "notes", name))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write note %s into store: %w", name, err)
	}
	return nil
}
