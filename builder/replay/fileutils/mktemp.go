package fileutils

import (
	"strconv"
	"strings"

	"spore/builder/tree"
)

// mktemp replaces the X's of a template by the first number whose name is free, in digits and letters. So the names
// are the same in each replay; two calls of mktemp -u without a file between them get the same one.
func mktemp(j *job) error {
	o, err := j.options("d|directory p= tmpdir? t u|dry-run q|quiet suffix=", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) > 1 {
		return j.stop(1, "too many templates")
	}
	template, dir, hasDir := "tmp.XXXXXXXXXX", "", len(o.operands) == 0
	if !hasDir {
		template = o.operands[0]
	}
	if name := o.lastOf("p", "tmpdir"); name != "" {
		hasDir = true
		dir, _ = o.last(name)
	}
	if tmpdir := j.Env("TMPDIR"); tmpdir != "" && (dir == "" || o.has("t")) {
		dir = tmpdir
	}
	if dir == "" {
		dir = "/tmp"
	}
	switch {
	case o.has("t") && strings.Contains(template, "/"):
		return j.stop(1, "invalid template, '%s', contains directory separator", template)
	case hasDir && strings.HasPrefix(template, "/"):
		return j.stop(1, "invalid template, '%s'; with --tmpdir, it may not be absolute", template)
	}
	before, width, suffix, err := j.template(o, template)
	if err != nil {
		return err
	}
	if hasDir || o.has("t") {
		before = join(dir, before)
	}
	j.quiet = o.has("q")
	kind := "file"
	if o.has("d") {
		kind = "directory"
	}
	name, err := j.free(before, width, suffix)
	if err == nil && !o.has("u") {
		if o.has("d") {
			err = j.makeDir(j.abs(name), 0o700)
		} else {
			err = j.makeFile(j.abs(name), tree.Bytes(nil), 0o600)
		}
	}
	if err != nil {
		return j.soft(err, "failed to create %s via template '%s%s%s'", kind, before, strings.Repeat("X", width),
			suffix)
	}
	j.print(name + "\n")
	return nil
}

// template splits a template at its last X's.
func (j *job) template(o *options, template string) (before string, width int, suffix string, err error) {
	suffix, has := o.last("suffix")
	end := strings.LastIndexByte(template, 'X') + 1
	switch {
	case has && end < len(template):
		return "", 0, "", j.stop(1, "with --suffix, template '%s' must end in X", template)
	case strings.Contains(suffix, "/"):
		return "", 0, "", j.stop(1, "invalid suffix '%s', contains directory separator", suffix)
	case !has:
		suffix = template[end:]
		if strings.Contains(suffix, "/") {
			end = 0
		}
	}
	start := end
	for start > 0 && template[start-1] == 'X' {
		start--
	}
	if end-start < 3 {
		return "", 0, "", j.stop(1, "too few X's in template '%s'", template)
	}
	return template[:start], end - start, suffix, nil
}

// free is the first name that nothing has.
func (j *job) free(before string, width int, suffix string) (string, error) {
	for i := uint64(0); ; i++ {
		if err := j.ctx.Err(); err != nil {
			return "", err
		}
		digits := strconv.FormatUint(i, 36)
		if len(digits) > width {
			return "", errExist
		}
		name := before + strings.Repeat("0", width-len(digits)) + digits + suffix
		if _, err := j.Files.Lstat(j.abs(name)); err != nil {
			if hard(err) {
				return "", err
			}
			return name, nil
		}
	}
}

// tempfile is the command of debianutils, which Debian 12 still has in old scripts.
func tempfile(j *job) error {
	o, err := j.options("d|directory= m|mode= n|name= p|prefix= s|suffix=", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) > 0 {
		return j.extra(o.operands[0])
	}
	mode := uint32(0o600)
	if text, ok := o.last("m"); ok {
		value, rest, err := octal(text)
		if err != nil || rest != "" {
			return j.stop(1, "Invalid mode `%s'.  Mode must be octal.", text)
		}
		mode = value
	}
	name, ok := o.last("n")
	if !ok {
		dir, prefix := j.Env("TMPDIR"), "file"
		if d, ok := o.last("d"); ok && dir == "" {
			dir = d
		}
		if dir == "" {
			dir = "/tmp"
		}
		if p, ok := o.last("p"); ok {
			prefix = p
		}
		suffix, _ := o.last("s")
		if name, err = j.free(join(dir, prefix), 6, suffix); err != nil {
			return j.soft(err, "%s", dir)
		}
	} else if _, err := j.Files.Lstat(j.abs(name)); err == nil {
		return j.stop(1, "%s: File exists", name)
	}
	if err := j.makeFile(j.abs(name), tree.Bytes(nil), mode); err != nil {
		return j.soft(err, "%s", name)
	}
	j.print(name + "\n")
	return nil
}
