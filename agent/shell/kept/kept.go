// Package kept is what a node keeps of emergency shells (agent/shell): a file for each session, from before its shell
// starts until long after a person has acknowledged it. The file is also what has a grant be taken once.
//
// It does not keep what was shown: that is in the journal.
package kept

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/paths"
	"spore/storage/atomicfile"
	"spore/wire/shell"
)

// Bounds: how many sessions are kept, and of one in bytes.
const (
	maxSessions = 500
	maxFile     = 8 << 10
)

// Errors that callers tell apart.
var (
	// ErrUsed is a grant that was used before.
	ErrUsed = errors.New("this grant was used already; sign another one")
	// ErrOpen is a shell that is open.
	ErrOpen = errors.New("a shell is open on this node already")
	// ErrNone is a session that is not kept.
	ErrNone = errors.New("no such session is kept on this node")
)

// Book is where sessions are kept.
type Book struct{ root paths.Root }

// In is the book of a machine.
func In(root paths.Root) Book { return Book{root} }

// ending is that of the files.
const ending = ".json"

func (b Book) file(id string) string { return filepath.Join(b.root.At(paths.Shells), id+ending) }

// Lock is held while the shell of a session is open: by one process alone.
func (b Book) Lock(id string) (unlock func(), err error) {
	name := b.root.At(paths.ShellLock)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, fmt.Errorf("look whether a shell is open: %w", err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("look whether a shell is open: %w", err)
	}
	// Whoever only looks holds it for a moment.
	for try := 0; ; try++ {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			// Whose it is tells an open session from one that was cut off before. Where that cannot be written it is unknown.
			if err := f.Truncate(0); err == nil {
				_, _ = f.WriteAt([]byte(id), 0)
			}
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || try == 10 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrOpen
	}
	return nil, fmt.Errorf("look whether a shell is open: %w", err)
}

// opened tells which session has a shell that is open now; without one it is always false. Where a shell is open and
// nobody knows whose, it may be that of each.
func (b Book) opened() (is func(id string) bool) {
	none := func(string) bool { return false }
	f, err := os.OpenFile(b.root.At(paths.ShellLock), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return none
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return none
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if open := string(data); err == nil && shell.IsID(open) {
		return func(id string) bool { return id == open }
	}
	return func(string) bool { return true }
}

// Used tells whether a grant was used.
func (b Book) Used(id string) error {
	_, err := os.Lstat(b.file(id))
	switch {
	case err == nil:
		return ErrUsed
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("look whether the grant was used: %w", err)
}

// Begin keeps a session that begins, under the lock. It is on the disk when it returns, so that no loss of power has
// its grant be taken again.
func (b Book) Begin(s shell.Session, now time.Time) error {
	if err := b.Used(s.ID); err != nil {
		return err
	}
	if err := b.makeRoom(now); err != nil {
		return err
	}
	if err := b.write(s); err != nil {
		return err
	}
	// The directory may be as new as the file.
	if err := atomicfile.SyncDir(filepath.Dir(b.root.At(paths.Shells))); err != nil {
		return fmt.Errorf("keep the session: %w", err)
	}
	return nil
}

// Change keeps what becomes of a session.
func (b Book) Change(id string, change func(*shell.Session) error) error {
	s, err := b.read(id)
	if err != nil {
		return err
	}
	if err := change(&s); err != nil {
		return err
	}
	return b.write(s)
}

// Acknowledge keeps that somebody has seen that a shell was open. A session whose file cannot be read gets another one,
// which says that: its grant stays used.
func (b Book) Acknowledge(id, by string, now time.Time) (shell.Session, error) {
	var out shell.Session
	now = now.UTC().Truncate(time.Second)
	if _, err := b.read(id); err != nil && !errors.Is(err, ErrNone) {
		lost := shell.Session{ID: id, Result: clip(err.Error()), Until: now.Add(shell.MaxUse)}
		lost.Acknowledged, lost.AcknowledgedBy = now, by
		return lost, b.write(lost)
	}
	err := b.Change(id, func(s *shell.Session) error {
		out = *s
		switch {
		case !s.Acknowledged.IsZero():
			return fmt.Errorf("%s was acknowledged by %s at %s", id, s.AcknowledgedBy, s.Acknowledged.Format(time.RFC3339))
		case s.Ended.IsZero() && b.opened()(id):
			return fmt.Errorf("%s: its shell is open; acknowledge it when it has ended", id)
		}
		s.Acknowledged, s.AcknowledgedBy = now, by
		return nil
	})
	return out, err
}

// clip keeps a text far within what a file may have.
func clip(text string) string { return text[:min(len(text), 500)] }

func (b Book) write(s shell.Session) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("internal error: encode a session: %w", err)
	}
	if err := os.MkdirAll(b.root.At(paths.Shells), 0o700); err != nil {
		return fmt.Errorf("keep the session: %w", err)
	}
	if err := atomicfile.WriteDurable(b.file(s.ID), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep the session: %w", err)
	}
	return nil
}

func (b Book) read(id string) (shell.Session, error) {
	var s shell.Session
	if !shell.IsID(id) {
		return s, ErrNone
	}
	data, err := atomicfile.ReadLimited(b.file(id), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, ErrNone
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read what is kept of the session %s: %w", id, err)
	}
	s.ID = id
	return s, nil
}

// cutOff is how a session ended that nobody has written an end of.
const cutOff = "cut off: the node stopped, or the session was killed"

// Sessions are all that are kept, the oldest first. A file that cannot be read is one of a session of which nothing
// else is known: it was there.
func (b Book) Sessions() ([]shell.Session, error) {
	entries, err := os.ReadDir(b.root.At(paths.Shells))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the sessions: %w", err)
	}
	open := b.opened()
	var out []shell.Session
	for _, e := range entries {
		id, found := strings.CutSuffix(e.Name(), ending)
		if !found || !shell.IsID(id) {
			continue
		}
		s, err := b.read(id)
		switch {
		case err != nil:
			s = shell.Session{ID: id, Result: err.Error()}
		case s.Ended.IsZero() && !open(id):
			s.Result = cutOff
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(x, y shell.Session) int {
		return cmp.Or(x.Begun.Compare(y.Begun), strings.Compare(x.ID, y.ID))
	})
	return out, nil
}

// Unacknowledged are those that nobody has acknowledged, the oldest first, at most so many of them.
func (b Book) Unacknowledged(most int) ([]shell.Session, error) {
	all, err := b.Sessions()
	all = slices.DeleteFunc(all, func(s shell.Session) bool { return !s.Acknowledged.IsZero() })
	return all[:min(len(all), most)], err
}

// makeRoom forgets the oldest sessions that were acknowledged and whose grants nobody can use again.
func (b Book) makeRoom(now time.Time) error {
	all, err := b.Sessions()
	if err != nil {
		return err
	}
	room := maxSessions - len(all)
	for _, s := range all {
		if room > 0 {
			return nil
		}
		if s.Acknowledged.IsZero() || !now.After(s.Until.Add(shell.MaxUse)) {
			continue
		}
		if err := os.Remove(b.file(s.ID)); err != nil {
			return fmt.Errorf("make room for a session: %w", err)
		}
		room++
	}
	if room <= 0 {
		return fmt.Errorf("%d sessions are kept already; acknowledge some", len(all))
	}
	return nil
}
