// Package regular opens what people lay into a folder: regular files, and symbolic links to them. A FIFO that nobody
// writes to blocks whoever opens it, a device may never end or do something when it is opened, and a socket cannot be
// opened at all; each of them is an error that says what it is.
package regular

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// KindError says what something is that is not a regular file.
type KindError string

func (e KindError) Error() string { return string(e) }

// kinds are all that Linux has, the more special one first.
var kinds = []struct {
	mode fs.FileMode
	err  KindError
}{
	{fs.ModeDir, "it is a directory"},
	{fs.ModeNamedPipe, "it is a FIFO"},
	{fs.ModeSocket, "it is a socket"},
	{fs.ModeCharDevice, "it is a character device"},
	{fs.ModeDevice, "it is a block device"},
}

// Check is nil for a regular file, else a KindError.
func Check(info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	for _, k := range kinds {
		if info.Mode()&k.mode != 0 {
			return k.err
		}
	}
	return KindError("it is not a regular file")
}

// Open opens a regular file for reading.
func Open(name string) (*os.File, error) { return open(name, Check) }

// open opens what check lets pass. It looks before it opens, since opening alone can have an effect, and again at
// what it has opened, which may be something else by then: O_NONBLOCK opens a FIFO at once, and means nothing for a
// regular file (open(2)).
func open(name string, check func(fs.FileInfo) error) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := check(info); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		if err = check(info); err == nil {
			return f, nil
		}
		err = &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f.Close()
	return nil, err
}

// Folder is os.DirFS of directories and regular files.
func Folder(dir string) fs.FS { return folder{os.DirFS(dir), dir} }

type folder struct {
	all fs.FS
	dir string
}

// Open opens a regular file or a directory.
func (f folder) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	file, err := open(filepath.Join(f.dir, filepath.FromSlash(name)), func(info fs.FileInfo) error {
		if info.IsDir() {
			return nil
		}
		return Check(info)
	})
	if err != nil { // A nil *os.File in an fs.File would not be nil.
		return nil, err
	}
	return file, nil
}

// ReadDir lists a directory, with everything that is there. It opens nothing that is none (O_DIRECTORY).
func (f folder) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.all, name) }

// Stat says what a name leads to.
func (f folder) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.all, name) }

// Lstat says what a name is, without following a symbolic link at its end.
func (f folder) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.all, name) }

// ReadLink says where a symbolic link leads.
func (f folder) ReadLink(name string) (string, error) { return fs.ReadLink(f.all, name) }
