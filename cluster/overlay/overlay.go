// Package overlay reads the files of a user's own that go into the image as they are: the folder overlay/ of a
// configuration, in which each file lies at its path in the image, and overlay.yaml, which says what owner, group and
// mode differ from root, root and 0644 or 0755.
//
// It checks what can be known without an image: kinds of files, links, bounds, and the paths that belong to the image
// itself. Whether an account exists, and whether a package has a file at the same path, shows when the root is composed
// (builder/recipe).
package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"spore/cluster/regular"
)

// Names in the configuration folder.
const (
	// Dir has the files.
	Dir = "overlay"
	// SettingsFile says what of them differs.
	SettingsFile = "overlay.yaml"
)

// Bounds of the folder.
const (
	// maxEntries is the number of files, links and directories.
	maxEntries = 1000
	// maxBytes is the size of all files together.
	maxBytes = 64 << 20
	// maxPath is the length of a path (linux/limits.h, PATH_MAX), maxName of one element (NAME_MAX), in bytes.
	maxPath, maxName = 4095, 255
)

// Settings is the file overlay.yaml: owners, groups and modes of files in overlay/ that differ from root, root and
// 0644.
type Settings struct {
	// Files holds what differs from the default, by absolute path in the image.
	Files map[string]File `yaml:"files,omitempty" json:"files,omitempty"`
}

// File says what differs for one file or directory of overlay/.
type File struct {
	// Owner is a user that the image has; root when empty.
	Owner string `yaml:"owner,omitempty" json:"owner,omitempty"`
	// Group is a group that the image has; root when empty.
	Group string `yaml:"group,omitempty" json:"group,omitempty"`
	// Mode is four octal digits in quotes, such as "0640"; when empty, 0755 for directories and what its owner may
	// execute, else 0644.
	Mode string `yaml:"mode,omitempty" json:"mode,omitempty"`
	// Replace allows the file to take the place of one that a package has at this path.
	Replace bool `yaml:"replace,omitempty" json:"replace,omitempty"`
}

// Entry is one path of overlay/.
type Entry struct {
	// Path is absolute in the image.
	Path string
	// Type is 0 for a regular file, fs.ModeDir or fs.ModeSymlink.
	Type fs.FileMode
	// Executable says that the owner may execute the file.
	Executable bool
	// Data is what a file holds, Target where a link leads to.
	Data   []byte
	Target string
	// File is what overlay.yaml says of it, and At where, such as "overlay.yaml:3:5"; without an entry there, At is the
	// path in the folder.
	File File
	At   string
}

// Source is the path in the configuration folder.
func (e Entry) Source() string { return path.Join(Dir, e.Path) }

// Mode is the permission bits that the entry has in the image.
func (e Entry) Mode() uint32 {
	switch {
	case e.Type == fs.ModeSymlink:
		return 0o777
	case e.File.Mode != "":
		var mode uint32
		for _, digit := range e.File.Mode { // Check lets only octal digits pass.
			mode = mode<<3 | uint32(digit-'0')&7
		}
		return mode
	case e.Type == fs.ModeDir || e.Executable:
		return 0o755
	}
	return 0o644
}

// Report is told of a problem with a path of the folder.
type Report func(name, format string, args ...any)

// Read reads the folder overlay/ of a configuration, sorted by path; there is nothing to read where it does not exist.
// What is not to be in it is reported and left out.
func Read(fsys fs.FS, report Report) []Entry {
	info, err := fs.Lstat(fsys, Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	switch {
	case err != nil:
		report(Dir, "cannot be read: %v", plain(err))
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		report(Dir, "is a link; make it a folder with the files in it")
		return nil
	case !info.IsDir():
		report(Dir, "is not a folder; make it one, with each file at the path that it has in the image")
		return nil
	}
	r := reader{fsys: fsys, report: report}
	if err := fs.WalkDir(fsys, Dir, r.visit); err != nil && !errors.Is(err, errEnough) {
		report(Dir, "cannot be read: %v", plain(err))
	}
	return r.entries
}

// errEnough ends a walk after a bound was reported.
var errEnough = errors.New("enough")

type reader struct {
	fsys    fs.FS
	report  Report
	entries []Entry
	bytes   int64
}

func (r *reader) visit(name string, d fs.DirEntry, err error) error {
	if err != nil {
		r.report(name, "cannot be read: %v", plain(err))
		return fs.SkipDir
	}
	if name == Dir {
		return nil
	}
	if len(r.entries) == maxEntries {
		r.report(Dir, "holds more than %d files, links and directories; make a Debian package of them, or fewer",
			maxEntries)
		return errEnough
	}
	e := Entry{Path: strings.TrimPrefix(name, Dir), Type: d.Type(), At: name}
	if problem := badName(e.Path); problem != "" {
		r.report(name, "%s", problem)
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	switch d.Type() {
	case fs.ModeDir:
	case fs.ModeSymlink:
		if e.Target, err = fs.ReadLink(r.fsys, name); err != nil {
			r.report(name, "cannot be read: %v", plain(err))
			return nil
		}
		if problem := badTarget(e.Path, e.Target); problem != "" {
			r.report(name, "%s", problem)
			return nil
		}
	default:
		if !r.file(name, d, &e) {
			return nil
		}
		if r.bytes += int64(len(e.Data)); r.bytes > maxBytes {
			r.report(Dir, "holds more than %d MiB; make a Debian package of large files", maxBytes>>20)
			return errEnough
		}
	}
	r.entries = append(r.entries, e)
	return nil
}

// file reads a regular file, and reports anything else.
func (r *reader) file(name string, d fs.DirEntry, e *Entry) bool {
	info, err := d.Info()
	if err != nil {
		r.report(name, "cannot be read: %v", plain(err))
		return false
	}
	if err := regular.Check(info); err != nil {
		r.report(name, "%v; an image has regular files, directories and links alone: make it on the machine, "+
			"by a line of tmpfiles.d(5)", err)
		return false
	}
	for _, bit := range []struct {
		mode fs.FileMode
		name string
	}{{fs.ModeSetuid, "set-user-ID"}, {fs.ModeSetgid, "set-group-ID"}} {
		if info.Mode()&bit.mode != 0 {
			r.report(name, "has %s, which gives rights to whoever starts it; remove it (chmod ug-s), "+
				"and let a unit start the program as the user that it needs", bit.name)
			return false
		}
	}
	e.Executable = info.Mode()&0o100 != 0
	f, err := r.fsys.Open(name)
	if err != nil {
		r.report(name, "cannot be read: %v", plain(err))
		return false
	}
	defer f.Close()
	var data bytes.Buffer
	if _, err := io.Copy(&data, io.LimitReader(f, maxBytes+1)); err != nil {
		r.report(name, "cannot be read: %v", plain(err))
		return false
	}
	e.Data = data.Bytes()
	return true
}

// badName says what is wrong with a path; empty for one that an image can have.
func badName(name string) string {
	if len(name) > maxPath {
		return fmt.Sprintf("its path has more than %d bytes; make it shorter", maxPath)
	}
	if len(path.Base(name)) > maxName {
		return fmt.Sprintf("its name has more than %d bytes; make it shorter", maxName)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, isControl) {
		return "its name has control characters or bytes that are not UTF-8; rename it"
	}
	return ""
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// badTarget says what is wrong with where a link leads; empty for one that stays in the folder, which is / of the
// image.
func badTarget(name, target string) string {
	depth := strings.Count(name, "/") - 1 // of the directory that the link is in
	switch {
	case target == "" || len(target) > maxPath || strings.ContainsFunc(target, isControl):
		return "is a link to a name that no file has; make it anew"
	case path.IsAbs(target):
		return fmt.Sprintf("is a link to %s, out of the folder; write where it leads to from where it is, such as %s",
			target, strings.Repeat("../", depth)+strings.TrimLeft(path.Clean(target), "/"))
	}
	for _, element := range strings.Split(target, "/") {
		switch element {
		case "", ".":
		case "..":
			depth--
		default:
			depth++
		}
		if depth < 0 {
			return fmt.Sprintf("is a link to %s, out of the folder; %s/ is / of the image: use fewer ..", target, Dir)
		}
	}
	return ""
}

// plain drops the operation and path that the place of the problem says already.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
