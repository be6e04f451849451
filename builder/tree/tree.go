// Package tree is a filesystem in memory: owners, modes, extended attributes, device nodes, symbolic and hard links. It
// needs no privilege on the build host, and a walk of it is always in the same order.
//
// Paths are absolute, clean and slash-separated ("/usr/bin/env"). A path whose parent is a symbolic link to a directory
// is resolved through it, as dpkg does with the merged /usr. It holds no file data itself: Content is opened when read.
package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
)

// Type is the type of an inode.
type Type uint8

// Inode types.
const (
	Dir Type = iota
	Regular
	Symlink
	CharDevice
	BlockDevice
	Fifo
)

// maxSymlinks bounds the links followed in one path, as the kernel does (path_resolution(7)).
const maxSymlinks = 40

// Content is the data of a regular file. It can be opened any number of times.
type Content interface {
	// Size is the length in bytes.
	Size() int64
	// Open returns the data from its beginning.
	Open() (io.ReadCloser, error)
}

// Xattr is one extended attribute, with its full name ("security.capability").
type Xattr struct {
	Name  string
	Value []byte
}

// Inode is one file. Two paths that hold the same *Inode are hard links.
type Inode struct {
	Type Type
	// Mode holds the permission bits, set-user-ID, set-group-ID and sticky: 07777.
	Mode     uint32
	UID, GID uint32
	// MTime is in seconds since the epoch.
	MTime int64
	// Xattrs is sorted by name.
	Xattrs []Xattr
	// Content is the data of a Regular inode.
	Content Content
	// Target is where a Symlink points.
	Target string
	// Major and Minor number a device.
	Major, Minor uint32
	// Origin says where the inode comes from: "deb:NAME_VERSION", "payload:NAME", "overlay:PATH", "unit:PATH",
	// "configuration:overlay/PATH", "configuration:units/PATH", "step:NAME".
	Origin string
}

// Bytes is Content held in memory.
type Bytes []byte

// Size implements Content.
func (b Bytes) Size() int64 { return int64(len(b)) }

// Open implements Content.
func (b Bytes) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }

// Tree is a filesystem. Its root directory always exists.
type Tree struct {
	nodes map[string]*Inode
	// names lists what is in each directory that holds something, so that no question about one directory walks them all.
	names map[string]map[string]bool
	// order has the paths as Paths returns them, and some that were removed since; added are those that it does not have.
	order, added []string
}

// New returns a tree with a root directory of mode 0755 owned by root.
func New() *Tree {
	return &Tree{nodes: map[string]*Inode{"/": {Type: Dir, Mode: 0o755}}, names: map[string]map[string]bool{}, order: []string{"/"}}
}

// put stores an inode at a resolved path whose parent exists.
func (t *Tree) put(p string, n *Inode) {
	old := t.nodes[p]
	t.nodes[p] = n
	if p == "/" || old != nil {
		return
	}
	t.added = append(t.added, p)
	dir := path.Dir(p)
	if t.names[dir] == nil {
		t.names[dir] = map[string]bool{}
	}
	t.names[dir][path.Base(p)] = true
}

// Resolve returns the path with every symbolic link in its parents followed; the last element is not followed. Parents
// that do not exist stay as they are.
func (t *Tree) Resolve(p string) (string, error) {
	return t.resolve(p, false)
}

// Follow is Resolve that also follows a symbolic link at the end of the path.
func (t *Tree) Follow(p string) (string, error) {
	return t.resolve(p, true)
}

func (t *Tree) resolve(p string, last bool) (string, error) {
	if t.resolved(p, last) {
		return p, nil
	}
	rest := strings.Split(strings.Trim(path.Clean("/"+p), "/"), "/")
	if rest[0] == "" {
		return "/", nil
	}
	cur := "/"
	for links := 0; len(rest) > 0; {
		next := path.Join(cur, rest[0])
		rest = rest[1:]
		n := t.nodes[next]
		if n == nil || n.Type != Symlink || (len(rest) == 0 && !last) {
			cur = next
			continue
		}
		if links++; links > maxSymlinks {
			return "", fmt.Errorf("%s: too many levels of symbolic links", p)
		}
		target := n.Target
		if !path.IsAbs(target) {
			target = path.Join(cur, target)
		}
		target = strings.Trim(path.Clean("/"+target), "/")
		cur = "/"
		if target != "" {
			rest = append(strings.Split(target, "/"), rest...)
		}
	}
	return cur, nil
}

// resolved reports whether a path is what resolve would make of it, as nearly all are: the parent of what the tree
// holds is a directory under its own path.
func (t *Tree) resolved(p string, last bool) bool {
	if last {
		if n := t.nodes[p]; n != nil {
			return n.Type != Symlink
		}
	}
	dir, name := path.Split(p)
	if dir == "" || name == "" || name == "." || name == ".." {
		return false
	}
	if dir != "/" {
		dir = dir[:len(dir)-1]
	}
	n := t.nodes[dir]
	if n == nil || n.Type != Dir {
		return false
	}
	n = t.nodes[p]
	return n == nil || n.Type != Symlink || !last
}

// Add puts an inode at a path and makes missing parents (0755, root). A directory onto a directory takes the new owner
// and mode; anything else replaces what is there. A directory never replaces a symbolic link to a directory, and a
// directory with content is never replaced by a file: that is an error.
func (t *Tree) Add(p string, n *Inode) error {
	p, err := t.Resolve(p)
	if err != nil {
		return err
	}
	if p == "/" && n.Type != Dir {
		return errors.New("/ is a directory")
	}
	if old := t.nodes[p]; old != nil {
		if n.Type == Dir && old.Type == Symlink {
			dst, err := t.Follow(p)
			if err != nil {
				return err
			}
			if d := t.nodes[dst]; d == nil || d.Type == Dir {
				return t.Mkdir(dst, 0o755)
			}
		}
		if old.Type == Dir && n.Type != Dir && t.hasChildren(p) {
			return fmt.Errorf("%s: is a directory with content, cannot become another type of file", p)
		}
	}
	if err := t.parents(p); err != nil {
		return err
	}
	t.put(p, n)
	return nil
}

func (t *Tree) parents(p string) error {
	top := path.Dir(p)
	for t.nodes[top] == nil {
		top = path.Dir(top)
	}
	if t.nodes[top].Type != Dir {
		return fmt.Errorf("%s: %s is not a directory", p, top) // and nothing was made below it
	}
	for d := path.Dir(p); d != top; d = path.Dir(d) {
		t.put(d, &Inode{Type: Dir, Mode: 0o755})
	}
	return nil
}

func (t *Tree) hasChildren(p string) bool {
	return len(t.names[p]) > 0
}

// Mkdir makes a directory and its parents unless it is there already.
func (t *Tree) Mkdir(p string, mode uint32) error {
	p, err := t.Follow(p)
	if err != nil {
		return err
	}
	if n := t.nodes[p]; n != nil {
		if n.Type != Dir {
			return fmt.Errorf("%s: not a directory", p)
		}
		return nil
	}
	return t.Add(p, &Inode{Type: Dir, Mode: mode})
}

// WriteFile puts a regular file, owned by root, with data held in memory.
func (t *Tree) WriteFile(p string, data []byte, mode uint32, origin string) error {
	return t.Add(p, &Inode{Type: Regular, Mode: mode, Content: Bytes(data), Origin: origin})
}

// Symlink puts a symbolic link at p.
func (t *Tree) Symlink(target, p, origin string) error {
	return t.Add(p, &Inode{Type: Symlink, Mode: 0o777, Target: target, Origin: origin})
}

// Link makes p another name of the regular file at old.
func (t *Tree) Link(old, p string) error {
	n, err := t.Stat(old)
	if err != nil {
		return err
	}
	if n.Type == Dir {
		return fmt.Errorf("%s: a directory cannot have a second name", old)
	}
	return t.Add(p, n)
}

// Lstat returns the inode at a path; a symbolic link at its end is not followed. The error is fs.ErrNotExist when
// nothing is there.
func (t *Tree) Lstat(p string) (*Inode, error) {
	q, err := t.Resolve(p)
	if err != nil {
		return nil, err
	}
	n := t.nodes[q]
	if n == nil {
		return nil, &fs.PathError{Op: "lstat", Path: p, Err: fs.ErrNotExist}
	}
	return n, nil
}

// Stat is Lstat that follows symbolic links.
func (t *Tree) Stat(p string) (*Inode, error) {
	q, err := t.Follow(p)
	if err != nil {
		return nil, err
	}
	n := t.nodes[q]
	if n == nil {
		return nil, &fs.PathError{Op: "stat", Path: p, Err: fs.ErrNotExist}
	}
	return n, nil
}

// Exists reports whether anything is at the path, a dangling link included.
func (t *Tree) Exists(p string) bool {
	_, err := t.Lstat(p)
	return err == nil
}

// Open opens the data of a regular file; symbolic links are followed.
func (t *Tree) Open(p string) (io.ReadCloser, error) {
	n, err := t.Stat(p)
	if err != nil {
		return nil, err
	}
	if n.Type != Regular {
		return nil, fmt.Errorf("%s: not a regular file", p)
	}
	r, err := n.Content.Open()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", p, err)
	}
	return r, nil
}

// ReadFile returns the data of a regular file; symbolic links are followed.
func (t *Tree) ReadFile(p string) ([]byte, error) {
	r, err := t.Open(p)
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

// Remove takes away a path and all that is below it; nothing there is no error.
func (t *Tree) Remove(p string) error {
	q, err := t.Resolve(p)
	if err != nil {
		return err
	}
	if q == "/" {
		return errors.New("the root directory cannot be removed")
	}
	t.removeBelow(q)
	delete(t.names[path.Dir(q)], path.Base(q))
	return nil
}

func (t *Tree) removeBelow(p string) {
	for name := range t.names[p] {
		t.removeBelow(path.Join(p, name))
	}
	delete(t.names, p)
	delete(t.nodes, p)
}

// Paths returns every path, sorted element by element, so that a directory comes before its content.
func (t *Tree) Paths() []string {
	sort.Slice(t.added, func(i, j int) bool { return less(t.added[i], t.added[j]) })
	out := make([]string, 0, len(t.nodes))
	for a, b := t.order, t.added; len(a)+len(b) > 0; {
		var p string
		if len(b) == 0 || len(a) > 0 && less(a[0], b[0]) {
			p, a = a[0], a[1:]
		} else {
			p, b = b[0], b[1:]
		}
		// What was removed and added again is there twice.
		if t.nodes[p] != nil && (len(out) == 0 || out[len(out)-1] != p) {
			out = append(out, p)
		}
	}
	t.order, t.added = slices.Clone(out), nil
	return out
}

// Glob returns the paths that match a pattern of path.Match, in the order of Paths.
func (t *Tree) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	found := []string{"/"}
	for _, element := range strings.Split(strings.Trim(pattern, "/"), "/") {
		var next []string
		for _, dir := range found {
			if n := t.nodes[dir]; n == nil || n.Type != Dir {
				continue
			}
			for name := range t.names[dir] {
				if ok, err := path.Match(element, name); err != nil {
					return nil, fmt.Errorf("%q: %w", pattern, err)
				} else if ok {
					next = append(next, path.Join(dir, name))
				}
			}
		}
		found = next
	}
	sort.Slice(found, func(i, j int) bool { return less(found[i], found[j]) })
	return found, nil
}

// less orders paths as a walk does: "/a" < "/a/b" < "/a-b".
func less(a, b string) bool {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == b[i] {
			continue
		}
		if a[i] == '/' {
			return true
		}
		if b[i] == '/' {
			return false
		}
		return a[i] < b[i]
	}
	return len(a) < len(b)
}

// Walk calls fn for every path in the order of Paths and stops at the first error.
func (t *Tree) Walk(fn func(p string, n *Inode) error) error {
	for _, p := range t.Paths() {
		n := t.nodes[p]
		if n == nil {
			continue // removed by fn
		}
		if err := fn(p, n); err != nil {
			return err
		}
	}
	return nil
}

// Children returns the names in a directory, sorted; none when it does not exist.
func (t *Tree) Children(dir string) []string {
	d, err := t.Follow(dir)
	if err != nil {
		return nil
	}
	var out []string
	for name := range t.names[d] {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
