package fileutils

import (
	"errors"
	"io/fs"
	"strings"

	"spore/builder/tree"
)

// touch gives files the time stamp of the replay, or with -r that of a file. What -d and -t say is not looked at: the
// tree has one time stamp for all that scripts make.
func touch(j *job) error {
	o, err := j.options("a c|no-create m r|reference= d|date= t= f h|no-dereference time=", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.stop(1, "missing file operand")
	}
	when := j.Files.MTime
	if ref, ok := o.last("r"); ok {
		n, err := j.look(ref, !o.has("h"))
		if err != nil {
			return j.stop(1, "failed to get attributes of '%s': %s", ref, reason(err))
		}
		when = n.MTime
	}
	for _, name := range o.operands {
		if name == "-" {
			continue
		}
		if err := j.touchOne(name, when, o.has("c"), !o.has("h"), o.has("a") && !o.has("m")); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) touchOne(name string, when int64, mustBe, follow, onlyAccess bool) error {
	p := j.abs(name)
	n, err := j.look(name, follow)
	switch {
	case err == nil && n.Type == tree.CharDevice && p == "/dev/null":
		return nil
	case err == nil && onlyAccess: // the tree has no time of the last access
		return nil
	case err == nil:
		return j.soft(j.Files.Change(p, follow, func(n *tree.Inode) { n.MTime = when }), "setting times of '%s'", name)
	case errors.Is(err, fs.ErrNotExist) && mustBe:
		return nil
	case errors.Is(err, fs.ErrNotExist) && (!follow || strings.HasSuffix(name, "/")):
		return j.soft(err, "setting times of '%s'", name)
	case errors.Is(err, errNotDir) && (mustBe || strings.HasSuffix(name, "/")):
		return j.soft(err, "setting times of '%s'", name)
	case name == "" || strings.HasSuffix(name, "/") || !errors.Is(err, fs.ErrNotExist):
		return j.soft(err, "cannot touch '%s'", name)
	}
	if p, err = j.Files.Resolve(p); err == nil {
		err = j.makeFile(p, tree.Bytes(nil), 0o666&^j.Umask)
	}
	if err == nil {
		err = j.Files.Change(p, false, func(n *tree.Inode) { n.MTime = when })
	}
	return j.soft(err, "cannot touch '%s'", name)
}
