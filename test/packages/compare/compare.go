// Package compare says where the tree of the recipe's first half differs from the root that Debian's own tools make of
// the same packages, and which of the differences a table explains.
package compare

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spore/builder/tree"
	"spore/test/packages/reference"
)

// Difference is one way in which the trees differ.
type Difference struct {
	// Kind is one of Kinds.
	Kind string
	// Path is absolute.
	Path string
	// Detail is what both have, for people.
	Detail string
	// Package is the one that has the path, or whose script makes it; empty where nothing tells.
	Package string
}

// Kinds are the kinds of differences: missing is a path that only theirs has, extra one that only ours has; time is
// that of a file of a package.
var Kinds = []string{"missing", "extra", "type", "mode", "owner", "content", "target", "capability", "time"}

var types = map[tree.Type]byte{
	tree.Dir: tar.TypeDir, tree.Regular: tar.TypeReg, tree.Symlink: tar.TypeSymlink, tree.CharDevice: tar.TypeChar,
	tree.BlockDevice: tar.TypeBlock, tree.Fifo: tar.TypeFifo,
}

// Trees compares two trees. Owners are compared by name, since the numbers that adduser takes are its own. The
// differences are sorted by path.
func Trees(ours *tree.Tree, theirs *reference.Root) ([]Difference, error) {
	c := comparison{ours: ours}
	var err error
	if c.users, err = names(ours, "/etc/passwd"); err != nil {
		return nil, err
	}
	if c.groups, err = names(ours, "/etc/group"); err != nil {
		return nil, err
	}
	for p, f := range theirs.Files {
		if err := c.file(p, f); err != nil {
			return nil, err
		}
	}
	for _, p := range ours.Paths() {
		if _, ok := theirs.Files[p]; !ok {
			n, err := ours.Lstat(p)
			if err != nil {
				return nil, err
			}
			c.add("extra", p, OfOrigin(n.Origin), "from %s", n.Origin)
		}
	}
	slices.SortFunc(c.out, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Kind, b.Kind))
	})
	return c.out, nil
}

type comparison struct {
	ours          *tree.Tree
	users, groups map[uint32]string
	out           []Difference
}

func (c *comparison) add(kind, p, pkg, format string, args ...any) {
	c.out = append(c.out, Difference{Kind: kind, Path: p, Package: pkg, Detail: fmt.Sprintf(format, args...)})
}

func (c *comparison) file(p string, f reference.File) error {
	n, err := c.ours.Lstat(p)
	if err != nil {
		c.add("missing", p, f.Package, "%c %04o %s:%s", f.Type, f.Mode, f.User, f.Group)
		return nil
	}
	pkg := cmp.Or(OfOrigin(n.Origin), f.Package)
	if types[n.Type] != f.Type {
		c.add("type", p, pkg, "%c, theirs %c", types[n.Type], f.Type)
		return nil
	}
	if n.Type == tree.Symlink {
		if f.Target != n.Target {
			c.add("target", p, pkg, "%s, theirs %s", n.Target, f.Target)
		}
		return nil
	}
	if f.Mode != n.Mode {
		c.add("mode", p, pkg, "%04o, theirs %04o", n.Mode, f.Mode)
	}
	if a, z := c.owner(n), f.User+":"+f.Group; a != z {
		c.add("owner", p, pkg, "%s, theirs %s", a, z)
	}
	if n.Type != tree.Regular {
		return nil
	}
	sum, err := tree.SHA256(n.Content)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	if sum != [sha256.Size]byte(f.Sum) {
		c.add("content", p, pkg, "%d bytes, theirs %d", n.Content.Size(), f.Size)
	}
	if own := capability(n); own != f.Capability {
		c.add("capability", p, pkg, "%x, theirs %x", own, f.Capability)
	}
	if n.MTime != f.MTime && strings.HasPrefix(n.Origin, "deb:") {
		c.add("time", p, pkg, "%d, theirs %d", n.MTime, f.MTime)
	}
	return nil
}

func (c *comparison) owner(n *tree.Inode) string {
	return cmp.Or(c.users[n.UID], strconv.Itoa(int(n.UID))) + ":" + cmp.Or(c.groups[n.GID], strconv.Itoa(int(n.GID)))
}

func capability(n *tree.Inode) string {
	for _, x := range n.Xattrs {
		if x.Name == "security.capability" {
			return string(x.Value)
		}
	}
	return ""
}

// OfOrigin is the package of an inode's origin, such as "deb:NAME_VERSION" or "script:NAME.postinst"; empty for those
// of steps.
func OfOrigin(origin string) string {
	kind, rest, _ := strings.Cut(origin, ":")
	switch kind {
	case "deb":
		name, _, _ := strings.Cut(rest, "_")
		return name
	case "script":
		for _, script := range []string{".preinst", ".postinst", ".config"} {
			if name, ok := strings.CutSuffix(rest, script); ok {
				return name
			}
		}
		return rest
	}
	return ""
}

// names reads the names of passwd(5) or group(5) by their number.
func names(t *tree.Tree, file string) (map[uint32]string, error) {
	data, err := t.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := map[uint32]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(line, ":")
		if len(f) < 3 {
			return nil, fmt.Errorf("%s: %q has no number", file, strings.TrimSpace(line))
		}
		id, err := strconv.ParseUint(f[2], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if _, taken := out[uint32(id)]; !taken {
			out[uint32(id)] = f[0]
		}
	}
	return out, nil
}
