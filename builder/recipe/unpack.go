package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"spore/builder/deb/deb822"
	"spore/builder/tree"
)

// unpack lays every package into the tree as dpkg does: through the merged links, a directory that is there already keeps
// its owner and mode, and a file of another package is overwritten only by a package that Replaces it.
func unpack(b *build) error {
	owner := map[string]string{}
	replaces := map[string]map[string]bool{}
	for i := range b.packages {
		r, err := replacedBy(b.packages[i].Status)
		if err != nil {
			return fmt.Errorf("control paragraph of %s: %w", b.packages[i].Name, err)
		}
		replaces[b.packages[i].Name] = r
	}
	for i := range b.packages {
		p := &b.packages[i]
		if err := b.preinst(p); err != nil {
			return err
		}
		copies := map[*tree.Inode]*tree.Inode{}
		err := p.Entries(func(name string, n *tree.Inode) error {
			b.shipped[p.Name] = append(b.shipped[p.Name], name)
			return b.unpackEntry(p, name, n, owner, replaces, copies)
		})
		if err != nil {
			return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
	}
	return nil
}

func (b *build) unpackEntry(p *Package, name string, n *tree.Inode, owner map[string]string, replaces map[string]map[string]bool, copies map[*tree.Inode]*tree.Inode) error {
	if !path.IsAbs(name) || path.Clean(name) != name {
		return fmt.Errorf("entry %q is not a clean absolute path", name)
	}
	where, err := b.tree.Resolve(name)
	if err == nil && n.Type != tree.Dir {
		where = b.replay.Divert(p.Name, where)
	}
	if err != nil {
		return err
	}
	old, err := b.tree.Lstat(where)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if n.Type == tree.Dir {
		return b.unpackDir(p, where, n, old, owner)
	}
	if old != nil {
		first := owner[where]
		switch {
		case first == "" && old.Type != tree.Dir && strings.HasPrefix(old.Origin, "script:"): // of a preinst
		case first == "" && old.Type == n.Type && old.Target == n.Target: // the merged links, which base-files ships too
		case old.Type == tree.Dir:
			return fmt.Errorf("%s is a directory in %s, but not in this package", where, first)
		case replaces[first][p.Name] && !replaces[p.Name][first]:
			return nil // the one that replaces was unpacked before
		case !replaces[p.Name][first]:
			return fmt.Errorf("%s is also in package %s, and neither Replaces the other", where, first)
		}
		if first != "" {
			b.note("note", where, fmt.Sprintf("%s replaces the file of %s", p.Name, first))
		}
	}
	c := copies[n]
	if c == nil {
		c = b.own(p, n)
		copies[n] = c
	}
	owner[where] = p.Name
	return b.tree.Add(where, c)
}

func (b *build) unpackDir(p *Package, where string, n, old *tree.Inode, owner map[string]string) error {
	if old != nil && old.Type == tree.Symlink {
		if d, err := b.tree.Stat(where); err != nil || d.Type != tree.Dir {
			return fmt.Errorf("%s is a link that does not lead to a directory, and a directory in this package", where)
		}
		return nil
	}
	if old != nil && old.Type != tree.Dir {
		return fmt.Errorf("%s is a file of %s and a directory in this package", where, owner[where])
	}
	if old != nil && old.Origin != "" && !strings.HasPrefix(old.Origin, "step:") {
		if old.Mode != n.Mode || old.UID != n.UID || old.GID != n.GID {
			b.note("note", where, fmt.Sprintf("%s has the directory as %04o %d:%d; it stays %04o %d:%d of %s",
				p.Name, n.Mode, n.UID, n.GID, old.Mode, old.UID, old.GID, owner[where]))
		}
		return nil
	}
	owner[where] = p.Name
	return b.tree.Add(where, b.own(p, n))
}

// own copies an inode of a package, so that steps can change it, and marks where it comes from.
func (b *build) own(p *Package, n *tree.Inode) *tree.Inode {
	c := *n
	if c.Origin == "" {
		c.Origin = "deb:" + p.Name + "_" + p.Version
	}
	b.epoch = max(b.epoch, c.MTime)
	return &c
}

// replacedBy returns the names in a control paragraph's Replaces. Version restrictions are not looked at: the resolver has
// picked versions that go together.
func replacedBy(status []byte) (map[string]bool, error) {
	s := deb822.NewScanner(string(status))
	out := map[string]bool{}
	if !s.Next() {
		return out, s.Err()
	}
	for _, item := range strings.Split(s.Paragraph().Get("Replaces"), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(item), " ")
		name, _, _ = strings.Cut(name, ":")
		name, _, _ = strings.Cut(name, "(")
		if name != "" {
			out[name] = true
		}
	}
	return out, s.Err()
}
