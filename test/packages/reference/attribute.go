package reference

import (
	"archive/tar"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// infoDir has dpkg's lists of files, and the maintainer scripts.
const infoDir = "/var/lib/dpkg/info"

// scriptKinds are the maintainer scripts that run when a package is installed.
var scriptKinds = []string{"preinst", "postinst", "config"}

// attribute finds the package of each path: the one whose list has it; else, for a link, the one that has what it leads
// to, and for a record of deb-systemd-helper the one that has the unit; else the one whose script names it, or names a
// folder that it is in; else the one that dpkg configured while the file was made, where that is but one.
func (a *archive) attribute(log string) error {
	owners := a.owners()
	windows, err := readLog(log)
	if err != nil {
		return err
	}
	scripts := a.scripts()
	for name, f := range a.files {
		owner, listed := owners[name]
		if f.Package = owner; listed || strings.HasPrefix(name, "/var/lib/dpkg/") {
			a.files[name] = f
			continue
		}
		busy := during(windows, a.nanos[name])
		switch named := naming(scripts, name); {
		case owners[about(name, f)] != "":
			f.Package = owners[about(name, f)]
		case len(named) == 1:
			f.Package = named[0]
		case len(both(named, busy)) == 1:
			f.Package = both(named, busy)[0]
		case len(named) == 0 && len(busy) == 1:
			f.Package = busy[0]
		}
		a.files[name] = f
	}
	return nil
}

// owners reads dpkg's lists. A folder that several packages have is nobody's.
func (a *archive) owners() map[string]string {
	out, shared := map[string]string{}, map[string]bool{}
	for file, data := range a.data {
		list, ok := strings.CutSuffix(file, ".list")
		if !ok {
			continue
		}
		pkg, _, _ := strings.Cut(path.Base(list), ":")
		for line := range strings.Lines(string(data)) {
			name := merged(path.Clean(strings.TrimSuffix(line, "\n")))
			if other := out[name]; other != "" && other != pkg {
				shared[name] = true
			}
			out[name] = pkg
		}
	}
	for name := range shared {
		out[name] = ""
	}
	// dpkg's diversions are three lines each: the path, the path that the file is at instead, and the package.
	lines := strings.Split(string(a.data["/var/lib/dpkg/diversions"]), "\n")
	for i := 0; i+2 < len(lines); i += 3 {
		out[merged(lines[i+1])] = out[merged(lines[i])]
	}
	return out
}

// about is the path that a link or a record is about, or empty.
func about(name string, f File) string {
	if strings.HasPrefix(name, "/var/lib/systemd/deb-systemd-helper-") {
		return "/usr/lib/systemd/system/" + strings.TrimSuffix(path.Base(name), ".dsh-also")
	}
	switch {
	case f.Type != tar.TypeSymlink:
		return ""
	case path.IsAbs(f.Target):
		return merged(path.Clean(f.Target))
	}
	return merged(path.Join(path.Dir(name), f.Target))
}

// merged is where a path is since /usr is merged.
func merged(name string) string {
	for _, dir := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/"} {
		if strings.HasPrefix(name, dir) {
			return "/usr" + name
		}
	}
	return name
}

// script is the text of all scripts of a package.
type script struct{ pkg, text string }

func (a *archive) scripts() []script {
	texts := map[string]string{}
	for file, data := range a.data {
		base := path.Base(file)
		kind := strings.TrimPrefix(path.Ext(base), ".")
		if path.Dir(file) == infoDir && slices.Contains(scriptKinds, kind) {
			pkg, _, _ := strings.Cut(strings.TrimSuffix(base, path.Ext(base)), ":")
			texts[pkg] += string(data) + "\n"
		}
	}
	var out []script
	for pkg, text := range texts {
		out = append(out, script{pkg, text})
	}
	slices.SortFunc(out, func(a, b script) int { return strings.Compare(a.pkg, b.pkg) })
	return out
}

// naming are the packages whose scripts name the path, or else the nearest folder above it that some script names.
// Folders that everybody names say nothing.
func naming(scripts []script, name string) []string {
	for p := name; strings.Count(p, "/") > 2; p = path.Dir(p) {
		if found := mentions(scripts, p); len(found) > 0 {
			return found
		}
	}
	return mentions(scripts, name)
}

func mentions(scripts []script, name string) (out []string) {
	word := regexp.MustCompile(regexp.QuoteMeta(name) + `($|[^A-Za-z0-9_.-])`)
	for _, s := range scripts {
		if strings.Contains(s.text, name) && word.MatchString(s.text) {
			out = append(out, s.pkg)
		}
	}
	return out
}

func both(a, b []string) (out []string) {
	for _, name := range a {
		if slices.Contains(b, name) {
			out = append(out, name)
		}
	}
	return out
}

// window is the time in which dpkg configured a package, in nanoseconds since the epoch.
type window struct {
	pkg      string
	from, to int64
}

// readLog reads dpkg's log, whose times are whole seconds of the machine's own zone.
func readLog(text string) ([]window, error) {
	open := map[string]int64{}
	var out []window
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		at, err := time.ParseInLocation(time.DateTime, f[0]+" "+f[1], time.Local)
		if err != nil {
			return nil, fmt.Errorf("dpkg's log: %w", err)
		}
		switch {
		case f[2] == "configure":
			pkg, _, _ := strings.Cut(f[3], ":")
			open[pkg] = at.UnixNano()
		case f[2] == "status" && f[3] == "installed" && len(f) > 4:
			pkg, _, _ := strings.Cut(f[4], ":")
			if from, ok := open[pkg]; ok {
				out = append(out, window{pkg, from, at.Add(time.Second).UnixNano()})
				delete(open, pkg)
			}
		}
	}
	return out, nil
}

// during are the packages that were configured at a time.
func during(windows []window, at int64) (out []string) {
	for _, w := range windows {
		if w.from <= at && at < w.to && !slices.Contains(out, w.pkg) {
			out = append(out, w.pkg)
		}
	}
	return out
}
