// Package share gives the group of a program the right to read logs that are root's: it is all that the program needs,
// so that it has no capability. It runs as root, before the program starts.
//
// Folders get the set-group-ID bit. What is made in them later has their group then (inode(7)), whoever makes it, and
// those who write these logs let the group read: kubelet and containerd make folders with 0755 and files with 0640.
package share

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Bounds of what is looked at.
const (
	maxDepth = 4
	maxNames = 100_000
)

// Folder makes a folder, if it is not there, that a group may read with everything in it. Symbolic links are not
// followed, and files that have several names are left alone.
func Folder(path string, gid int) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("make the folder of logs: %w", err)
	}
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	w := walk{gid: gid, left: maxNames}
	return w.folder(os.NewFile(uintptr(dir), path), 0)
}

type walk struct{ gid, left int }

// folder shares a folder that is open, and closes it.
func (w *walk) folder(dir *os.File, depth int) error {
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return fmt.Errorf("share %s: %w", dir.Name(), err)
	}
	// The owner of a file is kept, and so is what others may.
	if err := w.give(dir, &st, unix.S_ISGID|0o050); err != nil {
		return err
	}
	names, err := dir.Readdirnames(w.left)
	if err != nil && len(names) == 0 {
		return nil // It is empty.
	}
	w.left -= len(names)
	if w.left <= 0 {
		return fmt.Errorf("share %s: there are more than %d files", dir.Name(), maxNames)
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, w.entry(dir, name, depth))
	}
	return errors.Join(errs...)
}

func (w *walk) entry(dir *os.File, name string, depth int) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // A link, a socket, or it went meanwhile.
	}
	f := os.NewFile(uintptr(fd), dir.Name()+"/"+name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = f.Close()
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if depth < maxDepth {
			return w.folder(f, depth+1)
		}
	case unix.S_IFREG:
		defer f.Close()
		if st.Nlink == 1 {
			return w.give(f, &st, 0o040)
		}
		return nil
	}
	return f.Close()
}

// give gives the group what bits say, and nobody else anything.
func (w *walk) give(f *os.File, st *unix.Stat_t, bits uint32) error {
	if int(st.Gid) != w.gid {
		if err := f.Chown(-1, w.gid); err != nil {
			return fmt.Errorf("share: %w", err)
		}
	}
	mode := st.Mode & 0o7777
	if mode|bits == mode {
		return nil
	}
	if err := unix.Fchmod(int(f.Fd()), mode|bits); err != nil {
		return &fs.PathError{Op: "chmod", Path: f.Name(), Err: err}
	}
	return nil
}

// File makes a file of an account, if it is not there, that its group may read; the folder, too. Who turns such a file
// over keeps its mode (gopkg.in/natefinch/lumberjack.v2 of kube-apiserver's audit log). The folder is the account's: a
// link in the place of the file is refused.
func File(folder, name string, uid, gid int) error {
	if err := os.Mkdir(folder, 0o750); err == nil {
		if err := os.Chown(folder, uid, gid); err != nil {
			return fmt.Errorf("share: %w", err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("share: %w", err)
	}
	dir, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: folder, Err: err}
	}
	defer unix.Close(dir)
	at := folder + "/" + name
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return &fs.PathError{Op: "open", Path: at, Err: err}
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: at, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return &fs.PathError{Op: "share", Path: at, Err: errors.New("it is not a file of one name")}
	}
	if int(st.Uid) != uid || int(st.Gid) != gid {
		if err := f.Chown(uid, gid); err != nil {
			return fmt.Errorf("share: %w", err)
		}
	}
	if err := unix.Fchmod(fd, 0o640); err != nil {
		return &fs.PathError{Op: "chmod", Path: at, Err: err}
	}
	if err := unix.Fchmod(dir, 0o750); err != nil {
		return &fs.PathError{Op: "chmod", Path: folder, Err: err}
	}
	return nil
}
