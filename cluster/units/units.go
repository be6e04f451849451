// Package units reads the systemd units of a user's own: the folder units/ of a configuration, with unit files and
// drop-ins as systemd reads them in /etc/systemd/system, where the image has them.
//
// It checks what can be known without an image: names, form, sections, and that nothing touches the units of Spore.
// Whether programs and users of a unit are in the image shows when the root is composed (builder/recipe).
package units

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/regular"
	"spore/cluster/units/unitfile"
)

// Dir is the folder in the configuration folder.
const Dir = "units"

// maxUnits is the number of files in it, drop-ins included.
const maxUnits = 200

// File is a unit file or a drop-in.
type File struct {
	// Path is inside units/: NAME or NAME.d/FILE.conf.
	Path string
	Data []byte
	// Settings are what it says, in the order of the lines.
	Settings []unitfile.Setting
}

// Source is the path in the configuration folder.
func (f File) Source() string { return path.Join(Dir, f.Path) }

// Unit is the name of the unit that the file is, or that it adds to.
func (f File) Unit() string {
	if dir, _, dropIn := strings.Cut(f.Path, "/"); dropIn {
		return strings.TrimSuffix(dir, ".d")
	}
	return f.Path
}

// DropIn says that the file adds to a unit.
func (f File) DropIn() bool { return strings.Contains(f.Path, "/") }

// Masks says that the file is empty and no drop-in: systemd then takes the unit as masked (systemd.unit(5)).
func (f File) Masks() bool { return len(f.Data) == 0 && !f.DropIn() }

// Installs says that the file has an [Install] section that starts the unit with another one.
func (f File) Installs() bool {
	return slices.ContainsFunc(f.Settings, func(s unitfile.Setting) bool {
		return s.Section == "Install" && s.Value != "" &&
			slices.Contains([]string{"WantedBy", "RequiredBy", "UpheldBy", "Alias"}, s.Key)
	})
}

// Starts is the unit that a timer, path or socket starts (systemd.timer(5), systemd.path(5), systemd.socket(5)); empty
// for other units, and for drop-ins.
func (f File) Starts() string {
	kind := path.Ext(f.Path)
	key, accept := "Unit", false
	switch {
	case f.DropIn() || f.Masks():
		return ""
	case kind == ".socket":
		key = "Service"
	case kind != ".timer" && kind != ".path":
		return ""
	}
	starts := strings.TrimSuffix(f.Path, kind) + ".service"
	for _, s := range f.Settings {
		switch {
		case s.Key == key && s.Section != "Unit" && s.Value != "":
			return s.Value
		case s.Key == "Accept":
			accept = unitfile.Yes(s.Value)
		}
	}
	if accept { // one instance for each connection
		starts = strings.TrimSuffix(f.Path, kind) + "@.service"
	}
	return starts
}

// Line is the line of an assignment, or 1 where the file has no such one.
func (f File) Line(key, value string) int {
	for _, s := range f.Settings {
		if s.Key == key && s.Value == value {
			return s.Line
		}
	}
	return 1
}

// Reader is what Read works with.
type Reader struct {
	FS fs.FS
	// Report is told of a problem with a file of the folder.
	Report func(name string, line, column int, format string, args ...any)
}

// Read reads the folder units/ of a configuration, sorted by path; there is nothing to read where it does not exist.
// What is not to be in it is reported and left out. Hidden files are passed over, as systemd does.
func (r Reader) Read() []File {
	info, err := fs.Lstat(r.FS, Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	switch {
	case err != nil:
		r.fail(Dir, "cannot be read: %v", plain(err))
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		r.fail(Dir, "is a link; make it a folder with the units in it")
		return nil
	case !info.IsDir():
		r.fail(Dir, "is not a folder; make it one, with units and NAME.d/*.conf in it")
		return nil
	}
	var out []File
	for _, d := range r.list(Dir) {
		name := path.Join(Dir, d.Name())
		switch {
		case !d.IsDir() && r.unitName(name, d.Name()):
			out = append(out, r.file(name, d)...)
		case d.IsDir() && r.dropInFolder(name, d.Name()):
			for _, e := range r.list(name) {
				p := path.Join(name, e.Name())
				if path.Ext(e.Name()) != ".conf" {
					r.fail(p, "systemd reads *.conf alone in a folder of drop-ins; rename it to %s.conf",
						strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
					continue
				}
				out = append(out, r.file(p, e)...)
			}
		}
		if len(out) > maxUnits {
			r.fail(Dir, "holds more than %d units and drop-ins; make a Debian package of them, or fewer", maxUnits)
			return out[:maxUnits]
		}
	}
	return out
}

func (r Reader) fail(name, format string, args ...any) { r.Report(name, 1, 1, format, args...) }

// list is what is in a folder and not hidden.
func (r Reader) list(dir string) []fs.DirEntry {
	entries, err := fs.ReadDir(r.FS, dir)
	if err != nil {
		r.fail(dir, "cannot be read: %v", plain(err))
	}
	return slices.DeleteFunc(entries, func(d fs.DirEntry) bool { return strings.HasPrefix(d.Name(), ".") })
}

// unitName checks the name of a unit file.
func (r Reader) unitName(name, unit string) bool {
	kind := path.Ext(unit)
	switch {
	case kind == ".device" || kind == ".scope":
		r.fail(name, "systemd loads no %s units from files; write one of %s", kind, check.OrWords(unitfile.Kinds()))
	case !slices.Contains(unitfile.Kinds(), kind):
		r.fail(name, "systemd would not load a unit of this name: the end says what it is%s",
			suggest(kind, "; rename it to NAME"+check.OrWords(unitfile.Kinds())))
	case forPrefix(unit):
		r.fail(name, "the name ends in - before the kind or the @, and drop-ins of such a name change all units of the "+
			"prefix, those of Spore too; write the name without that -")
	case !validName(unit):
		r.fail(name, "systemd would not load a unit of this name; write at most %d letters, digits and any of "+
			":-_.\\, with one @ in a template",
			maxName)
	default:
		return true
	}
	return false
}

// dropInFolder checks the name of a folder, which is NAME.d.
func (r Reader) dropInFolder(name, dir string) bool {
	unit, isDropIn := strings.CutSuffix(dir, ".d")
	kind := path.Ext(unit)
	for _, links := range []string{".wants", ".requires", ".upholds"} {
		if strings.HasSuffix(dir, links) {
			r.fail(name, "write it into the [Install] section of the unit that is to start: WantedBy=%s",
				strings.TrimSuffix(dir, links))
			return false
		}
	}
	switch {
	case !isDropIn:
		r.fail(name, "systemd would not read this folder; drop-ins for a unit are in NAME.d, such as nginx.service.d")
	case slices.Contains(unitfile.Kinds(), "."+unit) || forPrefix(unit):
		r.fail(name, "drop-ins for all units of a kind or a prefix change those of Spore too; write one for each "+
			"unit, such as nginx.service.d")
	case !slices.Contains(unitfile.Kinds(), kind) || !validName(unit):
		r.fail(name, "%q is not the name of a unit; drop-ins for a unit are in NAME.d, such as nginx.service.d",
			check.Clip(unit))
	default:
		return true
	}
	return false
}

// forPrefix tells whether drop-ins of a name are for all units that begin with it, and for their instances
// (systemd.unit(5)).
func forPrefix(unit string) bool {
	prefix, _, _ := strings.Cut(strings.TrimSuffix(unit, path.Ext(unit)), "@")
	return strings.HasSuffix(prefix, "-")
}

// suggest asks for the end of a name that was probably meant, or says something else.
func suggest(kind, otherwise string) string {
	if hint := check.Suggest(kind, unitfile.Kinds()); hint != "" && kind != "" {
		return hint
	}
	return otherwise
}

// maxName is the length of a unit's name in bytes (systemd.unit(5)).
const maxName = 255

// validName tells whether systemd loads a unit of a name with a known end (unit_name_is_valid).
func validName(unit string) bool {
	stem := strings.TrimSuffix(unit, path.Ext(unit))
	prefix, _, _ := strings.Cut(stem, "@")
	return len(unit) <= maxName && prefix != "" && !strings.ContainsFunc(stem, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(`:-_.\@`, r)
	})
}

// file reads one file, or reports why not.
func (r Reader) file(name string, d fs.DirEntry) []File {
	info, err := d.Info()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		r.fail(name, "is a link; write the unit itself: an empty file masks a unit of a package, and Alias= in "+
			"its [Install] section gives a second name")
		return nil
	}
	if err == nil {
		err = regular.Check(info)
	}
	if err != nil {
		r.fail(name, "cannot be read: %v; put a regular file there", plain(err))
		return nil
	}
	f, err := r.FS.Open(name)
	if err != nil {
		r.fail(name, "cannot be read: %v", plain(err))
		return nil
	}
	defer f.Close()
	var data bytes.Buffer
	if _, err := io.Copy(&data, io.LimitReader(f, unitfile.MaxSize+1)); err != nil {
		r.fail(name, "cannot be read: %v", plain(err))
		return nil
	}
	out := File{Path: strings.TrimPrefix(name, Dir+"/"), Data: data.Bytes()}
	settings, faults := unitfile.Parse(out.Data, path.Ext(out.Unit()))
	for _, fault := range faults {
		r.Report(name, fault.Line, fault.Column, "%s", fault.Message)
	}
	out.Settings = settings
	return []File{out}
}

// plain drops the operation and path that the place of the problem says already.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
