package recipe

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
	"spore/cluster/programs"
)

// checkHidden finds what the user's own hides by a name that wins: nothing of that is replaced, and neither is it read.
func (b *build) checkHidden(wrong *ownProblems) error {
	return b.tree.Walk(func(p string, n *tree.Inode) error {
		if n.Type == tree.Dir || isOwn(n) {
			return nil
		}
		for _, at := range winners(p, n) {
			own, err := b.tree.Lstat(at)
			if err != nil || !isOwn(own) || own == n {
				continue
			}
			wrong.add("%s: %s hides %s, of %s, which has the same name in a directory that comes later; choose another "+
				"name", strings.TrimPrefix(own.Origin, configuration), at, p, ownerOf(n))
		}
		return nil
	})
}

// winners are the paths at which a file would be taken in the place of one that is there.
func winners(p string, n *tree.Inode) []string {
	dir, name := path.Split(p)
	if i := slices.Index(searchPath, path.Clean(dir)); i > 0 { // a program, whoever has it
		var out []string
		for _, earlier := range searchPath[:i] {
			out = append(out, path.Join(earlier, name))
		}
		return out
	}
	rest, ok := strings.CutPrefix(p, "/usr/lib/")
	top, _, _ := strings.Cut(rest, "/")
	// A file of a package may be hidden: that is how settings of it are changed (systemd.unit(5), sysctl.d(5)).
	if !ok || packageOf(n.Origin) != "" || top != "systemd" && top != "udev" && path.Ext(top) != ".d" {
		return nil
	}
	return []string{path.Join("/etc", rest), path.Join("/usr/local/lib", rest)}
}

// checkPlaces refuses programs of the user's own that links of the image lead to where no program may be. validate has
// refused this of the paths themselves.
func (b *build) checkPlaces(p Payload) error {
	if p.Configured == "" {
		return nil
	}
	for _, f := range p.Files {
		for _, at := range append([]string{f.Path}, f.Links...) {
			dir, err := b.tree.Follow(path.Dir(at))
			if err != nil {
				return err
			}
			if why := programs.ClosedPath(path.Join(dir, path.Base(at))); why != "" {
				return fmt.Errorf("%s: %s leads to where no program can be: %s", p.who(), at, why)
			}
		}
	}
	return nil
}
