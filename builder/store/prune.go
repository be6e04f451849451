package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Object is a file of the store.
type Object struct {
	Key  Key
	Path string
	// Size is in bytes.
	Size int64
	// Used is when a session last asked for it.
	Used time.Time
}

// List returns the objects of the store in dir, the least recently used first. It takes part in nothing: the store may be one that
// cannot be written.
func List(dir string) ([]Object, error) {
	var out []Object
	err := filepath.WalkDir(filepath.Join(dir, "objects"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return gone(err)
		}
		k, err := ParseKey(filepath.Base(filepath.Dir(p)) + d.Name())
		if err != nil {
			return nil // not ours
		}
		info, err := d.Info()
		if err == nil {
			out = append(out, Object{Key: k, Path: p, Size: info.Size(), Used: info.ModTime()})
		}
		return gone(err)
	})
	if err != nil {
		return nil, fmt.Errorf("list the cache: %w", err)
	}
	slices.SortFunc(out, func(a, b Object) int {
		if d := a.Used.Compare(b.Used); d != 0 {
			return d
		}
		return bytes.Compare(a.Key[:], b.Key[:])
	})
	return out, nil
}

// gone is err, but for what another process removed in the meantime.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// PruneOptions say what goes. Objects that a living session has used always stay.
type PruneOptions struct {
	// To is the size to come down to, in bytes: the least recently used objects go first.
	To int64
	// All lets everything go, downloads that were broken off too.
	All bool
	// Unused, where it is not 0, lets all objects go that nobody used for that long, and none but them: To does not count.
	Unused time.Duration
	// DryRun removes nothing.
	DryRun bool
}

// Pruned says what a pruning did, or would do.
type Pruned struct {
	// Removed objects had Freed bytes together.
	Removed int   `json:"removed"`
	Freed   int64 `json:"freed"`
	// Left bytes are still there.
	Left int64 `json:"left"`
	// InUse objects would have gone too, had nobody used them; Sessions is the number of other sessions.
	InUse    int `json:"inUse"`
	Sessions int `json:"sessions"`
}

// lockedAtOnce is the number of objects that are removed before others have their turn with the lock.
const lockedAtOnce = 64

// Prune removes objects.
func (s *Store) Prune(o PruneOptions) (Pruned, error) {
	objects, err := List(s.dir)
	if err != nil {
		return Pruned{}, err
	}
	p, err := s.prune(o, objects)
	if err != nil {
		return p, fmt.Errorf("prune the cache: %w", err)
	}
	return p, nil
}

func (s *Store) prune(o PruneOptions, objects []Object) (Pruned, error) {
	// Later sessions mark what they use with times after this one began.
	since := s.session.start
	oldest, sessions := s.live()
	if sessions > 0 && oldest.Before(since) {
		since = oldest
	}
	p := Pruned{Sessions: sessions}
	for _, object := range objects {
		p.Left += object.Size
	}
	goes := func(object Object) bool {
		if o.All {
			return true
		}
		if o.Unused > 0 {
			return s.session.start.Sub(object.Used) >= o.Unused
		}
		return p.Left > o.To
	}
	for batch := range slices.Chunk(objects, lockedAtOnce) {
		err := s.locked(unix.LOCK_EX, func() error {
			for _, object := range batch {
				if !goes(object) {
					continue
				}
				info, err := os.Stat(object.Path)
				if errors.Is(err, fs.ErrNotExist) {
					p.Left -= object.Size
					continue
				}
				if err != nil {
					return err
				}
				if !info.ModTime().Before(since) {
					p.InUse++
					continue
				}
				if !o.DryRun {
					if err := os.Remove(object.Path); err != nil {
						return err
					}
				}
				p.Removed++
				p.Freed += object.Size
				p.Left -= object.Size
			}
			return nil
		})
		if err != nil {
			return p, err
		}
	}
	if o.DryRun {
		return p, nil
	}
	if o.All {
		s.dropPartial()
	}
	return p, s.locked(unix.LOCK_EX, func() error { return s.writeUsage(p.Left) })
}

// usage is the note that saves a look at every object after each build.
type usage struct {
	// Bytes is the size of all objects, Counted the time at which they were last looked at.
	Bytes   int64     `json:"bytes"`
	Counted time.Time `json:"counted"`
}

const usageNote = "usage"

// recount is how long a count is believed. It goes wrong by what was put in twice, and by what killed sessions put in.
const recount = 24 * time.Hour

func (s *Store) writeUsage(n int64) error {
	text, err := json.Marshal(usage{n, s.session.start.UTC()})
	if err != nil {
		return err
	}
	return s.WriteNote(usageNote, text)
}

// Tidy holds the store to a limit in bytes, where 0 is none: when it is larger, the least recently used objects go until a tenth
// of the limit is free. What this session used stays. It looks at the objects once a day at most, or when the limit is reached.
func (s *Store) Tidy(limit int64) (Pruned, error) {
	if limit == 0 {
		return Pruned{}, nil
	}
	bytes, err := s.count()
	if err != nil || bytes <= limit {
		return Pruned{Left: bytes}, err
	}
	objects, err := List(s.dir)
	if err != nil {
		return Pruned{}, err
	}
	var total int64
	for _, object := range objects {
		total += object.Size
	}
	if total <= limit {
		return Pruned{Left: total}, s.locked(unix.LOCK_EX, func() error { return s.writeUsage(total) })
	}
	return s.prune(PruneOptions{To: limit - limit/10}, objects)
}

// count is the size of all objects, as far as it is known, with what this session added.
func (s *Store) count() (n int64, err error) {
	err = s.locked(unix.LOCK_EX, func() error {
		added := s.added.Swap(0)
		var u usage
		text, err := s.ReadNote(usageNote)
		if err == nil {
			err = json.Unmarshal(text, &u)
		}
		age := s.session.start.Sub(u.Counted)
		if err != nil || age > recount || age < -recount {
			objects, err := List(s.dir)
			if err != nil {
				return err
			}
			for _, object := range objects {
				n += object.Size
			}
			return s.writeUsage(n)
		}
		if n = u.Bytes + added; added == 0 {
			return nil
		}
		text, err = json.Marshal(usage{n, u.Counted})
		if err != nil {
			return err
		}
		return s.WriteNote(usageNote, text)
	})
	return n, err
}
