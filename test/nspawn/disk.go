package nspawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// diskSize is that of a node's disk in bytes; its file has only what was written.
	diskSize = 8 << 30
	// releaseLimit is how long the kernel may take to give a file system up that nobody uses any more.
	releaseLimit = time.Minute
	// shutdown is EXT4_IOC_SHUTDOWN and noLogFlush EXT4_GOING_FLAGS_NOLOGFLUSH (include/uapi/linux/ext4.h).
	shutdown   = 0x8004587d
	noLogFlush = 2
)

// disk is a file system that loses at a cut what was not synced: ext4, as a node's state has it, in a file on a loop
// device. The cut is the one of the tests of file systems (xfstests, src/godown): the file system ends at once and
// neither writes its pages nor closes its journal, and the next mount finds what had reached the device. Of data that
// is what was synced, or was written back by age; the order of ext4's journal is kept.
//
// It has no cache of its own as a disk has: what was sent to it stays, flushed or not. That is in the tests in QEMU.
type disk struct {
	// file holds the file system, which is mounted at a folder.
	file, at string
}

// newDisk makes a disk with an empty file system, and mounts it.
func newDisk(file, at string) (*disk, error) {
	d := &disk{file: file, at: at}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return nil, err
	}
	return d, d.format()
}

// format empties the disk, which is not mounted, and mounts it.
func (d *disk) format() error {
	if err := os.RemoveAll(d.file); err != nil {
		return err
	}
	if err := os.WriteFile(d.file, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(d.file, diskSize); err != nil {
		return err
	}
	if err := run("mkfs.ext4", "-q", "-F", d.file); err != nil {
		return err
	}
	return d.mount()
}

// mount mounts it; ext4 replays its journal where it was cut. The file is the medium and outlives every cut, so that
// it need not be flushed to the host's disk (nobarrier); what ext4 keeps in memory, and for how long, is the same.
func (d *disk) mount() error { return run("mount", "-o", "loop,nobarrier,nosuid,nodev", d.file, d.at) }

// cut loses all that is only in memory. Nothing can be read or written until renew.
func (d *disk) cut() error {
	f, err := os.Open(d.at)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noLogFlush); err != nil {
		return fmt.Errorf("shut the file system at %s down: %w", d.at, err)
	}
	return nil
}

// renew mounts a disk again that was cut, or formats it.
func (d *disk) renew(mount func() error) error {
	if err := d.unmount(); err != nil {
		return err
	}
	return mount()
}

// unmount returns when the file system has ended. A process that has just been killed may hold it, and the mounts of
// its container. A second mount before would be of the same, ended file system.
func (d *disk) unmount() error {
	mounted := true
	for end := time.Now().Add(releaseLimit); ; time.Sleep(5 * time.Millisecond) {
		if mounted {
			err := unix.Unmount(d.at, 0)
			if err != nil && !errors.Is(err, unix.EBUSY) {
				return fmt.Errorf("unmount %s: %w", d.at, err)
			}
			mounted = err != nil
		}
		if !mounted {
			// mount has the loop device detach itself when nothing uses it.
			out, err := exec.Command("losetup", "--noheadings", "--output", "NAME", "--associated", d.file).Output()
			if err != nil {
				return fmt.Errorf("list the loop devices of %s: %w", d.file, err)
			}
			if strings.TrimSpace(string(out)) == "" {
				return nil
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("the file system at %s is in use %s after its end", d.at, releaseLimit)
		}
	}
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s; run make deps, and give the tests loop devices", name, strings.Join(args, " "), err, out)
	}
	return err
}
