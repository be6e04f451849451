package share

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
	"spore/storage/pieces"
)

// Pieces is the name of the directory in a shelf that the objects lie in.
const Pieces = "pieces"

// Bounds of a shelf in bytes: of all that is on it, and of what it leaves free of the file system.
const (
	ShelfLimit = 1 << 30
	leaveFree  = 1 << 30
	maxHeadSum = 128
)

// Shelf is a directory of objects that the node has fetched and that others will ask for, of one update at a time:
//
//	of       the SHA-256 of the head of that update
//	ended    the same, once the node fetches nothing more of it
//	pieces/  an object each, named by its SHA-256
type Shelf struct {
	Dir string
	// Limit bounds it in bytes.
	Limit int64
	// Free is how many bytes the file system has; nil asks it.
	Free func() int64

	mu   sync.Mutex
	used int64
}

// Begin makes it the shelf of an update, and removes what is of another one.
func (s *Shelf) Begin(head string) error {
	if of, err := s.read("of"); err != nil || of != head {
		if err := s.Clear(); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(s.Dir, "ended")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep pieces for other nodes: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, Pieces), 0o700); err != nil {
		return fmt.Errorf("keep pieces for other nodes: %w", err)
	}
	entries, err := os.ReadDir(filepath.Join(s.Dir, Pieces))
	if err != nil {
		return fmt.Errorf("keep pieces for other nodes: %w", err)
	}
	s.used = 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // A piece that was cut off.
			_ = os.Remove(filepath.Join(s.Dir, Pieces, e.Name()))
		} else if info, err := e.Info(); err == nil {
			s.used += info.Size()
		}
	}
	_, err = atomicfile.Write(filepath.Join(s.Dir, "of"), []byte(head), 0o600)
	return err
}

// End says that the node fetches nothing more of the update.
func (s *Shelf) End() error {
	of, err := s.read("of")
	if err != nil {
		return err
	}
	_, err = atomicfile.Write(filepath.Join(s.Dir, "ended"), []byte(of), 0o600)
	return err
}

// Ended tells whether the node fetches nothing more of the update with this head.
func (s *Shelf) Ended(head string) bool {
	ended, err := s.read("ended")
	return err == nil && ended == head && head != ""
}

// Of is the update that it is of, and since when; empty when it is of none.
func (s *Shelf) Of() (since time.Time, head string) {
	head, err := s.read("of")
	if err != nil {
		return time.Time{}, ""
	}
	if info, err := os.Stat(filepath.Join(s.Dir, "of")); err == nil {
		since = info.ModTime()
	}
	return since, head
}

// Clear removes all objects.
func (s *Shelf) Clear() error {
	for _, name := range []string{"of", "ended", Pieces} {
		if err := os.RemoveAll(filepath.Join(s.Dir, name)); err != nil {
			return fmt.Errorf("remove pieces that were kept for other nodes: %w", err)
		}
	}
	return nil
}

// Put keeps an object. One for which there is no room is left out, and kept is false.
func (s *Shelf) Put(sum pieces.Sum, content []byte) (kept bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int64(len(content))
	if s.used+size > s.Limit || s.free() < leaveFree+size {
		return false, nil
	}
	if _, err := os.Stat(s.path(sum)); err == nil {
		return true, nil
	}
	if _, err := atomicfile.Write(s.path(sum), content, 0o600); err != nil {
		return false, fmt.Errorf("keep a piece for other nodes: %w", err)
	}
	s.used += size
	return true, nil
}

// Get implements Source.
func (s *Shelf) Get(sum pieces.Sum) ([]byte, error) {
	content, err := atomicfile.ReadLimited(s.path(sum), pieces.MaxSize)
	if err == nil && pieces.SumOf(content) != sum { // Cut off, or the disk lost it.
		return nil, errors.Join(fs.ErrNotExist, os.Remove(s.path(sum)))
	}
	return content, err
}

func (s *Shelf) path(sum pieces.Sum) string { return filepath.Join(s.Dir, Pieces, sum.String()) }

func (s *Shelf) read(name string) (string, error) {
	data, err := atomicfile.ReadLimited(filepath.Join(s.Dir, name), maxHeadSum)
	return string(data), err
}

func (s *Shelf) free() int64 {
	if s.Free != nil {
		return s.Free()
	}
	var v unix.Statfs_t
	if err := unix.Statfs(s.Dir, &v); err != nil {
		return 0
	}
	return int64(v.Bavail) * int64(v.Frsize)
}
