package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"spore/storage/atomicfile"
)

// Consumer is who takes lines.
type Consumer struct {
	// Name has lower-case letters, digits and hyphens.
	Name string
	// Keeps says that it loses nothing: the spool refuses lines rather than to drop what it has not taken. The oldest
	// lines of others go when the spool is full.
	Keeps bool
}

// consumerForm is a name that may be one of a file.
var consumerForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// Position is a place in the spool. The zero position is before everything.
type Position struct {
	Segment uint64 `json:"segment"`
	Offset  int64  `json:"offset"`
}

// before tells which of two places comes first.
func (p Position) before(q Position) bool {
	return p.Segment < q.Segment || p.Segment == q.Segment && p.Offset < q.Offset
}

// consumer is how far one is.
type consumer struct {
	Consumer
	done, kept Position
	reading    bool
	dropped    int64 // lines
}

func (s *Spool) positionsDir() string { return filepath.Join(s.o.Dir, "positions") }

// place finds out how far the consumers are.
func (s *Spool) place() error {
	for _, c := range s.o.Consumers {
		if !consumerForm.MatchString(c.Name) || s.consumers[c.Name] != nil {
			return fmt.Errorf("%.64q is no name of a consumer, or there are two of it", c.Name)
		}
		at, err := s.positionOf(c)
		if err != nil {
			return err
		}
		// It is written at once: one that has one is not new at the next start.
		s.consumers[c.Name] = &consumer{Consumer: c, done: at, kept: Position{Offset: -1}}
	}
	if err := s.keepPositions(); err != nil {
		if !errors.Is(diskError(err), ErrNoSpace) {
			return err
		}
		s.o.Say(err.Error()) // keep tries again; until then the position on disk does, or none.
	}
	for _, dir := range []string{s.positionsDir(), s.o.Dir, filepath.Dir(s.o.Dir)} {
		if err := atomicfile.SyncDir(dir); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(s.positionsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if s.consumers[e.Name()] == nil {
			if err := os.Remove(filepath.Join(s.positionsDir(), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// positionOf is where a consumer goes on. One that is new begins with what comes from now on, unless it keeps.
func (s *Spool) positionOf(c Consumer) (Position, error) {
	var at Position
	data, err := atomicfile.ReadLimited(filepath.Join(s.positionsDir(), c.Name), 4<<10)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if n := len(s.segments); n > 0 && !c.Keeps {
			at = Position{s.segments[n-1].number, s.segments[n-1].size}
		}
		return at, nil
	case err != nil:
		return at, err
	}
	if err := json.Unmarshal(data, &at); err != nil || at.Offset < 0 {
		s.o.Say(fmt.Sprintf("the position of %s cannot be read: it begins with the oldest line again", c.Name))
		return Position{}, nil
	}
	s.next = max(s.next, at.Segment+1)
	return at, nil
}

// keep writes the positions now and then, until the end.
func (s *Spool) keep() {
	beat := time.NewTicker(keepEvery)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			if err := s.keepPositions(); err != nil {
				s.o.Say(err.Error())
			}
		case <-s.stop:
			return
		}
	}
}

// keepPositions writes the positions that are others than those on disk.
func (s *Spool) keepPositions() error {
	s.mu.Lock()
	moved := map[string]Position{}
	for name, c := range s.consumers {
		if c.done != c.kept {
			moved[name] = c.done
		}
	}
	s.mu.Unlock()
	var problems []error
	for name, at := range moved {
		data, err := json.Marshal(at)
		if err == nil {
			// The folder need not be synced: after a loss of power an older position does, too.
			err = atomicfile.Replace(filepath.Join(s.positionsDir(), name), append(data, '\n'), 0o600, atomicfile.Whole)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("keep the position of %s: %w", name, err))
			continue
		}
		s.mu.Lock()
		s.consumers[name].kept = at
		s.mu.Unlock()
	}
	return errors.Join(problems...)
}
