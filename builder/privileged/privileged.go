// Package privileged lists the files of a root that give rights of somebody else to whoever starts them: programs with
// set-user-ID, set-group-ID (chmod(2)) or capabilities (capabilities(7)).
//
// Directories are not among them: their set-group-ID only names the group of new files (inode(7)).
package privileged

import (
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"

	"spore/builder/tree"
	"spore/cluster/filecap"
)

// File is one such file.
type File struct {
	Path string `json:"path"`
	// Owner and Group are names, or numbers where the root has no name for them.
	Owner string `json:"owner"`
	Group string `json:"group"`
	// Mode is four octal digits.
	Mode string `json:"mode"`
	// Capabilities are in the words of setcap(8); empty for none.
	Capabilities string `json:"capabilities,omitempty"`
	// Package is the Debian package that the file is of, or whose script made it; for a file of another kind, its origin.
	Package string `json:"package"`
}

// String says what the file gives: mode, owner, group and capabilities.
func (f File) String() string {
	text := fmt.Sprintf("%s %s:%s", f.Mode, f.Owner, f.Group)
	if f.Capabilities != "" {
		text += " " + f.Capabilities
	}
	return text
}

// SetID reports whether the mode of the file has set-user-ID or set-group-ID.
func (f File) SetID() bool { return len(f.Mode) == 4 && strings.ContainsAny(f.Mode[:1], "234567") }

// SetID are the bits of set-user-ID and set-group-ID in a mode (inode(7)).
const SetID = 0o6000

// Is reports whether an inode is such a file.
func Is(n *tree.Inode) bool {
	if n.Type != tree.Regular {
		return false
	}
	return n.Mode&SetID != 0 || capable(n)
}

// capable reports whether capabilities are more than none: setcap(8) leaves an attribute with an empty set where it
// takes the last away. One of an unknown form may be anything.
func capable(n *tree.Inode) bool {
	value, ok := capabilities(n)
	if !ok {
		return false
	}
	set, err := filecap.ParseValue(value)
	return err != nil || set.Permitted|set.Inheritable != 0
}

func capabilities(n *tree.Inode) (value []byte, ok bool) {
	for _, x := range n.Xattrs {
		if x.Name == filecap.Attribute {
			return x.Value, true
		}
	}
	return nil, false
}

// Accounts are the names of users and groups by their numbers.
type Accounts struct{ users, groups map[uint32]string }

// NewAccounts reads /etc/passwd and /etc/group of a root (passwd(5), group(5)). Lines of another form are passed over,
// and of two names for a number the first is taken, as getpwuid(3) does.
func NewAccounts(passwd, group []byte) Accounts { return Accounts{numbers(passwd), numbers(group)} }

// numbers reads the first and the third field of each line.
func numbers(text []byte) map[uint32]string {
	out := map[uint32]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) < 3 || f[0] == "" {
			continue
		}
		id, err := strconv.ParseUint(f[2], 10, 32)
		if _, there := out[uint32(id)]; err == nil && !there {
			out[uint32(id)] = f[0]
		}
	}
	return out
}

func name(names map[uint32]string, id uint32) string {
	if n := names[id]; n != "" {
		return n
	}
	return strconv.FormatUint(uint64(id), 10)
}

// describe describes the inode at a path. Capabilities of a form that is not known are an error.
func (a Accounts) describe(path string, n *tree.Inode) (File, error) {
	f := File{
		Path: path, Owner: name(a.users, n.UID), Group: name(a.groups, n.GID), Mode: fmt.Sprintf("%04o", n.Mode),
		Package: Package(n.Origin),
	}
	if value, ok := capabilities(n); ok {
		set, err := filecap.ParseValue(value)
		if err != nil {
			return f, fmt.Errorf("%s: %w", path, err)
		}
		f.Capabilities = set.String()
	}
	return f, nil
}

// Package names the Debian package that an origin is of (tree.Inode.Origin): "deb:NAME_VERSION", or
// "script:NAME.SCRIPT" of a file that a script made. Another origin stays as it is.
func Package(origin string) string {
	if rest, ok := strings.CutPrefix(origin, "deb:"); ok {
		name, _, _ := strings.Cut(rest, "_")
		return name
	}
	if rest, ok := strings.CutPrefix(origin, "script:"); ok {
		return rest[:max(strings.LastIndex(rest, "."), 0)]
	}
	return origin
}

// List lists those of files by their paths, in the same order.
func (a Accounts) List(files iter.Seq2[string, *tree.Inode]) ([]File, error) {
	var out []File
	for path, n := range files {
		if !Is(n) {
			continue
		}
		f, err := a.describe(path, n)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// List lists those of a tree, in the order of a walk.
func List(t *tree.Tree) ([]File, error) {
	// A root without accounts has numbers alone.
	passwd, _ := t.ReadFile("/etc/passwd")
	group, _ := t.ReadFile("/etc/group")
	return NewAccounts(passwd, group).List(func(yield func(string, *tree.Inode) bool) {
		// Walk stops at an error of its callback, and this one has no other.
		_ = t.Walk(func(p string, n *tree.Inode) error {
			if !yield(p, n) {
				return fs.SkipAll
			}
			return nil
		})
	})
}
