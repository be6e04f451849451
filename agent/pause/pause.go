// Package pause remembers which units stand still while somebody works on their data, so that they start again
// whatever becomes of whoever stopped them. A process that is killed between the stop and the start leaves a file that
// it had locked; Mend, which the unit of acting verbs runs after each of them, starts what such a file names. systemd may
// run it while processes of the unit that were killed still end, and one of them may have its file; the file says of
// which start of the unit it is, and Mend waits for that.
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
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/paths"
	"spore/storage/atomicfile"
)

const (
	// maxFile bounds a file in bytes.
	maxFile = 64 << 10
	// dies bounds the end of a process that was killed: it gives its memory back, on a processor that others want.
	dies = 30 * time.Second
	// looks is how often that is looked for.
	looks = 20 * time.Millisecond
)

// lockName is locked while files are made and looked at, so that none is seen before its process has locked it.
const lockName = ".lock"

// invocation is what systemd names a start of the unit whose processes have it in their environment (systemd.exec(5)).
const invocation = "INVOCATION_ID"

// content is what a file holds, as JSON.
type content struct {
	// Units start again in this order.
	Units []string `json:"units"`
	// Invocation is the start of the unit that the process belonged to; empty outside of units.
	Invocation string `json:"invocation,omitempty"`
}

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
	data, err := json.Marshal(content{Units: units, Invocation: os.Getenv(invocation)})
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

// Mend starts the units whose process is no more. A note stays where a unit could not be started. A unit that another
// process works on, which lives, is left to that: started now, it would run on data that changes under it. Processes of
// the same start of this process's unit were killed, and their end is waited for.
func Mend(ctx context.Context, root paths.Root, start func(ctx context.Context, unit string) error) error {
	waited := awaitEnd(ctx, root, os.Getenv(invocation))
	return errors.Join(waited, each(root, func(dead, living []note) error {
		held := map[string]bool{}
		for _, n := range living {
			for _, unit := range n.Units {
				held[unit] = true
			}
		}
		var errs []error
		for _, n := range dead {
			errs = append(errs, n.mend(ctx, held, start))
		}
		return errors.Join(errs...)
	}))
}

// awaitEnd waits until no process of a start of a unit holds a note. Other processes may make notes meanwhile.
func awaitEnd(ctx context.Context, root paths.Root, of string) error {
	if of == "" {
		return nil
	}
	for end := time.Now().Add(dies); ; {
		lives := false
		err := each(root, func(_, living []note) error {
			lives = slices.ContainsFunc(living, func(n note) bool { return n.Invocation == of })
			return nil
		})
		if err != nil || !lives {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("what the verb had stopped is not started: a process of it still works on that, %s after it was killed", dies)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(looks):
		}
	}
}

// Forget has Mend not start these units: whoever calls it is about to stop them on purpose, and they stay as they are
// then. Notes of processes that live are theirs.
func Forget(root paths.Root, units ...string) error {
	return each(root, func(dead, _ []note) error {
		for _, n := range dead {
			left := slices.DeleteFunc(slices.Clone(n.Units), func(unit string) bool { return slices.Contains(units, unit) })
			if len(left) == len(n.Units) {
				continue
			}
			if err := n.keep(left); err != nil {
				return fmt.Errorf("forget what was to start again: %w", err)
			}
		}
		return nil
	})
}

// note is a file with its path.
type note struct {
	path string
	content
}

// each has something done with the notes of processes that have ended, and of those that live. Nobody makes a note
// meanwhile.
func each(root paths.Root, do func(dead, living []note) error) error {
	if _, err := os.Lstat(root.At(paths.Paused)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	free, err := lock(root)
	if err != nil {
		return fmt.Errorf("look what is to start again: %w", err)
	}
	defer free()
	entries, err := os.ReadDir(root.At(paths.Paused))
	if err != nil {
		return fmt.Errorf("look what is to start again: %w", err)
	}
	var dead, living []note
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "units-") {
			continue
		}
		n := note{path: filepath.Join(root.At(paths.Paused), e.Name())}
		lives, err := n.read()
		switch {
		case errors.Is(err, fs.ErrNotExist): // It ended meanwhile.
		case err != nil:
			errs = append(errs, fmt.Errorf("look what is to start again: %w", err))
		case lives:
			living = append(living, n)
		default:
			dead = append(dead, n)
		}
	}
	return errors.Join(append(errs, do(dead, living))...)
}

// read reads the file; lives is true where the process that made it holds it.
func (n *note) read() (lives bool, err error) {
	f, err := os.OpenFile(n.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if lives = errors.Is(err, unix.EWOULDBLOCK); err != nil && !lives {
		return false, err
	}
	data, err := atomicfile.ReadLimited(n.path, maxFile)
	if err != nil {
		return lives, err
	}
	// A note that was cut off in the middle is one of units that were not stopped yet.
	if json.Unmarshal(data, &n.content) != nil {
		n.content = content{}
	}
	return lives, nil
}

// mend starts the units of a note that nobody works on.
func (n note) mend(ctx context.Context, held map[string]bool, start func(ctx context.Context, unit string) error) error {
	var errs []error
	for _, unit := range n.Units {
		if !held[unit] {
			errs = append(errs, start(ctx, unit))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("start what was stopped for a verb that was cut off: %w", err)
	}
	return os.Remove(n.path)
}

// keep has a note name these units; none removes it.
func (n note) keep(units []string) error {
	if len(units) == 0 {
		return os.Remove(n.path)
	}
	data, err := json.Marshal(content{Units: units, Invocation: n.Invocation})
	if err != nil {
		return err
	}
	_, err = atomicfile.Write(n.path, data, 0o600)
	return err
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
