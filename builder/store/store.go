// Package store is the content-addressed cache of the builder. Everything slow is a pure function of hashes, and its
// result is kept here under the hash of its inputs. A file appears in the store whole or not at all.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"spore/builder/directio"
	"spore/storage/atomicfile"
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

// Store is a cache directory, opened for one session. Any number of processes may use it at once, also while one of them
// prunes it.
type Store struct {
	dir     string
	session session
	// used holds the keys whose use is recorded.
	used sync.Map
	// added is the size of what this session has put in, in bytes.
	added atomic.Int64
}

// Open makes the directory where needed, removes what dead sessions left, and begins a session, which Close ends, or the end of
// the process.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	for _, d := range []string{"objects", "tmp", sessionsDir, "partial", "notes"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, unwritable(dir, err)
		}
	}
	if err := s.begin(); err != nil {
		return nil, unwritable(dir, err)
	}
	return s, nil
}

// unwritable says what to do about a directory that cannot be written.
func unwritable(dir string, err error) error {
	err = fmt.Errorf("open store: %w", err)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: a build writes into its cache folder %s; make it writable, or name another folder with --cache", err, dir)
	case full(err):
		return fmt.Errorf("%w: %s", err, fullHint(dir))
	case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: the filesystem of the cache folder %s has no file locks; with --cache name a folder on another filesystem", err, dir)
	}
	return err
}

// full reports whether a disk or a quota is used up.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func fullHint(dir string) string {
	return fmt.Sprintf("the disk of the cache folder %s is full; free some of it, for instance with spore cache prune, or name a folder on another one with --cache", dir)
}

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// TempDir is a directory for files of this session. Those that are left when the session ends are removed.
func (s *Store) TempDir() string { return s.session.dir }

// PartialDir is a directory for downloads that can be resumed; its names are free to choose by their owner.
func (s *Store) PartialDir() string { return filepath.Join(s.dir, "partial") }

// Path is where the object of a key is, whether it exists or not. To ask is to use it: no pruning removes the object before this
// session ends. An object of another length than it was put in with is removed.
func (s *Store) Path(k Key) string {
	p := s.path(k)
	if _, ok := s.used.Load(k); !ok {
		s.use(k, p)
	}
	return p
}

func (s *Store) path(k Key) string {
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
func (s *Store) Put(k Key, fn func(w *os.File) error) error {
	return s.put(k, func(f *os.File) (sum, error) {
		if err := fn(f); err != nil {
			return sum{}, err
		}
		return sumFile(f)
	})
}

// PutLarge is Put for an object of size bytes that is read rarely: it goes past the page cache where its pieces allow that
// (package directio), and is not read again for its checksum. fn writes each byte once, in pieces of any order and from many
// goroutines.
func (s *Store) PutLarge(k Key, size int64, fn func(w io.WriterAt) error) error {
	return s.put(k, func(f *os.File) (sum, error) {
		if err := directio.Reserve(f, 0, size); err != nil {
			return sum{}, err
		}
		direct := directio.New(f)
		defer direct.Close()
		p := pieces{w: direct}
		if err := fn(&p); err != nil {
			return sum{}, err
		}
		return p.sum(size)
	})
}

// put is Put with an fn that returns the sum of what it wrote.
func (s *Store) put(k Key, fn func(f *os.File) (sum, error)) (err error) {
	f, err := os.CreateTemp(s.TempDir(), k.String()[:12]+"-*")
	if err != nil {
		return s.cannotPut(k, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
		if full(err) {
			err = fmt.Errorf("%w: %s", err, fullHint(s.dir))
		}
	}()
	made, err := fn(f)
	if err != nil {
		return err
	}
	return s.name(k, f, made)
}

// Adopt gives the file at path, which must be on the store's filesystem (PartialDir is), the name of a key, as Put does.
// The caller has checked its content.
func (s *Store) Adopt(k Key, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return s.cannotPut(k, err)
	}
	found, err := sumFile(f)
	if err == nil {
		err = s.name(k, f, found)
	}
	if err != nil {
		f.Close()
	}
	return err
}

func (s *Store) cannotPut(k Key, err error) error {
	return fmt.Errorf("put %s into store: %w", k, err)
}

// name notes what a finished file can be checked by, flushes it to the disk, closes it and moves it to its place.
func (s *Store) name(k Key, f *os.File, made sum) error {
	to := s.path(k)
	for _, step := range []func() error{
		func() error { return note(f, made) },
		func() error { return f.Chmod(0o644) },
		f.Sync,
		f.Close,
		func() error { return os.MkdirAll(filepath.Dir(to), 0o755) },
		func() error {
			return s.locked(unix.LOCK_SH, func() error { return errors.Join(touch(f.Name()), os.Rename(f.Name(), to)) })
		},
	} {
		if err := step(); err != nil {
			return s.cannotPut(k, err)
		}
	}
	s.used.Store(k, nil)
	s.added.Add(made.size)
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

// ReadAll returns the object of a key whole; for small objects. One that is not as it was put in is removed, and the error is
// ErrDamaged.
func (s *Store) ReadAll(k Key) ([]byte, error) {
	data, err := os.ReadFile(s.Path(k)) // which asks for the size first, and so needs the memory once
	if err != nil {
		return nil, err
	}
	if err := s.verify(k, data); err != nil {
		return nil, err
	}
	return data, nil
}

// verify removes an object whose content is not as it was put in.
func (s *Store) verify(k Key, data []byte) error {
	if want, ok := noted(s.path(k)); ok && want != sumOf(data) {
		return s.Damaged(k, errSum)
	}
	return nil
}

// ReadNote returns a note by its name; the error is fs.ErrNotExist when there is none.
func (s *Store) ReadNote(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.dir, "notes", name))
}

// WriteNote keeps a note: a small file that changes, such as what was last seen of a mirror. An output never depends on
// one. The name is one path element; the last writer wins, and a reader sees the old or the new text whole.
func (s *Store) WriteNote(name string, data []byte) error {
	if err := s.replace(filepath.Join(s.dir, "notes", name), data); err != nil {
		return fmt.Errorf("write note %s into store: %w", name, err)
	}
	return nil
}

// replace puts a small file in its place whole.
func (s *Store) replace(name string, data []byte) error {
	f, err := os.CreateTemp(s.TempDir(), "note-*")
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = atomicfile.Finish(f, name, 0o600, atomicfile.Whole)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
	}
	if full(err) {
		err = fmt.Errorf("%w: %s", err, fullHint(s.dir))
	}
	return err
}
