package recipe

import (
	"fmt"
	"path"

	"spore/builder/tree"
)

// RoleFile is a text that an image has for a role of the configuration's own, such as its target.
type RoleFile struct {
	// Path is where it lies in the image, and Source the file of the configuration folder that it follows from.
	Path, Source string
	Text         string
}

// RoleUnit is a unit that a role of the configuration's own starts.
type RoleUnit struct {
	// Name is the unit, and At where the role names it, such as roles/valkey.yaml:6:9.
	Name, At string
}

// checkRoleUnits finds units that the root does not have: nothing would start, and nobody would say so.
func (b *build) checkRoleUnits(wrong *ownProblems) {
	for _, u := range b.opts.Starts {
		if !b.hasUnit(u.Name) {
			wrong.add("%s: the image has no unit %s, which the role starts; write it into units/, or name the package "+
				"that has it under packages", u.At, u.Name)
		}
	}
}

// layRoles lays them in before the scripts, since accounts are among them. None takes the place of a file, and no unit
// that of a unit of a package.
func layRoles(b *build) error {
	for _, f := range b.opts.Roles {
		places := []string{f.Path}
		if path.Dir(f.Path) == localUnits {
			places = append(places, path.Join(packageUnits, path.Base(f.Path)))
		}
		for _, p := range places {
			if old, err := b.tree.Lstat(p); err == nil {
				return fmt.Errorf("%s: %s is there already, of %s; write another name", f.Source, p, ownerOf(old))
			}
		}
		n := &tree.Inode{
			Type: tree.Regular, Mode: 0o644, Content: tree.Bytes([]byte(f.Text)), Origin: "configuration:" + f.Source,
		}
		if err := b.add(f.Path, n, "from the configuration"); err != nil {
			return err
		}
	}
	return nil
}
