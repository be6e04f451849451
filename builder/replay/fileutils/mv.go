package fileutils

import (
	"path"
	"strings"

	"spore/builder/tree"
)

func mv(j *job) error {
	o, err := j.options("f|force n|no-clobber u|update v|verbose T|no-target-directory t|target-directory= Z "+
		"strip-trailing-slashes",
		permuted)
	if err != nil {
		return err
	}
	sources, dests, err := j.targets(o, true)
	if err != nil {
		return err
	}
	made := justMade{}
	for i, source := range sources {
		if len(sources) > 1 && j.known(j.abs(source)) && made.has(j, j.abs(dests[i])) {
			j.fail("will not overwrite just-created '%s' with '%s'", dests[i], source)
			continue
		}
		if err := j.move(o, source, dests[i]); err != nil {
			return err
		}
	}
	return nil
}

// move renames: the tree is one filesystem.
func (j *job) move(o *options, source, dest string) error {
	if o.has("strip-trailing-slashes") {
		source = strings.TrimRight(source, "/")
	}
	from, to := j.abs(source), j.abs(dest)
	n, err := j.Files.Lstat(from)
	if err == nil && strings.HasSuffix(source, "/") && n.Type != tree.Dir {
		err = errNotDir
	}
	if err != nil {
		return j.soft(j.why(from, err), "cannot stat '%s'", source)
	}
	dir := n.Type == tree.Dir
	if !dir && strings.HasSuffix(dest, "/") && !j.isDir(dest) {
		j.fail("cannot move '%s' to '%s': Not a directory", source, dest)
		return nil
	}
	if have, err := j.Files.Lstat(to); err == nil {
		switch {
		case o.lastOf("f", "n") == "n":
			return nil
		case n == have || j.isLinkTo(n, from, have):
			j.fail("'%s' and '%s' are the same file", source, dest)
			return nil
		case dir && have.Type != tree.Dir:
			j.fail("cannot overwrite non-directory '%s' with directory '%s'", dest, source)
			return nil
		case !dir && have.Type == tree.Dir:
			j.fail("cannot overwrite directory '%s' with non-directory", dest)
			return nil
		case dir && !j.isEmpty(to):
			j.fail("cannot move '%s' to '%s': Directory not empty", source, dest)
			return nil
		case o.has("u") && !dir && have.MTime >= n.MTime:
			return nil
		}
	}
	if real, err := j.place(to); err == nil && dir {
		if own, err := j.place(from); err == nil && strings.HasPrefix(real, own+"/") {
			j.fail("cannot move '%s' to a subdirectory of itself, '%s'", source, dest)
			return nil
		}
	}
	if _, err := j.Files.Stat(path.Dir(to)); err != nil {
		return j.soft(err, "cannot move '%s' to '%s'", source, dest)
	}
	if err := j.Files.Rename(from, to); err != nil {
		return j.soft(err, "cannot move '%s' to '%s'", source, dest)
	}
	if o.has("v") {
		j.printf("renamed '%s' -> '%s'\n", source, dest)
	}
	return nil
}

// isLinkTo tells whether a symbolic link leads to a file, in whose place mv does not put it.
func (j *job) isLinkTo(n *tree.Inode, p string, to *tree.Inode) bool {
	if n.Type != tree.Symlink {
		return false
	}
	target, err := j.Files.Stat(p)
	return err == nil && target == to
}
