package rotated

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxNames bounds how many names of a folder are looked at.
const maxNames = 4096

// Tree is a folder whose files are read. Nothing in it leads out of it: symbolic links are refused, and what is no
// file.
type Tree struct{ dir *os.File }

// OpenTree opens a folder; the error is fs.ErrNotExist where it is not there.
func OpenTree(dir string) (*Tree, error) {
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the folder of logs: %w", err)
	}
	return &Tree{dir: f}, nil
}

// Close closes the folder; files of it stay open.
func (t *Tree) Close() error { return t.dir.Close() }

// open opens what is below the folder, one folder after the other, without following links. It does so by openat(2):
// a unit with RestrictSUIDSGID= has no openat2(2), since no filter can look at its arguments.
func (t *Tree) open(name string, flags int) (*os.File, error) {
	const each = unix.O_NOFOLLOW | unix.O_CLOEXEC
	at := int(t.dir.Fd())
	for {
		first, rest, more := strings.Cut(name, "/")
		if first == "" || first == ".." {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
		}
		wants := unix.O_PATH | unix.O_DIRECTORY
		if !more {
			wants = unix.O_RDONLY | unix.O_NONBLOCK | flags
		}
		fd, err := unix.Openat(at, first, wants|each, 0)
		if at != int(t.dir.Fd()) {
			_ = unix.Close(at)
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: first, Err: err}
		}
		if !more {
			return os.NewFile(uintptr(fd), name), nil
		}
		at, name = fd, rest
	}
}

// Open opens a file; a pipe, a socket or a device is an error.
func (t *Tree) Open(name string) (*os.File, error) {
	f, err := t.open(name, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is not a file")}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Folders are the names of the folders in a folder, in no order.
func (t *Tree) Folders(name string) ([]string, error) {
	var out []string
	err := t.each(name, func(entry string, st *unix.Stat_t) {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			out = append(out, entry)
		}
	})
	return out, err
}

// Files are the files in a folder that pick takes, in no order.
func (t *Tree) Files(name string, pick func(string) bool) ([]File, error) {
	var out []File
	err := t.each(name, func(entry string, st *unix.Stat_t) {
		if st.Mode&unix.S_IFMT == unix.S_IFREG && pick(entry) {
			path := entry
			if name != "." {
				path = name + "/" + entry
			}
			out = append(out, File{Path: path, Name: entry, Inode: st.Ino, Size: st.Size, Changed: time.Unix(st.Mtim.Unix())})
		}
	})
	return out, err
}

// maxLooks is how often a folder is looked at that changes meanwhile.
const maxLooks = 5

// each looks at what is in a folder, without following links. A file that gets another name meanwhile would be missed,
// or found twice: the folder is looked at again then.
func (t *Tree) each(name string, found func(string, *unix.Stat_t)) error {
	type entry struct {
		name string
		st   unix.Stat_t
	}
	var entries []entry
	for range maxLooks {
		dir, err := t.open(name, unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		var before, after unix.Stat_t
		_ = unix.Fstat(int(dir.Fd()), &before)
		names, err := dir.Readdirnames(maxNames)
		if err != nil && !errors.Is(err, io.EOF) {
			_ = dir.Close()
			return err
		}
		entries = entries[:0]
		whole := true
		for _, n := range names {
			e := entry{name: n}
			if err := unix.Fstatat(int(dir.Fd()), n, &e.st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				whole = false
				continue
			}
			entries = append(entries, e)
		}
		_ = unix.Fstat(int(dir.Fd()), &after)
		_ = dir.Close()
		if whole && before.Mtim == after.Mtim {
			break
		}
	}
	for _, e := range entries {
		found(e.name, &e.st)
	}
	return nil
}

// Changed is when a name in a folder was last made, changed or removed. A folder that was removed is an error.
func (t *Tree) Changed(name string) (time.Time, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(t.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return time.Time{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Nlink == 0 {
		return time.Time{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return time.Unix(st.Mtim.Unix()), nil
}
