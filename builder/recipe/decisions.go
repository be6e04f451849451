package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"spore/builder/accounts"
	"spore/builder/tree"
	"spore/cluster/filecap"
	"spore/cluster/spec"
)

// takeDecisions does what image.yaml says in the place of scripts that are not replayed.
func takeDecisions(b *build) error {
	for _, name := range slices.Sorted(maps.Keys(b.opts.Scripts)) {
		if b.present[name] == nil {
			return fmt.Errorf("image.yaml decides about scripts of %s, and the image does not have that package; take out scripts: {%[1]s: …}", name)
		}
		if err := b.decide(b.opts.Scripts[name]); err != nil {
			return fmt.Errorf("image.yaml: scripts: {%s: …}: %w", name, err)
		}
	}
	return b.writeAccounts()
}

func (b *build) decide(d spec.ScriptDecision) error {
	for _, name := range d.Groups {
		if _, ok := b.accounts.GroupID(name); ok {
			continue
		}
		if err := b.accounts.AddGroup(accounts.Group{Name: name}); err != nil {
			return err
		}
	}
	for _, u := range d.Users {
		if _, ok := b.accounts.UserID(u.Name); ok {
			continue
		}
		if err := b.accounts.AddUser(accounts.User{Name: u.Name, Group: u.Group, Home: u.Home, Shell: u.Shell}); err != nil {
			return err
		}
	}
	for _, l := range d.Links {
		if old, err := b.tree.Lstat(l.Path); err == nil && old.Type != tree.Symlink {
			return fmt.Errorf("the link %s is a file of %s already", l.Path, old.Origin)
		}
		if err := b.link(l.Target, l.Path, "image.yaml"); err != nil {
			return err
		}
	}
	for _, m := range d.Modes {
		if err := b.decideMode(m); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil
}

func (b *build) decideMode(m spec.ScriptMode) error {
	n, err := b.tree.Lstat(m.Path)
	if err != nil {
		return err
	}
	if n.Type != tree.Regular && n.Type != tree.Dir {
		return errors.New("it is a link; name what it leads to")
	}
	if m.Owner != "" {
		id, ok := b.accounts.UserID(m.Owner)
		if !ok {
			return fmt.Errorf("the image lacks the user %s", m.Owner)
		}
		n.UID = id
	}
	if m.Group != "" {
		id, ok := b.accounts.GroupID(m.Group)
		if !ok {
			return fmt.Errorf("the image lacks the group %s", m.Group)
		}
		n.GID = id
	}
	if m.Mode != "" {
		mode, err := strconv.ParseUint(m.Mode, 8, 32)
		if err != nil {
			return fmt.Errorf("mode %q: %w", m.Mode, err)
		}
		n.Mode = uint32(mode)
	}
	b.note("change", m.Path, "image.yaml")
	if m.Capabilities == "" {
		return nil
	}
	caps, err := filecap.Parse(m.Capabilities)
	if err != nil {
		return err
	}
	n.Xattrs = append(slices.DeleteFunc(slices.Clone(n.Xattrs), func(x tree.Xattr) bool { return x.Name == filecap.Attribute }),
		tree.Xattr{Name: filecap.Attribute, Value: caps.Value()})
	slices.SortFunc(n.Xattrs, func(a, b tree.Xattr) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}
