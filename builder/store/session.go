package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A session is a file in sessions/ that is locked (flock(2)) as long as the session lives, and a directory of the same name in tmp/
// for its files. The kernel drops the lock of a process that ends, however it ends; the next session removes both.
//
// The file "lock" of the store is locked for moments only: exclusively to begin a session and to remove objects, shared to
// record a use. What a session has used since it began is newer than its own file, and so is known by anyone who prunes.
const (
	sessionsDir   = "sessions"
	sessionPrefix = "session-"
	lockName      = "lock"
)

// strayAge is how old a file must be that belongs to no session before it is removed: a download that can be resumed, or what
// a version of spore without sessions has left.
const strayAge = 24 * time.Hour

// session is the one of this process.
type session struct {
	dir  string
	lock *os.File
	// start is the time of the locked file. All times are those of the filesystem, whose clock may not be ours.
	start time.Time
}

// locked runs fn while the store is locked. Every call has an open file of its own, so that goroutines do not share a lock.
func (s *Store) locked(how int, fn func() error) error {
	f, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := flock(f, how); err != nil {
		return err
	}
	return fn()
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err == nil || !errors.Is(err, unix.EINTR) {
			if err != nil {
				return fmt.Errorf("lock %s: %w", f.Name(), err)
			}
			return nil
		}
	}
}

// touch gives a file the present time of its filesystem, which whoever may write it may do.
func touch(name string) error {
	now := unix.Timespec{Nsec: unix.UTIME_NOW}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{now, now}, 0); err != nil {
		return &os.PathError{Op: "touch", Path: name, Err: err}
	}
	return nil
}

// begin starts the session of this process.
func (s *Store) begin() error {
	return s.locked(unix.LOCK_EX, func() (err error) {
		f, err := os.CreateTemp(filepath.Join(s.dir, sessionsDir), sessionPrefix+"*")
		if err != nil {
			return err
		}
		dir := filepath.Join(s.dir, "tmp", filepath.Base(f.Name()))
		// Whoever looks at it just now holds a shared lock for a moment.
		err = errors.Join(flock(f, unix.LOCK_EX), os.Mkdir(dir, 0o700))
		info, statErr := f.Stat()
		if err = errors.Join(err, statErr); err != nil {
			return errors.Join(err, os.Remove(f.Name()), f.Close())
		}
		s.session = session{dir: dir, lock: f, start: info.ModTime()}
		s.sweep()
		return nil
	})
}

// Close ends the session and removes its files.
func (s *Store) Close() error {
	return errors.Join(os.RemoveAll(s.session.dir), os.Remove(s.session.lock.Name()), s.session.lock.Close())
}

// live are the other sessions that live: the time at which the oldest of them began, and how many there are.
func (s *Store) live() (oldest time.Time, n int) {
	for _, e := range entries(filepath.Join(s.dir, sessionsDir)) {
		name := filepath.Join(s.dir, sessionsDir, e.Name())
		if name == s.session.lock.Name() || dead(name) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it ended just now
		}
		if n == 0 || info.ModTime().Before(oldest) {
			oldest = info.ModTime()
		}
		n++
	}
	return oldest, n
}

// dead reports whether the file of a session has no owner any more. One that is not ours to open may have.
func dead(name string) bool {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	return flock(f, unix.LOCK_SH|unix.LOCK_NB) == nil
}

// sweep removes what dead sessions left. Sessions begin one at a time, so none is between its file and its directory. What
// cannot be removed, because it is another user's, is left for that user.
func (s *Store) sweep() {
	for _, e := range entries(filepath.Join(s.dir, sessionsDir)) {
		if name := filepath.Join(s.dir, sessionsDir, e.Name()); dead(name) {
			os.RemoveAll(filepath.Join(s.dir, "tmp", e.Name()))
			os.Remove(name)
		}
	}
	for _, e := range entries(filepath.Join(s.dir, "tmp")) {
		_, err := os.Stat(filepath.Join(s.dir, sessionsDir, e.Name()))
		orphan := strings.HasPrefix(e.Name(), sessionPrefix) && errors.Is(err, fs.ErrNotExist)
		if orphan || errors.Is(err, fs.ErrNotExist) && s.stray(e) {
			os.RemoveAll(filepath.Join(s.dir, "tmp", e.Name()))
		}
	}
	for _, e := range entries(s.PartialDir()) {
		if s.stray(e) {
			removeUnlocked(filepath.Join(s.PartialDir(), e.Name()))
		}
	}
}

// stray reports whether an entry is so old that nobody comes back for it.
func (s *Store) stray(e fs.DirEntry) bool {
	info, err := e.Info()
	return err == nil && s.session.start.Sub(info.ModTime()) > strayAge
}

// entries are those of a directory; of one that is gone there are none.
func entries(dir string) []fs.DirEntry {
	list, _ := os.ReadDir(dir)
	return list
}

// use records that this session uses an object. It fails for what is not there or not ours to touch: whoever asked finds out
// when opening it.
func (s *Store) use(k Key, p string) {
	_ = s.locked(unix.LOCK_SH, func() error {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if want, ok := noted(p); ok && want.size != info.Size() {
			return errSum
		}
		if info.ModTime().Before(s.session.start) {
			if err := touch(p); err != nil {
				return err
			}
		}
		s.used.Store(k, nil)
		return nil
	})
	if _, ok := s.used.Load(k); !ok {
		s.removeShort(p)
	}
}

// removeShort removes an object of another length than it was put in with; nobody makes it anew in the meantime.
func (s *Store) removeShort(p string) {
	info, err := os.Stat(p)
	if err != nil {
		return
	}
	if want, ok := noted(p); !ok || want.size == info.Size() {
		return
	}
	_ = s.locked(unix.LOCK_EX, func() error {
		now, err := os.Stat(p)
		if err != nil || !os.SameFile(info, now) {
			return err
		}
		return os.Remove(p)
	})
}

// dropPartial removes downloads that are not going on.
func (s *Store) dropPartial() {
	for _, e := range entries(s.PartialDir()) {
		removeUnlocked(filepath.Join(s.PartialDir(), e.Name()))
	}
}

// removeUnlocked removes a file unless its owner has it locked.
func removeUnlocked(name string) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.Remove(name)
	}
}
