// Package pause remembers which units stand still while somebody works on their data, so that they start again
// whatever becomes of whoever stopped them. A process that is killed between the stop and the start leaves a file that
// it had locked; Mend, which the unit of acting verbs runs after each of them, starts what such a file names.
//
// The files are in /run: after a restart of the machine all units start anyway. This package stops nothing.
package pause

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"spore/agent/paths"
	"spore/storage/atomicfile"
)

// maxFile bounds a file in bytes.
const maxFile = 64 << 10

// lockName is locked while files are made and looked at, so that none is seen before its process has locked it.
const lockName = ".lock"

// Units notes units that are about to be stopped, in the order in which they start again. end is called by whoever has
// started them again, or wants them to stay as they are: the note is gone then.
func Units(root paths.Root, units ...string) (end func(), err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("note what is to start again: %w", err)
		}
	}()
	free, err := lock(root)
	if err != nil {
		return nil, err
	}
	defer free()
	data, err := json.Marshal(units)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(root.At(paths.Paused), "units-*")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)); err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()), f.Close())
	}
	return func() {
		_ = os.Remove(f.Name()) // What stays is mended: the units are started once more, which does nothing.
		_ = f.Close()
	}, nil
}

// Mend starts the units whose process is no more. A note stays where a unit could not be started.
func Mend(ctx context.Context, root paths.Root, start func(ctx context.Context, unit string) error) error {
	if _, err := os.Lstat(root.At(paths.Paused)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	free, err := lock(root)
	if err != nil {
		return err
	}
	defer free()
	entries, err := os.ReadDir(root.At(paths.Paused))
	if err != nil {
		return fmt.Errorf("look what is to start again: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "units-") {
			errs = append(errs, mend(ctx, filepath.Join(root.At(paths.Paused), e.Name()), start))
		}
	}
	return errors.Join(errs...)
}

// mend starts the units of one note, if nobody holds it.
func mend(ctx context.Context, path string, start func(ctx context.Context, unit string) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // It ended meanwhile.
	}
	if err != nil {
		return fmt.Errorf("look what is to start again: %w", err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look what is to start again: %w", err)
	}
	data, err := atomicfile.ReadLimited(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look what is to start again: %w", err)
	}
	var units []string
	// A note that was cut off in the middle is one of units that were not stopped yet.
	if json.Unmarshal(data, &units) != nil {
		return os.Remove(path)
	}
	var errs []error
	for _, unit := range units {
		errs = append(errs, start(ctx, unit))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("start what was stopped for a verb that was cut off: %w", err)
	}
	return os.Remove(path)
}

// lock waits until nobody else makes or mends notes.
func lock(root paths.Root) (free func(), err error) {
	dir := root.At(paths.Paused)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}
