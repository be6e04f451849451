package fileutils

import (
	"fmt"
	"path"
	"strings"

	"spore/builder/tree"
)

type installer struct {
	*job
	owner
	changes                           []modeChange
	leading, times, verbose, onlyDiff bool
	made                              justMade
}

func install(j *job) error {
	o, err := j.options("d|directory m|mode= o|owner= g|group= p|preserve-timestamps D t|target-directory= "+
		"T|no-target-directory "+
		"v|verbose s|strip strip-program= C|compare c Z", permuted)
	if err != nil {
		return err
	}
	i := &installer{job: j, made: justMade{}, leading: o.has("D"), times: o.has("p"),
		verbose: o.has("v"), onlyDiff: o.has("C")}
	text, ok := o.last("m")
	if !ok {
		text = "00755" // takes set-group-ID from a directory too
	}
	if i.changes, err = parseMode(text); err != nil {
		return j.stop(1, "invalid mode '%s'", text)
	}
	if err := i.accounts(o); err != nil {
		return err
	}
	if mode, _ := adjust(0, false, 0, i.changes); i.onlyDiff && mode&^allRWX != 0 {
		fmt.Fprintf(j.Stderr, "install: the --compare (-C) option is ignored when you specify a mode with "+
			"non-permission bits\n")
	}
	if o.has("d") {
		if len(o.operands) == 0 {
			return j.missing(nil)
		}
		for _, name := range o.operands {
			if err := i.dir(name); err != nil {
				return err
			}
		}
		return nil
	}
	return i.all(o)
}

func (i *installer) accounts(o *options) error {
	if name, ok := o.last("o"); ok && name != "" {
		uid, ok := number(name, i.names.UserID)
		if !ok {
			return i.stop(1, "invalid user '%s'", name)
		}
		i.uid = &uid
	}
	if name, ok := o.last("g"); ok && name != "" {
		gid, ok := number(name, i.names.GroupID)
		if !ok {
			return i.stop(1, "invalid group '%s'", name)
		}
		i.gid = &gid
	}
	return nil
}

// dir makes a directory and its parents; owner and mode are for the last alone, whether it is new or not.
func (i *installer) dir(name string) error {
	if name == "" {
		i.fail("cannot create directory '': No such file or directory")
		return nil
	}
	p := i.abs(name)
	kept := uint32(all)
	if !i.isDir(name) {
		kept = setuid | setgid | sticky // of what a new directory has: set-group-ID of its parent
		if ok, err := i.job.parents(name, i.verbose); !ok {
			return err
		}
		if err := i.makeDir(p, allRWX&^i.Umask); err != nil {
			return i.soft(err, "cannot create directory '%s'", name)
		}
		if i.verbose {
			i.printf("install: creating directory '%s'\n", name)
		}
	}
	mode, bits := adjust(0, true, 0, i.changes)
	return i.soft(i.Files.Change(p, true, func(n *tree.Inode) {
		if i.uid != nil {
			n.UID = *i.uid
		}
		if i.gid != nil {
			n.GID = *i.gid
		}
		n.Mode = mode | n.Mode&kept&^bits
	}), "cannot change permissions of '%s'", name)
}

func (i *installer) all(o *options) error {
	if i.leading {
		if err := i.lead(o); err != nil {
			return err
		}
	}
	sources, dests, err := i.targets(o, true)
	if err != nil {
		return err
	}
	for at, source := range sources {
		if err := i.file(source, dests[at]); err != nil {
			return err
		}
	}
	return nil
}

// lead makes what -D makes: with -t the directory, else the parents of the destination.
func (i *installer) lead(o *options) error {
	name, ok := o.last("t")
	if !ok {
		if len(o.operands) != 2 {
			return nil
		}
		name = parent(o.operands[1])
		if name == "" {
			return nil
		}
	}
	if i.isDir(name) {
		return nil
	}
	if ok, err := i.job.parents(strings.TrimRight(name, "/")+"/.", i.verbose); !ok {
		if err == nil {
			err = errStop
		}
		return err
	}
	return nil
}

func (i *installer) file(source, dest string) error {
	n, err := i.stat(source)
	if err != nil {
		return i.soft(err, "cannot stat '%s'", source)
	}
	p := i.abs(dest)
	if i.made.has(i.job, p) {
		i.fail("will not overwrite just-created '%s' with '%s'", dest, source)
		return nil
	}
	switch n.Type {
	case tree.Dir:
		i.fail("omitting directory '%s'", source)
		return nil
	case tree.Fifo:
		return i.refuse("reading a named pipe")
	}
	content := n.Content
	if n.Type != tree.Regular {
		content = tree.Bytes(nil)
	}
	mode, _ := adjust(0, false, 0, i.changes)
	if have, err := i.Files.Lstat(p); err == nil {
		switch {
		case have.Type == tree.Dir:
			i.fail("cannot overwrite directory '%s' with non-directory", dest)
			return nil
		case have == n || strings.HasSuffix(dest, "/"):
			i.fail("'%s' and '%s' are the same file", source, dest)
			return nil
		}
		if same, err := i.unchanged(have, content, mode); same || err != nil {
			return err
		}
		if err := i.Files.Remove(p); err != nil {
			return i.soft(err, "cannot remove '%s'", dest)
		}
		if i.verbose {
			i.printf("removed '%s'\n", dest)
		}
	} else if strings.HasSuffix(dest, "/") {
		i.fail("cannot create regular file '%s': Not a directory", dest)
		return nil
	}
	if _, err := i.Files.Stat(path.Dir(p)); err != nil {
		return i.soft(err, "cannot create regular file '%s'", dest)
	}
	if err := i.makeFile(p, content, 0o600); err != nil {
		return i.soft(err, "cannot create regular file '%s'", dest)
	}
	if i.verbose {
		i.printf("'%s' -> '%s'\n", source, dest)
	}
	return i.Files.Change(p, false, func(made *tree.Inode) {
		if i.uid != nil {
			made.UID = *i.uid
		}
		if i.gid != nil {
			made.GID = *i.gid
		}
		if i.times {
			made.MTime = n.MTime
		}
		made.Mode = mode
	})
}

// unchanged tells whether -C leaves a file as it is.
func (i *installer) unchanged(have *tree.Inode, content tree.Content, mode uint32) (bool, error) {
	if !i.onlyDiff || have.Type != tree.Regular || have.Mode != mode || mode&^allRWX != 0 || !i.matches(have) {
		return false, nil
	}
	if i.uid == nil && have.UID != 0 || i.gid == nil && have.GID != 0 {
		return false, nil
	}
	return equal(have.Content, content)
}
