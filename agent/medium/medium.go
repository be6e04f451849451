// Package medium removes the bundle from the medium that the machine was booted from, once a sealed copy is kept.
//
// The file's bytes are overwritten where they lie and the file is deleted. Its first sector goes first, in one write: a file
// that begins with Mark is one whose removal was cut off, and is removed without being looked at any further. Flash may keep
// old copies of a sector where nothing but a reader of its chips finds them.
package medium

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spore/storage/espfiles"
)

// Path is the bundle on the ESP.
const Path = espfiles.Bundle

// Mark begins a file whose removal has begun.
const Mark = "spore-erased\n"

// sector is what a disk writes whole or not at all.
const sector = 512

// maxFile bounds the file.
const maxFile = 1 << 20

// ErrOther is a file that is not the one that is to be removed.
var ErrOther = errors.New("it holds another bundle by now")

// ESP is the EFI system partition of the boot medium.
type ESP struct {
	// Device is its device node.
	Device string
	// Dir is the mount point; it is made.
	Dir string
	// Mount mounts the device on the directory; usually Mount.
	Mount func(device, dir string) error
	// Unmount ends that; usually Unmount.
	Unmount func(dir string) error
	// Step, when not nil, is asked before each step; its error ends the removal, as a power cut would.
	Step func(name string) error
}

// Erased tells whether data is what a removal that was cut off left.
func Erased(data []byte) bool { return bytes.HasPrefix(data, []byte(Mark)) }

// Remove removes the bundle when it is what same says it must be, or half removed already. No file is no error.
func (e ESP) Remove(same func(content []byte) bool) (err error) {
	return e.With(func(dir string) error { return e.erase(filepath.Join(dir, Path), same) })
}

// With mounts the boot medium for as long as fn runs.
func (e ESP) With(fn func(dir string) error) (err error) {
	if err := os.MkdirAll(e.Dir, 0o700); err != nil {
		return fmt.Errorf("mount the boot medium: %w", err)
	}
	if err := e.Mount(e.Device, e.Dir); err != nil {
		return fmt.Errorf("mount the boot medium: %w", err)
	}
	defer func() { err = errors.Join(err, e.Unmount(e.Dir)) }()
	return fn(e.Dir)
}

func (e ESP) step(name string) error {
	if e.Step == nil {
		return nil
	}
	return e.Step(name)
}

func (e ESP) erase(path string, same func([]byte) bool) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	if len(content) > maxFile || !Erased(content) && !same(content) {
		return ErrOther
	}
	blank := make([]byte, len(content))
	copy(blank, Mark)
	head := min(len(blank), sector)
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"mark", func() error { _, err := f.WriteAt(blank[:head], 0); return err }},
		{"sync the mark", f.Sync},
		{"blank", func() error { _, err := f.WriteAt(blank[head:], int64(head)); return err }},
		{"sync the blank", f.Sync},
		{"delete", func() error { return os.Remove(path) }},
		{"sync the directory", func() error { return syncDir(filepath.Dir(path)) }},
	} {
		if err := e.step(s.name); err != nil {
			return err
		}
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return err
	}
	return unix.Syncfs(int(d.Fd())) // The allocation table, too.
}

// Mount mounts an ESP for writing.
func Mount(device, dir string) error {
	err := unix.Mount(device, dir, "vfat", unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC, "umask=0077")
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
		return errors.New("it is read-only")
	}
	return err
}

// Unmount ends Mount; the file system is clean then.
func Unmount(dir string) error {
	if err := unix.Unmount(dir, 0); err != nil {
		return fmt.Errorf("unmount the boot medium: %w", err)
	}
	return nil
}
