package fileutils

import (
	"errors"
	"path"
	"strings"

	"spore/builder/tree"
)

func rm(j *job) error {
	o, err := j.options("f|force r|R|recursive d|dir v|verbose one-file-system preserve-root? no-preserve-root",
		permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		if o.has("f") {
			return nil
		}
		return j.missing(nil)
	}
	r := remover{j, o.has("f"), o.has("r"), o.has("d"), o.has("v")}
	for _, name := range o.operands {
		if err := r.operand(name); err != nil {
			return err
		}
	}
	return nil
}

type remover struct {
	*job
	force, recursive, dirs, verbose bool
}

func (r remover) operand(name string) error {
	if r.recursive && isDotted(name) {
		r.fail("refusing to remove '.' or '..' directory: skipping '%s'", name)
		return nil
	}
	if r.recursive && r.abs(name) == "/" {
		r.fail("it is dangerous to operate recursively on '/'")
		return nil
	}
	p := r.abs(name)
	n, err := r.Files.Lstat(p)
	if err == nil && strings.HasSuffix(name, "/") && n.Type != tree.Dir {
		if _, err = r.Files.Stat(p); err == nil {
			err = errNotDir
		}
		if r.recursive && r.isDir(name) {
			return r.throughLink(name, p)
		}
	}
	if err != nil {
		if r.force && !hard(err) {
			return nil
		}
		return r.soft(r.why(p, err), "cannot remove '%s'", name)
	}
	if n.Type == tree.Dir && !r.recursive && !r.dirs {
		r.fail("cannot remove '%s': Is a directory", name)
		return nil
	}
	return r.remove(name, p, n)
}

// remove takes away what is below a directory, and then what is at the path.
func (r remover) remove(name, p string, n *tree.Inode) error {
	dir := n.Type == tree.Dir
	if dir && r.recursive {
		if err := r.below(name, p); err != nil {
			return err
		}
	}
	if err := r.Files.Remove(p); err != nil {
		return r.soft(err, "cannot remove '%s'", name)
	}
	switch {
	case r.verbose && dir:
		r.printf("removed directory '%s'\n", name)
	case r.verbose:
		r.printf("removed '%s'\n", name)
	}
	return nil
}

func (r remover) below(name, p string) error {
	names, err := r.children(p)
	if err != nil {
		return r.soft(err, "cannot remove '%s'", name)
	}
	for _, child := range names {
		n, err := r.Files.Lstat(path.Join(p, child))
		if err != nil {
			continue
		}
		if err := r.remove(join(name, child), path.Join(p, child), n); err != nil {
			return err
		}
	}
	return nil
}

// throughLink is "rm -r link/": all in the directory goes, and then the link is not a directory.
func (r remover) throughLink(name, p string) error {
	real, err := r.Files.Resolve(p)
	if err != nil {
		return r.soft(err, "cannot remove '%s'", name)
	}
	if err := r.below(name, real); err != nil {
		return err
	}
	if r.force {
		return nil
	}
	return r.soft(errNotDir, "cannot remove '%s'", name)
}

func rmdir(j *job) error {
	o, err := j.options("p|parents v|verbose ignore-fail-on-non-empty", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	for _, name := range o.operands {
		for dir := name; dir != "" && (dir != "." || dir == name); dir = parent(strings.TrimRight(dir, "/")) {
			if o.has("v") {
				j.printf("rmdir: removing directory, '%s'\n", dir)
			}
			ok, err := j.rmdirOne(dir, o.has("ignore-fail-on-non-empty"), dir != name)
			if err != nil {
				return err
			}
			if !ok || !o.has("p") {
				break
			}
		}
	}
	return nil
}

func (j *job) rmdirOne(name string, ignoreFull, isParent bool) (bool, error) {
	p := j.abs(name)
	n, err := j.Files.Lstat(p)
	switch {
	case err == nil && n.Type == tree.Symlink && strings.HasSuffix(name, "/") && j.isDir(name):
		err = errors.New("symbolic link not followed")
	case err == nil && n.Type != tree.Dir:
		err = errNotDir
	case err != nil:
		err = j.why(p, err)
	case err == nil && base(name) == ".":
		err = errInvalid
	case err == nil && !j.isEmpty(p):
		if ignoreFull {
			return false, nil
		}
		err = errNotEmpty
	case err == nil:
		if err = j.Files.Remove(p); err == nil {
			return true, nil
		}
	}
	if isParent {
		return false, j.soft(err, "failed to remove directory '%s'", name)
	}
	return false, j.soft(err, "failed to remove '%s'", name)
}

// parent is the operand without its last element, or "".
func parent(name string) string {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return ""
	}
	return strings.TrimRight(name[:i], "/")
}

func unlink(j *job) error {
	o, err := j.options("", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	if len(o.operands) > 1 {
		return j.extra(o.operands[1])
	}
	name := o.operands[0]
	n, err := j.lstat(name)
	if err == nil && n.Type == tree.Dir {
		err = errIsDir
	}
	if err == nil {
		err = j.Files.Remove(j.abs(name))
	}
	return j.soft(err, "cannot unlink '%s'", name)
}
