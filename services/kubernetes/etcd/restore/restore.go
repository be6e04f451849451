// Package restore puts data that was made of a snapshot in the place of a master's etcd data.
//
// It goes in steps, so that a power cut at any point leaves either the member as it was or the restored one:
//
//   - The data is made beside, on the same file system, and synced. Until then nothing was given up.
//   - Commit writes the file committed.json. From there the restore happens, whatever comes.
//   - Resume puts the data in place, notes in the formation of etcd that this member is the only one, and removes the file.
//     It is run by the command that restores and, when the file is there, before each start of etcd.
//
// The former data is renamed and kept. This package starts and stops nothing, and speaks to nobody.
package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/formation"
	"spore/agent/paths"
	"spore/storage/atomicfile"
)

// Service is what etcd is called in formations.
const Service = "etcd"

const (
	// member is the directory in which etcd keeps all that it has; in it are wal and snap.
	member = "member"
	// givenUp begins the names of former data.
	givenUp = "given-up-"
	// committed is the file that says that a restore happens.
	committed = "committed.json"
	// made is the directory in which the data is made.
	made = "data"
	// stamp is how the time of a restore is written in names.
	stamp = "20060102T150405Z"
)

// Committed is what a committed restore is.
type Committed struct {
	// Cluster is the id of the cluster, Node this master, Initial the masters by the configuration.
	Cluster string   `json:"cluster"`
	Node    string   `json:"node"`
	Initial []string `json:"initial"`
	// Nonce is the incarnation of the member (package formation).
	Nonce string `json:"nonce"`
	// Snapshot is the name of what the data was made of, Time when.
	Snapshot string    `json:"snapshot"`
	Time     time.Time `json:"time"`
}

// Place is where etcd of a machine is.
type Place struct{ Root paths.Root }

func (p Place) file() string         { return p.Root.At(paths.EtcdRestore + "/" + committed) }
func (p Place) data(n string) string { return filepath.Join(p.Root.At(paths.Etcd), n) }

// Made is the directory in which the data is to be made; Begin makes the one that it lies in.
func (p Place) Made() string { return p.Root.At(paths.EtcdRestore + "/" + made) }

// Plain is where the database that the data is made of may lie meanwhile.
func (p Place) Plain() string { return p.Root.At(paths.EtcdRestore + "/database") }

// GivenUp is where the former data of a restore is kept.
func (p Place) GivenUp(c Committed) string { return p.Former(c.Time) }

// Former is where the data is kept that was given up at a time.
func (p Place) Former(at time.Time) string { return p.data(givenUp + at.UTC().Format(stamp)) }

// SetAside gives the data up: it is renamed to a path of Former, and etcd, which must not run, starts as one that never
// had any.
func (p Place) SetAside(kept string) error {
	if _, err := os.Lstat(kept); err == nil {
		return fmt.Errorf("set the data aside: there is a %s already", kept)
	}
	if err := os.Rename(p.data(member), kept); err != nil {
		return fmt.Errorf("set the data aside: %w", err)
	}
	return syncPath(p.Root.At(paths.Etcd))
}

// Pending tells whether a restore was committed and is not done.
func Pending(root paths.Root) bool {
	_, err := os.Lstat(Place{root}.file())
	return err == nil
}

// ErrBusy is the error of Begin when another process restores.
var ErrBusy = errors.New("another process is restoring etcd")

// Begin keeps others from restoring, and removes what a restore left that was not committed. Call the returned function
// when done: it removes that as well.
func (p Place) Begin() (end func(), err error) {
	dir := p.Root.At(paths.EtcdRestore)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of restores: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of restores: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrBusy
		}
		return nil, fmt.Errorf("lock the directory of restores: %w", err)
	}
	if !Pending(p.Root) {
		if err := p.clean(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return func() {
		if !Pending(p.Root) {
			_ = p.clean() // the next one does it otherwise
		}
		f.Close()
	}, nil
}

func (p Place) clean() error {
	for _, path := range []string{p.Made(), p.Plain()} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove what a restore left: %w", err)
		}
	}
	return atomicfile.Clear(p.file())
}

// Commit gives the data that was made to the user of etcd's own directory, syncs it, and says that the restore happens.
// The service may have to be stopped before; what follows is Resume.
func (p Place) Commit(c Committed) error {
	if err := p.settle(); err != nil {
		return fmt.Errorf("prepare the restored data: %w", err)
	}
	if err := atomicfile.WriteDurable(p.file(), encode(c), 0o600); err != nil {
		return fmt.Errorf("commit the restore: %w", err)
	}
	return nil
}

// settle makes the data etcd's, and such that it survives a power cut.
func (p Place) settle() error {
	owner, err := os.Stat(p.Root.At(paths.Etcd))
	if err != nil {
		return err
	}
	uid, gid := ownerOf(owner)
	if _, err := os.Stat(filepath.Join(p.Made(), member, "snap", "db")); err != nil {
		return err
	}
	return filepath.WalkDir(p.Made(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.IsDir() && !e.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a directory", path)
		}
		if err := os.Lchown(path, uid, gid); err != nil {
			return err
		}
		return syncPath(path)
	})
}

// Resume does what a committed restore has left to do; nothing when there is none. etcd must not run.
func (p Place) Resume() (c Committed, done bool, err error) {
	if err := atomicfile.ReadJSON(p.file(), &c); errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	} else if err != nil {
		return c, false, fmt.Errorf("go on with a restore of etcd: %w", err)
	}
	if err := p.place(c); err != nil {
		return c, false, fmt.Errorf("go on with a restore of etcd: put the data in place: %w", err)
	}
	if err := formation.Adopt(p.Root.At(paths.Formation), Service, c.Cluster, c.Node, c.Initial, c.Nonce); err != nil {
		return c, false, fmt.Errorf("go on with a restore of etcd: %w", err)
	}
	if err := p.clean(); err != nil {
		return c, false, err
	}
	if err := os.Remove(p.file()); err != nil {
		return c, false, fmt.Errorf("end a restore of etcd: %w", err)
	}
	return c, true, syncPath(filepath.Dir(p.file()))
}

// place moves the former data away and the restored one in its place. Which of both moves are done shows in what lies
// where.
func (p Place) place(c Committed) error {
	restored := filepath.Join(p.Made(), member)
	if _, err := os.Lstat(restored); errors.Is(err, fs.ErrNotExist) {
		// It is there already. Without both there is nothing, and etcd must not start with nothing as if it were new.
		if _, err := os.Lstat(p.data(member)); err != nil {
			return fmt.Errorf("neither the restored data nor any other is there: restore again: %w", err)
		}
		return nil
	} else if err != nil {
		return err
	}
	if _, err := os.Lstat(p.data(member)); err == nil {
		if err := os.Rename(p.data(member), p.GivenUp(c)); err != nil {
			return err
		}
		if err := syncPath(p.Root.At(paths.Etcd)); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(restored, p.data(member)); err != nil {
		return err
	}
	return errors.Join(syncPath(p.Root.At(paths.Etcd)), syncPath(p.Made()))
}

// syncPath syncs a file or directory.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
