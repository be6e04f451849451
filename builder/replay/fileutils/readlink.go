package fileutils

import (
	"strings"

	"spore/builder/tree"
)

func readlink(j *job) error {
	o, err := j.options("f|canonicalize e|canonicalize-existing m|canonicalize-missing n|no-newline q|quiet "+
		"s|silent v|verbose z|zero",
		permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	end := "\n"
	switch {
	case o.has("z"):
		end = "\x00"
	case o.has("n") && len(o.operands) == 1:
		end = ""
	}
	how := o.lastOf("f", "e", "m")
	j.quiet = o.lastOf("q", "s", "v") != "v"
	for _, name := range o.operands {
		if how != "" {
			p, err := j.canonical(name, map[string]int{"f": mayMissLast, "e": mustExist, "m": mayMissAll}[how])
			if err != nil {
				if err := j.soft(err, "%s", name); err != nil {
					return err
				}
				continue
			}
			j.print(p + end)
			continue
		}
		n, err := j.lstat(name)
		if err == nil && n.Type != tree.Symlink {
			err = errInvalid
		}
		if err != nil {
			if err := j.soft(err, "%s", name); err != nil {
				return err
			}
			continue
		}
		j.print(n.Target + end)
	}
	return nil
}

func realpath(j *job) error {
	o, err := j.options("e|canonicalize-existing m|canonicalize-missing L|logical P|physical q|quiet "+
		"s|strip|no-symlinks z|zero "+
		"relative-to=", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	if o.has("L") {
		return j.unknown("-L")
	}
	how := map[string]int{"": mayMissLast, "e": mustExist, "m": mayMissAll}[o.lastOf("e", "m")]
	canonical := func(name string) (string, error) {
		if !o.has("s") {
			return j.canonical(name, how)
		}
		if how == mayMissAll {
			return j.Path(name), nil
		}
		_, err := j.canonical(name, how)
		return j.Path(name), err
	}
	dir := ""
	if name, ok := o.last("relative-to"); ok {
		if dir, err = canonical(name); err != nil {
			return j.stop(1, "%s: %s", name, reason(err))
		}
	}
	end := "\n"
	if o.has("z") {
		end = "\x00"
	}
	j.quiet = o.has("q")
	for _, name := range o.operands {
		p, err := canonical(name)
		if err != nil {
			if err := j.soft(err, "%s", name); err != nil {
				return err
			}
			continue
		}
		if dir != "" {
			p = relative(dir, p)
		}
		j.print(p + end)
	}
	return nil
}

func basename(j *job) error {
	o, err := j.options("a|multiple s|suffix= z|zero", inOrder)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	suffix, hasSuffix := o.last("s")
	names := o.operands
	if !hasSuffix && !o.has("a") {
		if len(names) > 2 {
			return j.extra(names[2])
		}
		if len(names) == 2 {
			suffix, names = names[1], names[:1]
		}
	}
	end := "\n"
	if o.has("z") {
		end = "\x00"
	}
	for _, name := range names {
		b := name
		if name != "" {
			b = base(name)
		}
		if b != suffix && b != "/" {
			b = strings.TrimSuffix(b, suffix)
		}
		j.print(b + end)
	}
	return nil
}

func dirname(j *job) error {
	o, err := j.options("z|zero", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	end := "\n"
	if o.has("z") {
		end = "\x00"
	}
	for _, name := range o.operands {
		dir := "."
		trimmed := strings.TrimRight(name, "/")
		if i := strings.LastIndexByte(trimmed, '/'); i >= 0 {
			if dir = strings.TrimRight(trimmed[:i], "/"); dir == "" {
				dir = "/"
			}
		} else if trimmed == "" && name != "" {
			dir = "/"
		}
		j.print(dir + end)
	}
	return nil
}

// Limits of pathchk: those of Linux, and those of POSIX for -p.
const (
	nameMax, pathMax           = 255, 4096
	posixNameMax, posixPathMax = 14, 256
)

const portable = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/"

func pathchk(j *job) error {
	o, err := j.options("p P portability", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	posix, extra := o.has("p") || o.has("portability"), o.has("P") || o.has("portability")
	for _, name := range o.operands {
		j.checkName(name, posix, extra)
	}
	return nil
}

func (j *job) checkName(name string, posix, extra bool) {
	longName, longPath := nameMax, pathMax
	if posix {
		longName, longPath = posixNameMax, posixPathMax
	}
	if name == "" {
		j.fail("'': No such file or directory")
		return
	}
	for _, element := range strings.Split(name, "/") {
		switch {
		case extra && strings.HasPrefix(element, "-"):
			j.fail("leading '-' in a component of file name '%s'", name)
			return
		case len(element) > longName:
			j.fail("limit %d exceeded by length %d of file name component '%s'", longName, len(element), element)
			return
		}
	}
	for _, c := range name {
		if posix && !strings.ContainsRune(portable, c) {
			j.fail("nonportable character '%c' in file name '%s'", c, name)
			return
		}
	}
	if dir := parent(name); !posix && dir != "" && j.known(j.abs(dir)) && !j.isDir(dir) {
		j.fail("%s: Not a directory", name)
		return
	}
	if len(name) >= longPath {
		j.fail("limit %d exceeded by length %d of file name '%s'", longPath-1, len(name), name)
	}
}
