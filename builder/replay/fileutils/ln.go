package fileutils

import (
	"path"
	"strings"

	"spore/builder/tree"
)

func ln(j *job) error {
	o, err := j.options("s|symbolic f|force n|no-dereference r|relative v|verbose T|no-target-directory "+
		"t|target-directory= "+
		"P|physical L|logical", permuted)
	if err != nil {
		return err
	}
	if o.has("r") && !o.has("s") {
		return j.stop(1, "cannot do --relative without --symbolic")
	}
	if _, ok := o.last("t"); !ok && !o.has("T") && len(o.operands) == 1 {
		o.operands = append(o.operands, ".")
	}
	sources, dests, err := j.targets(o, !o.has("n"))
	if err != nil {
		return err
	}
	l := linker{job: j, symbolic: o.has("s"), force: o.has("f"), relative: o.has("r"), verbose: o.has("v"),
		logical: o.lastOf("P", "L") == "L"}
	for i, source := range sources {
		if err := l.one(source, dests[i]); err != nil {
			return err
		}
	}
	return nil
}

type linker struct {
	*job
	symbolic, force, relative, verbose, logical bool
}

func (l linker) one(source, dest string) error {
	p := l.abs(dest)
	var from *tree.Inode
	if !l.symbolic {
		var err error
		if from, err = l.look(source, l.logical); err != nil {
			return l.soft(err, "failed to access '%s'", source)
		}
		if from.Type == tree.Dir {
			l.fail("%s: hard link not allowed for directory", source)
			return nil
		}
	}
	if l.relative {
		to, err := l.canonical(source, mayMissAll)
		if err != nil {
			return l.soft(err, "%s", source)
		}
		dir, err := l.canonical(l.abs(path.Dir(dest)), mayMissAll)
		if err != nil {
			return l.soft(err, "%s", dest)
		}
		source = relative(dir, to)
	}
	if strings.HasSuffix(dest, "/") && !l.isDir(dest) {
		_, err := l.stat(dest)
		return l.failed(source, dest, reason(err))
	}
	if have, err := l.Files.Lstat(p); err == nil {
		switch {
		case have.Type == tree.Dir && l.force:
			l.fail("%s: cannot overwrite directory", dest)
			return nil
		case !l.force:
			return l.failed(source, dest, "File exists")
		case l.symbolic && l.isItself(source, dest, have), from == have && l.sameName(source, dest):
			l.fail("'%s' and '%s' are the same file", source, dest)
			return nil
		case from == have:
			return nil
		}
		if err := l.Files.Remove(p); err != nil {
			return l.soft(err, "cannot remove '%s'", dest)
		}
	}
	var err error
	if l.symbolic {
		err = l.makeLink(source, p)
	} else {
		old := l.abs(source)
		if l.logical {
			if old, err = l.Files.Resolve(old); err != nil {
				return l.soft(err, "failed to access '%s'", source)
			}
		}
		err = l.Files.Link(old, p)
	}
	if err != nil {
		if hard(err) {
			return err
		}
		return l.failed(source, dest, reason(err))
	}
	if l.verbose {
		arrow := "=>"
		if l.symbolic {
			arrow = "->"
		}
		l.printf("'%s' %s '%s'\n", dest, arrow, source)
	}
	return nil
}

func (l linker) failed(source, dest, why string) error {
	if l.symbolic {
		l.fail("failed to create symbolic link '%s': %s", dest, why)
	} else if why == reason(errExist) {
		l.fail("failed to create hard link '%s': %s", dest, why)
	} else {
		l.fail("failed to create hard link '%s' => '%s': %s", dest, source, why)
	}
	return nil
}

// isItself tells whether a symbolic link would replace what it leads to, when that has no other name.
func (l linker) isItself(source, dest string, have *tree.Inode) bool {
	n, err := l.stat(source)
	return err == nil && n == have && (l.linkCount(n) == 1 || l.sameName(source, dest))
}

func (l linker) sameName(a, b string) bool {
	ra, errA := l.place(l.abs(a))
	rb, errB := l.place(l.abs(b))
	return errA == nil && errB == nil && ra == rb
}

func link(j *job) error {
	o, err := j.options("", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) < 2 {
		return j.missing(o.operands)
	}
	if len(o.operands) > 2 {
		return j.extra(o.operands[2])
	}
	return j.soft(j.Files.Link(j.abs(o.operands[0]), j.abs(o.operands[1])), "cannot create link '%s' to '%s'",
		o.operands[1],
		o.operands[0])
}
