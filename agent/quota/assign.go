package quota

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bounds of a walk through what was in a directory before it had its number.
const (
	maxEntries = 1_000_000
	maxDepth   = 200
	batch      = 1000
)

// errBound ends a walk.
var errBound = fmt.Errorf("more than %d files, or more than %d directories below each other: what is behind them "+
	"does not count", maxEntries, maxDepth)

// Assign gives a directory and all that is in it the number of a project; what is made there later has it, too. Without
// a change it costs one question. The directory comes last: where power is cut, the next call begins again.
//
// Its owner may write there meanwhile: links are not followed, and what is on another file system is left alone.
func Assign(dir *os.File, project uint32) error {
	has, err := attributes(dir)
	if err != nil {
		return err
	}
	if has.project == project && has.flags&inherit != 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	w := walk{project: project, device: st.Dev}
	bound := w.below(dir, 0)
	if bound != nil && !errors.Is(bound, errBound) {
		return bound
	}
	return errors.Join(bound, w.set(dir, true))
}

type walk struct {
	project uint32
	device  uint64
	entries int
}

// below goes through what is in a directory. What is taken away meanwhile is not there any more.
func (w *walk) below(dir *os.File, depth int) error {
	for {
		entries, err := dir.ReadDir(batch)
		for _, e := range entries {
			if w.entries++; w.entries > maxEntries || depth >= maxDepth {
				return errBound
			}
			if err := w.entry(dir, e, depth); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s: %w", e.Name(), err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// entry gives a file or directory the number. Links, sockets and devices have no blocks of their own.
func (w *walk) entry(in *os.File, e fs.DirEntry, depth int) error {
	if !e.IsDir() && !e.Type().IsRegular() {
		return nil
	}
	fd, err := unix.Openat(int(in.Fd()), e.Name(), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) { // It has become a link or a socket.
		return nil
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), e.Name())
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if st.Dev != w.device || kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return nil
	}
	if kind == unix.S_IFREG {
		return w.set(f, false)
	}
	// Before what is in it, so that what is made there meanwhile counts.
	return errors.Join(w.set(f, true), w.below(f, depth+1))
}

// set gives one file or directory the number.
func (w *walk) set(f *os.File, isDir bool) error {
	a, err := attributes(f)
	if err != nil {
		return err
	}
	want := a
	want.project = w.project
	if isDir {
		want.flags |= inherit
	}
	if want == a {
		return nil
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), setAttributes, uintptr(unsafe.Pointer(&want))); errno != 0 {
		return errno
	}
	return nil
}

// fsxattr is struct fsxattr (include/uapi/linux/fs.h).
type fsxattr struct {
	flags, extentSize, extents, project, cowExtentSize uint32
	_                                                  [8]byte
}

const (
	getAttributes = 0x801c581f // FS_IOC_FSGETXATTR, _IOR('X', 31, struct fsxattr)
	setAttributes = 0x401c5820 // FS_IOC_FSSETXATTR, _IOW('X', 32, struct fsxattr)
	inherit       = 0x200      // FS_XFLAG_PROJINHERIT
)

func attributes(f *os.File) (fsxattr, error) {
	var a fsxattr
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), getAttributes, uintptr(unsafe.Pointer(&a))); errno != 0 {
		return a, errno
	}
	return a, nil
}
