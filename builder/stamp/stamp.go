// Package stamp tells whether files are still those that were seen before, without reading them: by their length, their
// inode and the times that the kernel keeps of them.
//
// It leaves out directories, and filesystems whose times have whole seconds only: a file there is always taken for another.
package stamp

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Tick is more than the kernel's clock for files advances by at once: 10 ms where CONFIG_HZ is 100. Two changes within one
// tick may leave the same times, so that a stamp that is younger proves nothing.
const Tick = 12 * time.Millisecond

// ErrNone is returned for a file that has no stamp.
var ErrNone = errors.New("the file has no stamp")

// Stamp is what a regular file's status says of its content. Any write changes Changed, and nobody can set that back.
type Stamp struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size"`
	Mode   uint32 `json:"mode"`
	// Modified and Changed are st_mtim and st_ctim, in nanoseconds since the epoch.
	Modified int64 `json:"modified"`
	Changed  int64 `json:"changed"`
}

// Of returns the stamp of a file; a symbolic link is followed. The error is ErrNone for what is no regular file and where
// the filesystem's times are too coarse.
func Of(name string) (Stamp, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return Stamp{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return of(name, &st)
}

func of(name string, st *unix.Stat_t) (Stamp, error) {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Stamp{}, fmt.Errorf("%s is not a regular file: %w", name, ErrNone)
	}
	if st.Ctim.Nsec == 0 && st.Mtim.Nsec == 0 {
		return Stamp{}, fmt.Errorf("%s has times of whole seconds: %w", name, ErrNone)
	}
	return Stamp{
		Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, Mode: st.Mode, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(),
	}, nil
}
