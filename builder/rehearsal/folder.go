package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/builder/vm"
)

const (
	// BootSize is the size of a machine's own disk, in bytes: room for the second slots and for state.
	BootSize = 16 << 30

	bootDisk = "disk.qcow2"
	// stampName holds which build of the image the boot disk stands on; Installed when it stands on none.
	stampName = "image-id"
	lockName  = "lock"
	// networkName is the folder of the network's sockets. No node is called so.
	networkName = ".network"
	// poll is how often something is looked at that cannot be waited for.
	poll = 50 * time.Millisecond
)

// Installed stands for the build of an image on a disk that holds all of it.
const Installed = "installed"

// Folder is where a rehearsal keeps its machines, OUT/vm.
type Folder string

// Network is the folder of the sockets of the network.
func (f Folder) Network() string { return filepath.Join(string(f), networkName) }

// Nodes are the nodes that have something here, sorted.
func (f Folder) Nodes() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, err
}

// Dir is the folder of a node.
func (f Folder) Dir(node string) string { return filepath.Join(string(f), node) }

// State is what a node's machine keeps, held by this process until Close.
type State struct {
	Dir  string
	lock *os.File
}

// Hold makes the folder of a node, and makes sure that no other process has its machine.
func (f Folder) Hold(node string) (*State, error) {
	dir := f.Dir(node)
	// The disks hold the node's secrets.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return &State{dir, lock}, nil
	}
	lock.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s runs already; end it with --kill %s, or show its console with --console %s", node, node, node)
	}
	return nil, fmt.Errorf("lock %s: %w", dir, err)
}

// Close gives the machine up.
func (s *State) Close() error { return s.lock.Close() }

// Forget removes what the machine kept: disks, firmware variables, TPM, console.
func (s *State) Forget() error {
	entries, err := os.ReadDir(s.Dir)
	for _, e := range entries {
		// Whoever waits for the lock has this file open.
		if e.Name() != lockName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.Dir, e.Name())))
		}
	}
	return err
}

// BootDisk makes the disk that the machine starts from on top of the image, or takes the one that is there. An overlay is
// worth nothing without the very image that it was made on: id tells one build from another.
func (s *State) BootDisk(ctx context.Context, image, id string) (string, error) {
	return s.own(id, func(disk string) error { return vm.Overlay(ctx, image, disk, BootSize) })
}

// EmptyDisk makes an empty disk that the image is to be installed on, or takes the one that it was installed on.
func (s *State) EmptyDisk(ctx context.Context) (string, error) {
	return s.own(Installed, func(disk string) error { return vm.Blank(ctx, disk, BootSize) })
}

// own is the machine's own disk, made at the first time.
func (s *State) own(id string, create func(disk string) error) (string, error) {
	disk, stamp := filepath.Join(s.Dir, bootDisk), filepath.Join(s.Dir, stampName)
	known, err := os.ReadFile(stamp)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(disk); err != nil {
			return "", err
		}
		return disk, os.WriteFile(stamp, []byte(id), 0o644)
	case err != nil:
		return "", err
	case string(known) == id, string(known) == Installed:
		return disk, nil
	case id == Installed:
		return "", fmt.Errorf("the disk in %s is not empty; use --rm to install on a new one", s.Dir)
	}
	return "", fmt.Errorf("the disk in %s was made for another build of the image; start afresh with --rm", s.Dir)
}

// Stick is a memory stick with the image, made anew where the image is another one. What a machine writes to it stays.
func (s *State) Stick(ctx context.Context, image, id string) (string, error) {
	stick, stamp := filepath.Join(s.Dir, "stick.qcow2"), filepath.Join(s.Dir, "stick-id")
	if known, err := os.ReadFile(stamp); err == nil && string(known) == id {
		return stick, nil
	}
	if err := vm.Overlay(ctx, image, stick, BootSize); err != nil {
		return "", err
	}
	return stick, os.WriteFile(stamp, []byte(id), 0o644)
}

// Disk makes an empty disk for a use, or takes the one that is there.
func (s *State) Disk(ctx context.Context, d Disk) (vm.Disk, error) {
	out := d.Device
	out.Path, out.Format = filepath.Join(s.Dir, d.Name+".qcow2"), "qcow2"
	if _, err := os.Stat(out.Path); !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	return out, vm.Blank(ctx, out.Path, d.Size)
}

// Console is the path of the socket of the machine's console, in the few characters that one may have (unix(7)). It is good
// until done is called.
func (f Folder) Console(node string) (path string, done func() error, err error) {
	dir, err := os.Open(f.Dir(node))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/console", dir.Fd()), dir.Close, nil
}
