// Package files is the filesystem of a maintainer script: the tree in memory with the bounds and refusals that data
// from outside needs. Symbolic links lead no further than the root of the tree. Nothing of /proc and /sys exists, /dev
// has the few devices that a shell redirects to, and neither device nodes nor files below these three can be made.
package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"spore/builder/tree"
)

// Bounds of what all scripts of one replay may do.
const (
	// MaxMade is how many files they may make.
	MaxMade = 50_000
	// MaxWritten is how many bytes they may write.
	MaxWritten = 256 << 20
	// MaxRead is the size in bytes of the largest file that is read as a whole.
	MaxRead = 64 << 20
)

// maxPath is the length of a path in bytes.
const maxPath = 4095

// ErrBound is wrapped by errors that tell of a bound that was reached.
var ErrBound = errors.New("more than a maintainer script may do")

// ErrRefused is wrapped by errors that tell of a path that no script may write.
var ErrRefused = errors.New("not a place for a maintainer script")

// Files is a tree as scripts see it. The commands of a pipe may use it side by side.
type Files struct {
	tree *tree.Tree
	// Origin is what new files get as their origin, such as "script:nginx.postinst".
	Origin string
	// MTime is the time stamp of new and changed files, in seconds since the epoch.
	MTime int64

	mu      sync.Mutex // of the tree: the commands of a pipe run side by side
	made    int
	written int64
	changed map[string]bool
}

// New returns the filesystem of scripts on a tree.
func New(t *tree.Tree) *Files { return &Files{tree: t, changed: map[string]bool{}} }

func (f *Files) changedPaths() []string {
	var out []string
	for p := range f.changed {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// Tree is the tree below.
func (f *Files) Tree() *tree.Tree { return f.tree }

// Stat returns the inode at a path, behind its last symbolic link; fs.ErrNotExist when nothing is there.
func (f *Files) Stat(p string) (*tree.Inode, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stat(p)
}

// Lstat is Stat that does not follow a symbolic link at the end.
func (f *Files) Lstat(p string) (*tree.Inode, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lstat(p)
}

// Exists tells whether a path leads to something.
func (f *Files) Exists(p string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.exists(p)
}

// IsDir tells whether a path leads to a directory.
func (f *Files) IsDir(p string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isDir(p)
}

// Resolve follows all symbolic links of a path, its last one too.
func (f *Files) Resolve(p string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resolve(p)
}

// ReadDir returns the names in a directory, sorted.
func (f *Files) ReadDir(p string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readDir(p)
}

// Open opens a regular file for reading; /dev/null is empty.
func (f *Files) Open(p string) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open(p)
}

// ReadFile returns the data of a regular file.
func (f *Files) ReadFile(p string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readFile(p)
}

// WriteFile replaces the data of a regular file, which keeps its owner and mode, or makes one with this mode. A
// symbolic link at the end of the path is followed.
func (f *Files) WriteFile(p string, data []byte, mode uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeFile(p, data, mode)
}

// Mkdir makes one directory; fs.ErrExist when something is there.
func (f *Files) Mkdir(p string, mode uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mkdir(p, mode)
}

// MkdirAll makes a directory and its missing parents; a directory that is there stays as it is.
func (f *Files) MkdirAll(p string, mode uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mkdirAll(p, mode)
}

// Symlink makes a symbolic link at p; fs.ErrExist when something is there.
func (f *Files) Symlink(target, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.symlink(target, p)
}

// Link makes another name of a file; fs.ErrExist when something is there.
func (f *Files) Link(old, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.link(old, p)
}

// Copy makes a file of its own at p with what a regular file or symbolic link at old is: data, owner, mode and
// attributes. What is at p, if it is not a directory, is replaced.
func (f *Files) Copy(old *tree.Inode, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.copy(old, p)
}

// Remove takes away one path: a file, a link or an empty directory.
func (f *Files) Remove(p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remove(p)
}

// RemoveAll takes away a path and all below it; nothing there is no error.
func (f *Files) RemoveAll(p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.removeAll(p)
}

// Rename moves a path and all below it; a file or an empty directory at the new path is replaced.
func (f *Files) Rename(old, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rename(old, p)
}

// Change lets fn change owner, mode, time and attributes of the inode at a path, behind its last link if follow is set.
func (f *Files) Change(p string, follow bool, fn func(n *tree.Inode)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.change(p, follow, fn)
}

// Changed returns the paths that scripts made, changed or removed, sorted.
func (f *Files) Changed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changedPaths()
}

func (f *Files) stat(p string) (*tree.Inode, error) {
	if err := tooLong("stat", p); err != nil {
		return nil, err
	}
	if n := special(p); n != nil {
		return n, nil
	}
	if hidden(p) {
		return nil, &fs.PathError{Op: "stat", Path: p, Err: fs.ErrNotExist}
	}
	return f.tree.Stat(p)
}

func (f *Files) lstat(p string) (*tree.Inode, error) {
	if err := tooLong("lstat", p); err != nil {
		return nil, err
	}
	if n := special(p); n != nil {
		return n, nil
	}
	if hidden(p) {
		return nil, &fs.PathError{Op: "lstat", Path: p, Err: fs.ErrNotExist}
	}
	return f.tree.Lstat(p)
}

func (f *Files) exists(p string) bool {
	_, err := f.stat(p)
	return err == nil
}

func (f *Files) isDir(p string) bool {
	n, err := f.stat(p)
	return err == nil && n.Type == tree.Dir
}

func (f *Files) resolve(p string) (string, error) { return f.tree.Follow(p) }

func (f *Files) readDir(p string) ([]string, error) {
	n, err := f.stat(p)
	if err != nil {
		return nil, err
	}
	if n.Type != tree.Dir {
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: errors.New("not a directory")}
	}
	return f.tree.Children(p), nil
}

func (f *Files) open(p string) (io.ReadCloser, error) {
	if p == "/dev/null" {
		return io.NopCloser(strings.NewReader("")), nil
	}
	n, err := f.stat(p)
	if err != nil {
		return nil, err
	}
	if n.Type != tree.Regular {
		return nil, &fs.PathError{Op: "open", Path: p, Err: errors.New("not a regular file")}
	}
	return n.Content.Open()
}

func (f *Files) readFile(p string) ([]byte, error) {
	n, err := f.stat(p)
	if err == nil && n.Type == tree.Regular && n.Content.Size() > MaxRead {
		return nil, fmt.Errorf("%s has %d bytes: %w", p, n.Content.Size(), ErrBound)
	}
	r, err := f.open(p)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p, err)
	}
	return data, nil
}

func (f *Files) writeFile(p string, data []byte, mode uint32) error {
	if p == "/dev/null" || p == "/dev/stdout" || p == "/dev/stderr" {
		return nil
	}
	q, err := f.place(p, true)
	if err != nil {
		return err
	}
	if f.written += int64(len(data)); f.written > MaxWritten {
		return fmt.Errorf("write %s: over %d bytes in all: %w", p, MaxWritten, ErrBound)
	}
	n, err := f.tree.Lstat(q)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.add(q, &tree.Inode{Type: tree.Regular, Mode: mode, Content: tree.Bytes(bytes.Clone(data))})
	case err != nil:
		return err
	case n.Type != tree.Regular:
		return &fs.PathError{Op: "write", Path: p, Err: errors.New("not a regular file")}
	}
	n.Content, n.MTime = tree.Bytes(bytes.Clone(data)), f.MTime
	f.touch(q)
	return nil
}

// Create opens a file for writing; the data is there once it is closed. With appended the new data comes after the old.
func (f *Files) Create(p string, mode uint32, appended bool) (io.WriteCloser, error) {
	w := &writer{files: f, path: p, mode: mode}
	if p == "/dev/null" {
		return w, nil
	}
	if old, err := f.ReadFile(p); err == nil && appended {
		w.data.Write(old)
	} else if err := f.WriteFile(p, nil, mode); err != nil { // the file is there, and empty, from now on
		return nil, err
	}
	return w, nil
}

func (f *Files) mkdir(p string, mode uint32) error {
	q, err := f.place(p, false)
	if err != nil {
		return err
	}
	if f.tree.Exists(q) {
		return &fs.PathError{Op: "mkdir", Path: p, Err: fs.ErrExist}
	}
	return f.add(q, &tree.Inode{Type: tree.Dir, Mode: mode})
}

func (f *Files) mkdirAll(p string, mode uint32) error {
	p = path.Clean(p)
	if n, err := f.stat(p); err == nil {
		if n.Type != tree.Dir {
			return &fs.PathError{Op: "mkdir", Path: p, Err: errors.New("not a directory")}
		}
		return nil
	}
	if dir := path.Dir(p); dir != p {
		if err := f.mkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return f.mkdir(p, mode)
}

func (f *Files) symlink(target, p string) error {
	q, err := f.place(p, false)
	if err != nil {
		return err
	}
	if f.tree.Exists(q) {
		return &fs.PathError{Op: "symlink", Path: p, Err: fs.ErrExist}
	}
	if target == "" || len(target) > maxPath || strings.ContainsAny(target, "\x00\n") {
		return &fs.PathError{Op: "symlink", Path: p, Err: errors.New("not a target")}
	}
	return f.add(q, &tree.Inode{Type: tree.Symlink, Mode: 0o777, Target: target})
}

func (f *Files) link(old, p string) error {
	n, err := f.lstat(old)
	if err != nil {
		return err
	}
	if n.Type == tree.Dir {
		return &fs.PathError{Op: "link", Path: old, Err: errors.New("is a directory")}
	}
	q, err := f.place(p, false)
	if err != nil {
		return err
	}
	if f.tree.Exists(q) {
		return &fs.PathError{Op: "link", Path: p, Err: fs.ErrExist}
	}
	return f.addInode(q, n)
}

func (f *Files) copy(old *tree.Inode, p string) error {
	q, err := f.place(p, false)
	if err != nil {
		return err
	}
	if old.Type != tree.Regular && old.Type != tree.Symlink {
		return &fs.PathError{Op: "copy", Path: p, Err: errors.New("only regular files and symbolic links are copied")}
	}
	if n, err := f.tree.Lstat(q); err == nil && n.Type == tree.Dir {
		return &fs.PathError{Op: "copy", Path: p, Err: errors.New("is a directory")}
	}
	c := *old
	c.Origin = ""
	return f.add(q, &c)
}

func (f *Files) remove(p string) error {
	q, err := f.place(p, false)
	if err != nil {
		return err
	}
	n, err := f.tree.Lstat(q)
	if err != nil {
		return err
	}
	if n.Type == tree.Dir && len(f.tree.Children(q)) > 0 {
		return &fs.PathError{Op: "remove", Path: p, Err: errors.New("directory not empty")}
	}
	f.changed[q] = true
	return f.tree.Remove(q)
}

func (f *Files) removeAll(p string) error {
	q, err := f.place(p, false)
	if err != nil {
		return err
	}
	if !f.tree.Exists(q) {
		return nil
	}
	f.changed[q] = true
	return f.tree.Remove(q)
}

func (f *Files) rename(old, p string) error {
	from, err := f.place(old, false)
	if err != nil {
		return err
	}
	to, err := f.place(p, false)
	if err != nil {
		return err
	}
	n, err := f.tree.Lstat(from)
	if err != nil {
		return err
	}
	if from == to {
		return nil
	}
	if strings.HasPrefix(to, from+"/") {
		return &fs.PathError{Op: "rename", Path: old, Err: errors.New("the new path is below it")}
	}
	if have, err := f.tree.Lstat(to); err == nil {
		if (have.Type == tree.Dir) != (n.Type == tree.Dir) || len(f.tree.Children(to)) > 0 && have.Type == tree.Dir {
			return &fs.PathError{Op: "rename", Path: p, Err: fs.ErrExist}
		}
		if err := f.tree.Remove(to); err != nil {
			return err
		}
	}
	if err := f.move(from, to, n); err != nil {
		return err
	}
	f.changed[from] = true
	return f.tree.Remove(from)
}

func (f *Files) move(from, to string, n *tree.Inode) error {
	if err := f.addInode(to, n); err != nil {
		return err
	}
	if n.Type != tree.Dir {
		return nil
	}
	for _, name := range f.tree.Children(from) {
		child, err := f.tree.Lstat(path.Join(from, name))
		if err != nil {
			return err
		}
		if err := f.move(path.Join(from, name), path.Join(to, name), child); err != nil {
			return err
		}
	}
	return nil
}

func (f *Files) change(p string, follow bool, fn func(n *tree.Inode)) error {
	q, err := f.place(p, follow)
	if err != nil {
		return err
	}
	n, err := f.tree.Lstat(q)
	if err != nil {
		return err
	}
	fn(n)
	f.touch(q)
	return nil
}

func (f *Files) touch(p string) { f.changed[p] = true }

func (f *Files) add(p string, n *tree.Inode) error {
	if n.Origin == "" {
		n.Origin = f.Origin
	}
	if n.MTime == 0 {
		n.MTime = f.MTime
	}
	return f.addInode(p, n)
}

func (f *Files) addInode(p string, n *tree.Inode) error {
	if f.made++; f.made > MaxMade {
		return fmt.Errorf("make %s: over %d files in all: %w", p, MaxMade, ErrBound)
	}
	dir, err := f.tree.Stat(path.Dir(p))
	if err != nil {
		return &fs.PathError{Op: "make", Path: p, Err: fs.ErrNotExist}
	}
	if dir.Type != tree.Dir {
		return &fs.PathError{Op: "make", Path: p, Err: errors.New("its parent is not a directory")}
	}
	f.changed[p] = true
	return f.tree.Add(p, n)
}
