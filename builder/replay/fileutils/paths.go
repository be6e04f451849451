package fileutils

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"spore/builder/tree"
)

// abs makes an operand an absolute path. ".." behind a symbolic link goes to the parent of where the link leads, as
// in the kernel; a slash at the end is lost.
func (j *job) abs(name string) string {
	if !strings.Contains(name, "..") {
		return j.Path(name)
	}
	cur := j.Dir
	if path.IsAbs(name) {
		cur = "/"
	}
	for _, element := range strings.Split(name, "/") {
		switch element {
		case "", ".":
		case "..":
			if to, err := j.Files.Resolve(cur); err == nil {
				cur = to
			}
			cur = path.Dir(cur)
		default:
			cur = path.Join(cur, element)
		}
	}
	return cur
}

// lstat is what an operand names. With a slash at its end a symbolic link is followed and a file is an error.
func (j *job) lstat(name string) (*tree.Inode, error) {
	if name == "" {
		return nil, fs.ErrNotExist
	}
	if strings.HasSuffix(name, "/") {
		return j.stat(name)
	}
	p := j.abs(name)
	n, err := j.Files.Lstat(p)
	return n, j.why(p, err)
}

// why is the kernel's reason for a missing file: a file in the place of a directory above it is another one.
func (j *job) why(p string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if n, err := j.Files.Stat(dir); err == nil && n.Type != tree.Dir {
			return errNotDir
		} else if err == nil || dir == "/" {
			return fs.ErrNotExist
		}
	}
}

// stat is lstat that follows a symbolic link.
func (j *job) stat(name string) (*tree.Inode, error) {
	if name == "" {
		return nil, fs.ErrNotExist
	}
	p := j.abs(name)
	n, err := j.Files.Stat(p)
	if err == nil && strings.HasSuffix(name, "/") && n.Type != tree.Dir {
		return nil, errNotDir
	}
	return n, j.why(p, err)
}

// place is a path with the symbolic links above its last element followed.
func (j *job) place(p string) (string, error) {
	if p == "/" {
		return p, nil
	}
	dir, err := j.Files.Resolve(path.Dir(p))
	return path.Join(dir, path.Base(p)), err
}

// isEmpty tells whether a directory has nothing in it.
func (j *job) isEmpty(p string) bool {
	names, err := j.Files.ReadDir(p)
	return err == nil && len(names) == 0
}

// look is stat or lstat.
func (j *job) look(name string, follow bool) (*tree.Inode, error) {
	if follow {
		return j.stat(name)
	}
	return j.lstat(name)
}

func (j *job) isDir(name string) bool {
	n, err := j.stat(name)
	return err == nil && n.Type == tree.Dir
}

// join is a name in a directory as commands print it: with the directory's name as it was given.
func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

// base is the last element of an operand, without slashes at its end.
func base(name string) string {
	trimmed := strings.TrimRight(name, "/")
	if trimmed == "" {
		return "/"
	}
	return trimmed[strings.LastIndexByte(trimmed, '/')+1:]
}

// children returns the names in a directory of which the filesystem of scripts knows something.
func (j *job) children(p string) ([]string, error) {
	if err := j.ctx.Err(); err != nil {
		return nil, err
	}
	return j.Files.ReadDir(p)
}

// isDotted tells of "." and "..", which rm does not take.
func isDotted(name string) bool {
	b := base(name)
	return b == "." || b == ".."
}

// What canonical does with elements that are missing.
const (
	mayMissLast = iota
	mustExist
	mayMissAll
)

// maxLinks bounds the links in one path, as the kernel does (path_resolution(7)).
const maxLinks = 40

// canonical is a path without symbolic links, "." and "..", as canonicalize_filename_mode of gnulib makes it.
func (j *job) canonical(name string, missing int) (string, error) {
	if name == "" {
		return "", fs.ErrNotExist
	}
	if !path.IsAbs(name) {
		name = j.Dir + "/" + name
	}
	rest := strings.Split(name, "/")
	cur := "/"
	gone := false
	for links := 0; len(rest) > 0; {
		element := rest[0]
		rest = rest[1:]
		switch element {
		case "", ".":
			continue
		case "..":
			cur = path.Dir(cur)
			gone = gone && !j.Files.Exists(cur)
			continue
		}
		next := path.Join(cur, element)
		if gone {
			cur = next
			continue
		}
		n, err := j.Files.Lstat(next)
		more := strings.Trim(strings.Join(rest, "/"), "/.") != ""
		switch {
		case err != nil && (missing == mayMissAll || missing == mayMissLast && !more):
			gone = true
		case err != nil:
			return "", err
		case n.Type == tree.Symlink:
			if links++; links > maxLinks {
				if missing == mayMissAll {
					break
				}
				return "", errLoop
			}
			rest = append(strings.Split(n.Target, "/"), rest...)
			if path.IsAbs(n.Target) {
				cur = "/"
			}
			continue
		case n.Type != tree.Dir && len(rest) > 0 && missing != mayMissAll:
			return "", errNotDir
		}
		cur = next
	}
	return cur, nil
}

// relative is the way from a directory to a path; both are canonical.
func relative(dir, to string) string {
	from, dest := elements(dir), elements(to)
	for len(from) > 0 && len(dest) > 0 && from[0] == dest[0] {
		from, dest = from[1:], dest[1:]
	}
	out := strings.Repeat("../", len(from)) + strings.Join(dest, "/")
	if out == "" {
		return "."
	}
	return strings.TrimSuffix(out, "/")
}

func elements(p string) []string {
	if p == "/" {
		return nil
	}
	return strings.Split(strings.Trim(p, "/"), "/")
}

// targets tells operands of cp, mv, ln and install apart: sources and where each of them goes. With -t the directory
// is given, with -T the last operand is never a directory to put something into.
func (j *job) targets(o *options, follow bool) (sources, dests []string, err error) {
	operands := o.operands
	dir, hasDir := o.last("t")
	if hasDir && o.has("T") {
		return nil, nil, j.stop(1, "cannot combine --target-directory (-t) and --no-target-directory (-T)")
	}
	if hasDir {
		if len(operands) == 0 {
			return nil, nil, j.missing(nil)
		}
		if !j.isDir(dir) {
			what := "target directory"
			if j.Name == "install" && !j.known(j.abs(dir)) {
				what = "failed to access"
			}
			return nil, nil, j.stop(1, "%s '%s': %s", what, dir, j.whyNoDir(dir))
		}
		return operands, into(dir, operands), nil
	}
	if len(operands) < 2 {
		return nil, nil, j.missing(operands)
	}
	last := operands[len(operands)-1]
	sources = operands[:len(operands)-1]
	if o.has("T") {
		if len(sources) > 1 {
			return nil, nil, j.extra(operands[2])
		}
		return sources, []string{last}, nil
	}
	n, err := j.look(last, follow)
	switch {
	case err == nil && n.Type == tree.Dir:
		return sources, into(last, sources), nil
	case len(sources) > 1:
		return nil, nil, j.stop(1, "target '%s': %s", last, j.whyNoDir(last))
	}
	return sources, []string{last}, nil
}

func (j *job) whyNoDir(name string) string {
	if _, err := j.stat(name); err != nil {
		return reason(err)
	}
	return reason(errNotDir)
}

func into(dir string, names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, join(dir, base(name)))
	}
	return out
}

func quoted(name string) string { return fmt.Sprintf("'%s'", name) }
