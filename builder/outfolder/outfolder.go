// Package outfolder guards a folder that images are written to: one writer at a time, and nothing half-written left of writers
// that were killed.
package outfolder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// pause is how long a writer waits before it looks again whether the folder is free.
const pause = 100 * time.Millisecond

// unfinished are the names that files and folders have until they are whole: a dot, the final name, and the number of
// os.CreateTemp or os.MkdirTemp; ".old" is a folder on its way out.
var unfinished = regexp.MustCompile(`^\.(.+)[.-][0-9]+(\.old)?$`)

// Take makes a folder where needed, waits until no other process has taken it, and removes what earlier writers of the named files
// left unfinished. waiting is called once when there is somebody to wait for. The folder is free again after release, or when
// the process ends. Where the filesystem knows no locks, locked is false, and nobody waits.
func Take(ctx context.Context, dir string, names []string, waiting func()) (release func(), locked bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, false, fmt.Errorf("make the output folder: %w", err)
	}
	// The folder itself is locked (flock(2)): a file for it would lie among the images.
	f, err := os.Open(dir)
	if err != nil {
		return nil, false, fmt.Errorf("open the output folder: %w", err)
	}
	if locked, err = wait(ctx, f, waiting); err != nil {
		f.Close()
		return nil, false, fmt.Errorf("wait for the output folder %s: %w", dir, err)
	}
	if !locked {
		return func() { f.Close() }, false, nil
	}
	if err := clean(dir, names); err != nil {
		f.Close()
		return nil, false, fmt.Errorf("remove the remains of an earlier build from the output folder: %w", err)
	}
	return func() { f.Close() }, true, nil
}

// wait reports whether the folder could be locked: NFS, for one, has no locks of folders.
func wait(ctx context.Context, f *os.File, waiting func()) (bool, error) {
	for first := true; ; first = false {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func clean(dir string, names []string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, n := range names {
		known[n] = true
	}
	for _, e := range list {
		m := unfinished.FindStringSubmatch(e.Name())
		if m == nil || !known[m[1]] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
