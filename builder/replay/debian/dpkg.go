package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"spore/builder/deb/version"
	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/tree"
)

// Diversion is a path of other packages that dpkg lays elsewhere (dpkg-divert(1)).
type Diversion struct {
	To string
	// Package is not diverted itself; empty for a local diversion, which diverts all.
	Package string
}

// Override is an owner and mode that dpkg gives a path of any package (dpkg-statoverride(1)).
type Override struct {
	UID, GID uint32
	Mode     uint32
}

// Divert returns where dpkg lays a path of a package.
func (t *Tools) Divert(pkg, p string) string {
	if d, ok := t.diversions[p]; ok && d.Package != pkg {
		return d.To
	}
	return p
}

// Overrides are the paths with an owner and mode of their own.
func (t *Tools) Overrides() map[string]Override { return maps.Clone(t.overrides) }

// dpkg answers questions of scripts; it never changes a package.
func (t *Tools) dpkg(ctx context.Context, c *command.Call) (int, error) {
	args := slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool {
		return strings.HasPrefix(a, "--admindir") || strings.HasPrefix(a, "--root=") || strings.HasPrefix(a, "--force-") || a == "--no-pager"
	})
	if len(args) == 0 {
		return c.Fail(2, "need an action option")
	}
	switch a := args[0]; {
	case a == "--compare-versions" && len(args) >= 3:
		return compareVersions(c, args[1:])
	case a == "--print-architecture":
		fmt.Fprintln(c.Stdout, "amd64")
		return 0, nil
	case a == "--print-foreign-architectures", strings.HasPrefix(a, "--assert-"), strings.HasPrefix(a, "--validate-"):
		return 0, nil
	case slices.Contains([]string{"-s", "--status", "-l", "--list", "-L", "--listfiles", "-S", "--search", "-W", "--show"}, a):
		c := *c
		c.Args = args
		return t.dpkgQuery(ctx, &c)
	}
	return c.Unknown(args[0])
}

// compareVersions is dpkg --compare-versions. An empty version is before all others, and behind them with the operators
// that end in -nl.
func compareVersions(c *command.Call, args []string) (int, error) {
	a, op, b := args[0], args[1], ""
	if len(args) > 2 {
		b = args[2]
	}
	relation, nl := strings.CutSuffix(op, "-nl")
	order := 0
	switch {
	case a == "" && b == "":
	case a == "" || b == "":
		order = 1
		if (a == "") != nl {
			order = -1
		}
	default:
		for _, v := range []string{a, b} {
			if err := version.Check(v); err != nil {
				fmt.Fprintf(c.Stderr, "dpkg: warning: version '%s' has bad syntax: %v\n", v, err)
				return 1, nil
			}
		}
		order = version.Compare(a, b)
	}
	var holds bool
	switch relation {
	case "lt", "<<":
		holds = order < 0
	case "le", "<=", "<":
		holds = order <= 0
	case "eq", "=":
		holds = order == 0
	case "ne":
		holds = order != 0
	case "ge", ">=", ">":
		holds = order >= 0
	case "gt", ">>":
		holds = order > 0
	default:
		return c.Fail(2, "--compare-versions bad relation")
	}
	if holds {
		return 0, nil
	}
	return 1, nil
}

// dpkgQuery is dpkg-query(1): all packages of the image are installed, that of the running script is being configured.
func (t *Tools) dpkgQuery(_ context.Context, c *command.Call) (int, error) {
	action, format := "", "${binary:Package}\t${Version}\n"
	var names []string
	for i := 0; i < len(c.Args); i++ {
		a := c.Args[i]
		value, isFormat := strings.CutPrefix(a, "--showformat=")
		short, isShort := strings.CutPrefix(a, "-f")
		switch {
		case isFormat:
			format = value
		case isShort && short != "":
			format = strings.TrimPrefix(short, "=")
		case (a == "-f" || a == "--showformat") && i+1 < len(c.Args):
			i++
			format = c.Args[i]
		case a == "-W" || a == "--show" || a == "-s" || a == "--status" || a == "-l" || a == "--list" || a == "-L" || a == "--listfiles" || a == "-S" || a == "--search" ||
			a == "--control-path" || a == "-c" || a == "--control-list":
			action = strings.TrimLeft(a, "-")[:1]
			if a == "--search" || a == "-S" {
				action = "S"
			} else if a == "-s" || a == "--status" {
				action = "s"
			} else if a == "--show" || a == "-W" {
				action = "W"
			} else if a == "--listfiles" || a == "-L" {
				action = "L"
			}
		case strings.HasPrefix(a, "-Wf"):
			action, format = "W", strings.TrimPrefix(strings.TrimPrefix(a, "-Wf"), "=")
			if format == "" && i+1 < len(c.Args) {
				i++
				format = c.Args[i]
			}
		case strings.HasPrefix(a, "--admindir") || a == "--no-pager":
		case strings.HasPrefix(a, "-"):
			return c.Unknown(a)
		default:
			names = append(names, a)
		}
	}
	if action == "S" {
		return t.search(c, names)
	}
	if action == "c" {
		return 1, nil
	}
	found, missing := t.match(names)
	for _, name := range found {
		p := t.packages[name]
		switch action {
		case "W":
			fmt.Fprint(c.Stdout, t.format(format, name, p))
		case "s":
			fmt.Fprintf(c.Stdout, "Package: %s\nStatus: install ok installed\nVersion: %s\nArchitecture: amd64\n\n", name, p.Version)
		case "l":
			fmt.Fprintf(c.Stdout, "ii  %s %s amd64 %s\n", name, p.Version, name)
		case "L":
			if p.Paths != nil {
				for _, f := range p.Paths() {
					fmt.Fprintln(c.Stdout, f)
				}
			}
		default:
			return c.Unknown(strings.Join(c.Args, " "))
		}
	}
	for _, name := range missing {
		fmt.Fprintf(c.Stderr, "%s: no packages found matching %s\n", c.Name, name)
	}
	if len(missing) > 0 {
		return 1, nil
	}
	return 0, nil
}

// match finds packages by name or pattern; no name is all.
func (t *Tools) match(names []string) (found, missing []string) {
	all := slices.Sorted(maps.Keys(t.packages))
	if len(names) == 0 {
		return all, nil
	}
	for _, pattern := range names {
		plain, _, _ := strings.Cut(pattern, ":")
		any := false
		for _, name := range all {
			if ok, _ := path.Match(plain, name); ok {
				found, any = append(found, name), true
			}
		}
		if !any {
			missing = append(missing, pattern)
		}
	}
	return found, missing
}

func (t *Tools) format(format, name string, p Package) string {
	var conffiles strings.Builder
	for _, f := range p.Conffiles {
		fmt.Fprintf(&conffiles, "\n %s 00000000000000000000000000000000", f)
	}
	return strings.NewReplacer("${Package}", name, "${binary:Package}", name, "${Version}", p.Version, "${Architecture}", "amd64",
		"${Status}", "install ok installed", "${db:Status-Status}", "installed", "${db:Status-Abbrev}", "ii ", "${db:Status-Want}", "install",
		"${Conffiles}", conffiles.String(), `\n`, "\n", `\t`, "\t", "${source:Version}", p.Version, "${Multi-Arch}", "").Replace(format)
}

// search is dpkg -S: which package ships a path.
func (t *Tools) search(c *command.Call, patterns []string) (int, error) {
	status := 0
	for _, pattern := range patterns {
		any := false
		for _, name := range slices.Sorted(maps.Keys(t.packages)) {
			p := t.packages[name]
			if p.Paths == nil {
				continue
			}
			for _, f := range p.Paths() {
				if ok, _ := path.Match(pattern, f); ok || f == pattern || !strings.HasPrefix(pattern, "/") && strings.Contains(f, pattern) {
					fmt.Fprintf(c.Stdout, "%s: %s\n", name, f)
					any = true
				}
			}
		}
		if !any {
			fmt.Fprintf(c.Stderr, "dpkg-query: no path found matching pattern %s\n", pattern)
			status = 1
		}
	}
	return status, nil
}

// dpkgDivert is dpkg-divert(1).
func (t *Tools) dpkgDivert(_ context.Context, c *command.Call) (int, error) {
	action, pkg, to, rename := "--add", "", "", false
	local := true
	var names []string
	for i := 0; i < len(c.Args); i++ {
		a, value, hasValue := strings.Cut(c.Args[i], "=")
		take := func() string {
			if !hasValue && i+1 < len(c.Args) {
				i++
				value = c.Args[i]
			}
			return value
		}
		switch a {
		case "--add", "--remove", "--list", "--listpackage", "--truename":
			action = a
		case "--package":
			pkg, local = take(), false
		case "--divert":
			to = take()
		case "--rename":
			rename = true
		case "--local":
			pkg, local = "", true
		case "--no-rename", "--quiet", "--test":
		case "--admindir", "--instdir", "--root":
			take()
		default:
			if strings.HasPrefix(a, "-") {
				return c.Unknown(a)
			}
			names = append(names, c.Args[i])
		}
	}
	if action == "--list" {
		return t.listDiversions(c, names)
	}
	if len(names) != 1 {
		return c.Fail(2, "%s needs a single argument", action)
	}
	p := path.Clean(names[0])
	d, diverted := t.diversions[p]
	switch action {
	case "--truename":
		if diverted {
			p = d.To
		}
		fmt.Fprintln(c.Stdout, p)
		return 0, nil
	case "--listpackage":
		if diverted {
			fmt.Fprintln(c.Stdout, d.Package)
		}
		return 0, nil
	case "--remove":
		if !diverted {
			return 0, nil
		}
		delete(t.diversions, p)
		if rename {
			return 0, t.renameIfThere(d.To, p)
		}
		return 0, nil
	}
	if to == "" {
		to = p + ".distrib"
	}
	if local {
		pkg = ""
	} else if pkg == "" {
		pkg = t.current
	}
	if ours(p) || ours(to) {
		return 0, fmt.Errorf("dpkg-divert %s: it would hide a file of Spore: %w", p, files.ErrRefused)
	}
	if diverted {
		if d == (Diversion{to, pkg}) {
			return 0, nil
		}
		return c.Fail(2, "'%s' clashes with a diversion by %s", p, d.Package)
	}
	t.diversions[p] = Diversion{to, pkg}
	if rename {
		return 0, t.renameIfThere(p, to)
	}
	return 0, nil
}

// ours tells whether a path is one of Spore's programs or units.
func ours(p string) bool {
	return strings.HasPrefix(path.Base(p), "spore") || path.Base(p) == "mount.spore" || path.Base(p) == "mkfs.spore" || strings.HasPrefix(p, "/usr/lib/spore/") ||
		strings.HasPrefix(p, "/etc/systemd/system/")
}

func (t *Tools) renameIfThere(from, to string) error {
	if _, err := t.files.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := t.files.Lstat(to); err == nil {
		return nil // dpkg refuses to overwrite; what is there is newer
	}
	return t.files.Rename(from, to)
}

func (t *Tools) listDiversions(c *command.Call, patterns []string) (int, error) {
	status := 1
	for _, p := range slices.Sorted(maps.Keys(t.diversions)) {
		d := t.diversions[p]
		for _, pattern := range append(patterns, map[bool]string{true: "*"}[len(patterns) == 0]) {
			ok, _ := path.Match(pattern, p)
			if ok || pattern == d.To || pattern == d.Package && d.Package != "" || pattern == "*" {
				by := "by " + d.Package
				if d.Package == "" {
					by = "local"
				}
				fmt.Fprintf(c.Stdout, "diversion of %s to %s %s\n", p, d.To, by)
				status = 0
				break
			}
		}
	}
	return status, nil
}

// dpkgStatoverride is dpkg-statoverride(1). What it adds is given to the path now, where it is there: the same as on
// the next unpacking.
func (t *Tools) dpkgStatoverride(_ context.Context, c *command.Call) (int, error) {
	var words []string
	action := ""
	for _, a := range c.Args {
		switch {
		case a == "--add" || a == "--remove" || a == "--list":
			action = a
		case a == "--update" || a == "--force" || a == "--quiet" || strings.HasPrefix(a, "--force-") || strings.HasPrefix(a, "--admindir"):
		case strings.HasPrefix(a, "--"):
			return c.Unknown(a)
		default:
			words = append(words, a)
		}
	}
	switch {
	case action == "--list":
		return t.listOverrides(c, words)
	case action == "--remove" && len(words) == 1:
		delete(t.overrides, path.Clean(words[0]))
		return 0, nil
	case action != "--add" || len(words) != 4:
		return c.Fail(2, "--add needs four arguments")
	}
	uid, ok := lookup(words[0], t.names.UserID)
	if !ok {
		return c.Fail(2, "user '%s' does not exist", words[0])
	}
	gid, ok := lookup(words[1], t.names.GroupID)
	if !ok {
		return c.Fail(2, "group '%s' does not exist", words[1])
	}
	mode, err := strconv.ParseUint(words[2], 8, 32)
	if err != nil || mode > 0o7777 {
		return c.Fail(2, "mode '%s' is not valid", words[2])
	}
	p := path.Clean(words[3])
	t.overrides[p] = Override{uid, gid, uint32(mode)}
	return 0, t.Override(p)
}

// lookup takes a name, or a number behind "#".
func lookup(name string, by func(string) (uint32, bool)) (uint32, bool) {
	if n, ok := strings.CutPrefix(name, "#"); ok {
		id, err := strconv.ParseUint(n, 10, 32)
		return uint32(id), err == nil
	}
	return by(name)
}

// Override gives a path what was asked for it.
func (t *Tools) Override(p string) error {
	o, ok := t.overrides[p]
	if !ok {
		return nil
	}
	err := t.files.Change(p, true, func(n *tree.Inode) { n.UID, n.GID, n.Mode = o.UID, o.GID, o.Mode })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *Tools) listOverrides(c *command.Call, patterns []string) (int, error) {
	status := 1
	for _, p := range slices.Sorted(maps.Keys(t.overrides)) {
		for _, pattern := range append(patterns, map[bool]string{true: p}[len(patterns) == 0]) {
			if ok, _ := path.Match(pattern, p); ok {
				o := t.overrides[p]
				fmt.Fprintf(c.Stdout, "#%d #%d %o %s\n", o.UID, o.GID, o.Mode, p)
				status = 0
				break
			}
		}
	}
	return status, nil
}

// maintscriptHelper is dpkg-maintscript-helper(1). All that it does is about an older version of the package, and there
// is none.
func maintscriptHelper(_ context.Context, c *command.Call) (int, error) {
	if len(c.Args) == 0 {
		return c.Fail(1, "missing arguments")
	}
	switch c.Args[0] {
	case "supports", "rm_conffile", "mv_conffile", "symlink_to_dir", "dir_to_symlink", "finish_dir_to_symlink":
		return 0, nil
	}
	return c.Unknown(c.Args[0])
}

// dpkgTrigger is dpkg-trigger(1).
func (t *Tools) dpkgTrigger(_ context.Context, c *command.Call) (int, error) {
	for _, a := range c.Args {
		switch {
		case a == "--check-supported", a == "--no-await", a == "--await", a == "--no-act", strings.HasPrefix(a, "--by-package"), strings.HasPrefix(a, "--admindir"):
		case strings.HasPrefix(a, "-"):
			return c.Unknown(a)
		default:
			t.triggers[a] = true
		}
	}
	return 0, nil
}

func dpkgArchitecture(_ context.Context, c *command.Call) (int, error) {
	values := map[string]string{
		"DEB_HOST_ARCH": "amd64", "DEB_BUILD_ARCH": "amd64", "DEB_HOST_MULTIARCH": "x86_64-linux-gnu", "DEB_BUILD_MULTIARCH": "x86_64-linux-gnu",
		"DEB_HOST_GNU_TYPE": "x86_64-linux-gnu", "DEB_HOST_ARCH_OS": "linux", "DEB_HOST_ARCH_CPU": "amd64", "DEB_HOST_ARCH_BITS": "64",
	}
	for i, a := range c.Args {
		name, ok := strings.CutPrefix(a, "-q")
		if ok && name == "" && i+1 < len(c.Args) {
			name = c.Args[i+1]
		}
		if v := values[name]; ok && v != "" {
			fmt.Fprintln(c.Stdout, v)
			return 0, nil
		}
	}
	return c.Unknown(strings.Join(c.Args, " "))
}

func arch(_ context.Context, c *command.Call) (int, error) {
	fmt.Fprintln(c.Stdout, "x86_64")
	return 0, nil
}

// dpkgRealpath is dpkg-realpath(1): the path with all symbolic links followed.
func dpkgRealpath(_ context.Context, c *command.Call) (int, error) {
	for i := 0; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case a == "--root" || a == "--admindir":
			i++
		case a == "--zero":
			return c.Unknown(a)
		case strings.HasPrefix(a, "-"):
		default:
			p, err := c.Files.Resolve(c.Path(a))
			if err != nil {
				return c.Fail(1, "cannot resolve %s", a)
			}
			fmt.Fprintln(c.Stdout, p)
			return 0, nil
		}
	}
	return c.Fail(2, "missing pathname")
}
