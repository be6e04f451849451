package ceph

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	cephnode "spore/services/ceph/node"
	"spore/storage/atomicfile"
)

// Store is the data directory of this node's monitor.
//
// It is made beside its place and renamed when it is whole: a directory at its place is always one that ceph-mon --mkfs
// finished. The folder that both lie in belongs to Ceph's user, and root works there as well: it follows nothing in
// there that leads out of it.
type Store struct {
	// Dir is the directory, /var/lib/ceph/mon/ceph-NAME.
	Dir string
	// FSID is the id of the storage cluster, as the bundle has it.
	FSID string
	// Name is that of the node.
	Name string
	// Conf and Keyring are files of the monitor's unit: ceph.conf, and the keys that a first database begins with.
	Conf, Keyring string
	// Scratch is a directory for a map of monitors that Ceph's programs may write to.
	Scratch string
	// UID and GID are those that Run has.
	UID, GID int
	// Run runs Ceph's programs.
	Run Runner
	// Say is told for whom a new monitor waits.
	Say func(string)
	// Pause is the time between two tries to reach a quorum, two seconds when 0.
	Pause time.Duration
}

// fsidFile is beside Ceph's own files in the store: whose data this is, to be read without opening the database.
const fsidFile = "spore-fsid"

// maxFSID bounds the file in bytes.
const maxFSID = 128

// Empty tells whether there is no data.
func (s Store) Empty() (bool, error) {
	_, err := os.Lstat(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// Check refuses data of another storage cluster, which this one would only damage.
func (s Store) Check() error {
	data, err := s.readFSID()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s was not made by spore-agent: it has no file %s; if it is data of this cluster, write its fsid %s into that file, else move the directory away", s.Dir, fsidFile, s.FSID)
	}
	if err != nil {
		return fmt.Errorf("read whose data %s is: %w", s.Dir, err)
	}
	if found := strings.TrimSpace(string(data)); found != s.FSID {
		return fmt.Errorf("%s is data of the storage cluster %q, and the bundle of this node is for %s; bring the bundle that belongs to the data, or move the directory away to make a new monitor", s.Dir, found, s.FSID)
	}
	return nil
}

// readFSID reads the file in the folder alone: what is in it is told.
func (s Store) readFSID() ([]byte, error) {
	home, err := os.OpenRoot(filepath.Dir(s.Dir))
	if err != nil {
		return nil, err
	}
	defer home.Close()
	return atomicfile.ReadLimitedIn(home, filepath.Join(filepath.Base(s.Dir), fsidFile), maxFSID)
}

// Form makes the data of one of the first monitors.
func (s Store) Form(ctx context.Context, first []cephnode.Monitor) error {
	return s.make(ctx, func(path string) error {
		args := []string{"--create", "--clobber", "--fsid", s.FSID, "--enable-all-features"}
		for _, m := range first {
			args = append(args, "--addv", m.Name, m.Endpoint())
		}
		_, _, err := s.Run(ctx, nil, monmaptoolProgram, append(args, path)...)
		return err
	})
}

// Join makes the data of a monitor that takes everything from the quorum that there is; it waits for one.
func (s Store) Join(ctx context.Context, others []string) error {
	pause := s.Pause
	if pause == 0 {
		pause = 2 * time.Second
	}
	client := Client{Run: s.Run, Conf: s.Conf, Entity: "mon."}
	return s.make(ctx, func(path string) error {
		what := fmt.Sprintf("waits for a quorum of the other monitors (%s)", strings.Join(others, ", "))
		s.Say(what)
		return again(ctx, pause, s.Say, what, func() error {
			return client.Command(ctx, nil, "mon", "getmap", "-o", path)
		})
	})
}

// make makes the data by a map of monitors that get writes to a path.
func (s Store) make(ctx context.Context, get func(path string) error) error {
	home, err := os.OpenRoot(filepath.Dir(s.Dir))
	if err != nil {
		return err
	}
	defer home.Close()
	name := filepath.Base(s.Dir)
	fresh := name + ".new"
	for _, dir := range []string{name, fresh} {
		if err := home.RemoveAll(dir); err != nil {
			return fmt.Errorf("clear what an unfinished start left: %w", err)
		}
	}
	monmap := filepath.Join(s.Scratch, "monmap")
	if err := get(monmap); err != nil {
		return fmt.Errorf("the map of monitors: %w", err)
	}
	defer os.Remove(monmap)
	if err := home.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := atomicfile.GiveIn(home, fresh, s.UID, s.GID); err != nil {
		return err
	}
	data := filepath.Join(home.Name(), fresh)
	if _, _, err := s.Run(ctx, nil, monProgram, "--mkfs", "-c", s.Conf, "--id", s.Name, "--mon-data", data, "--monmap", monmap, "--fsid", s.FSID, "--keyring", s.Keyring); err != nil {
		return fmt.Errorf("make the database of the monitor: %w", err)
	}
	if err := atomicfile.WriteDurableIn(home, filepath.Join(fresh, fsidFile), []byte(s.FSID+"\n"), 0o644); err != nil {
		return err
	}
	if err := syncAll(home, fresh); err != nil {
		return err
	}
	if err := home.Rename(fresh, name); err != nil {
		return err
	}
	return syncAll(home, ".")
}

// syncAll brings the whole file system of a directory to the disk (syncfs(2)).
func syncAll(home *os.Root, name string) error {
	d, err := atomicfile.DirIn(home, name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("bring %s to the disk: %w", d.Name(), err)
	}
	return nil
}
