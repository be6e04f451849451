package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// Bounds of what snapshots leave free for etcd and others: the tenth part of the disk, within these, in bytes.
const (
	leastReserve = 256 << 20
	mostReserve  = 4 << 30
)

// leastKept is how many snapshots are never given up for room.
const leastKept = 2

// draftPrefix begins the names of files that are being written.
const draftPrefix = ".draft-"

// Dir is the directory of a master's snapshots. Only one process at a time changes it: see Lock. It belongs to the user
// of the unit; root's commands and the node's API work in it as well, and follow nothing that leads out of it.
type Dir struct {
	Path string
	// Space returns how many bytes are free and how many there are in all; that of the file system when nil.
	Space func(path string) (free, all uint64, err error)
}

// ErrNoRoom is in the error when snapshots would fill the disk.
var ErrNoRoom = errors.New("no room")

// Lock makes the directory, keeps others from changing it, and removes what an earlier process left unfinished. Call the
// returned function when done.
func (d Dir) Lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of snapshots: %w", err)
	}
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of snapshots: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(".lock", os.O_CREATE|os.O_RDWR|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of snapshots: %w", err)
	}
	if err := d.own(f); err != nil {
		f.Close()
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock the directory of snapshots: %w", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("another process is taking or getting snapshots: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := d.clean(); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// own gives a new file to whose the directory is: root's commands work in that of the unit, which has to go on with it.
func (d Dir) own(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var st, file unix.Stat_t
	if err := errors.Join(unix.Stat(d.Path, &st), unix.Fstat(int(f.Fd()), &file)); err != nil {
		return fmt.Errorf("look whose the snapshots are: %w", err)
	}
	// A file with another name may be somebody else's, to whom the kernel lets users make such names
	// (fs.protected_hardlinks=0).
	if file.Mode&unix.S_IFMT != unix.S_IFREG || file.Nlink != 1 {
		return fmt.Errorf("give a snapshot to whose they are: %s is not a file with one name: remove it", f.Name())
	}
	if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
		return fmt.Errorf("give a snapshot to whose they are: %w", err)
	}
	return nil
}

func (d Dir) clean() error {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return fmt.Errorf("look for unfinished snapshots: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), draftPrefix) {
			if err := os.Remove(filepath.Join(d.Path, e.Name())); err != nil {
				return fmt.Errorf("remove an unfinished snapshot: %w", err)
			}
		}
	}
	return nil
}

// List returns what is there, in no order; nothing when there is no directory.
func (d Dir) List() ([]Entry, error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var out []Entry
	for _, e := range entries {
		name, err := nodeapi.ParseSnapshotName(e.Name())
		if err != nil || !e.Type().IsRegular() {
			continue // the lock, drafts, and what somebody laid there
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		out = append(out, Entry{Name: name, Size: info.Size()})
	}
	return out, nil
}

// At is where a snapshot lies.
func (d Dir) At(n Name) string { return filepath.Join(d.Path, n.String()) }

// Open opens a snapshot. What lies at its place and is not a file of this directory is an error.
func (d Dir) Open(n Name) (*os.File, error) {
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return atomicfile.OpenIn(root, n.String())
}

// Check reads a snapshot and compares it with the hash in its name.
func (d Dir) Check(n Name) error {
	f, err := d.Open(n)
	if err != nil {
		return fmt.Errorf("check a snapshot: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("check snapshot %s: %w", n, err)
	}
	if got := nodeapi.SnapshotHash(h); got != n.Hash {
		return fmt.Errorf("snapshot %s is damaged: its hash is %s", n, got)
	}
	return nil
}

// Room gives up the oldest snapshots until so many bytes can be written for one that was taken at a time, but none that is
// newer than that, and never the newest two. Without that room, the error is ErrNoRoom, and nothing was given up in vain.
func (d Dir) Room(need uint64, taken, now time.Time) (dropped []Name, err error) {
	space := d.Space
	if space == nil {
		space = statfs
	}
	free, all, err := space(d.Path)
	if err != nil {
		return nil, fmt.Errorf("look for room for a snapshot: %w", err)
	}
	need += min(max(all/10, leastReserve), mostReserve)
	if free >= need {
		return nil, nil
	}
	list, err := d.List()
	if err != nil {
		return nil, err
	}
	Sort(list, now)
	var drop []Entry
	for i := len(list) - 1; i >= leastKept && free < need; i-- {
		if !wrong(list[i], now) && !list[i].Name.Taken.Before(taken) {
			break
		}
		drop = append(drop, list[i])
		free += uint64(list[i].Size)
	}
	if free < need {
		return nil, fmt.Errorf("%w for a snapshot in %s: with what has to stay free for etcd it takes %d MiB, and there would be %d at most; make room in /var", ErrNoRoom, d.Path, need>>20, free>>20)
	}
	for _, e := range drop {
		if err := d.remove(e.Name); err != nil {
			return dropped, err
		}
		dropped = append(dropped, e.Name)
	}
	return dropped, nil
}

func statfs(path string) (free, all uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}

// Prune removes what is too much.
func (d Dir) Prune(k Keep, now time.Time) (dropped []Name, err error) {
	list, err := d.List()
	if err != nil {
		return nil, err
	}
	_, drop := k.Choose(list, now)
	for _, e := range drop {
		if err := d.remove(e.Name); err != nil {
			return dropped, err
		}
		dropped = append(dropped, e.Name)
	}
	return dropped, nil
}

func (d Dir) remove(n Name) error {
	if err := os.Remove(d.At(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an old snapshot: %w", err)
	}
	return nil
}

// Draft is a snapshot that is being written.
type Draft struct {
	dir  Dir
	file *os.File
	hash hash.Hash
	size int64
	kept bool
}

// Draft begins a snapshot; end it with Commit or Discard.
func (d Dir) Draft() (*Draft, error) {
	f, err := os.CreateTemp(d.Path, draftPrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("begin a snapshot: %w", err)
	}
	if err := d.own(f); err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, err
	}
	return &Draft{dir: d, file: f, hash: sha256.New()}, nil
}

// Write appends.
func (w *Draft) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.hash.Write(p[:n])
	w.size += int64(n)
	return n, err
}

// Path is where it is being written.
func (w *Draft) Path() string { return w.file.Name() }

// Hash is what the name of what was written so far has to hold.
func (w *Draft) Hash() string { return nodeapi.SnapshotHash(w.hash) }

// Reread returns what was written, as the disk has it.
func (w *Draft) Reread() (io.Reader, error) {
	if err := w.file.Sync(); err != nil {
		return nil, fmt.Errorf("sync a snapshot: %w", err)
	}
	// Otherwise it would come from memory, which is no news.
	_ = unix.Fadvise(int(w.file.Fd()), 0, 0, unix.FADV_DONTNEED)
	return io.NewSectionReader(w.file, 0, w.size), nil
}

// Commit gives the snapshot its name; when it returns, it survives a power cut.
func (w *Draft) Commit(n Name) error {
	if got := w.Hash(); got != n.Hash {
		return fmt.Errorf("snapshot %s is damaged: its hash is %s", n, got)
	}
	// Other masters' API servers run as another user, and nobody can read it without the key.
	if err := atomicfile.Finish(w.file, w.dir.At(n), 0o644, atomicfile.Durable); err != nil {
		return fmt.Errorf("keep a snapshot: %w", err)
	}
	w.kept = true
	return nil
}

// Discard removes what was written, if it was not committed.
func (w *Draft) Discard() {
	if !w.kept {
		w.file.Close()
		os.Remove(w.file.Name())
	}
}
