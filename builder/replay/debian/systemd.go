package debian

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/tree"
)

// systemdHelper is deb-systemd-helper(1p): what postinst scripts made by debhelper tell of units. They are enabled by
// the recipe, which knows what else runs in the image.
func (t *Tools) systemdHelper(_ context.Context, c *command.Call) (int, error) {
	words, user := withoutOptions(c.Args)
	if len(words) == 0 {
		return c.Fail(1, "no action")
	}
	action, units := words[0], words[1:]
	switch action {
	case "was-enabled", "unmask", "update-state", "purge":
		return 0, nil
	case "debian-installed":
		return 1, nil // true only of a unit that an older version has installed
	case "enable", "reenable", "disable", "mask":
		t.decide(action, units, user)
		return 0, nil
	case "is-enabled":
		return t.isEnabled(units), nil
	case "start", "restart", "stop":
		return 0, nil
	}
	return c.Unknown(action)
}

// decide keeps what a script decides about units. Those of user managers do not count: images have none.
func (t *Tools) decide(action string, units []string, user bool) {
	switch {
	case action == "disable":
		t.disable(units)
	case action == "mask":
		t.mask(units)
	case !user:
		t.enable(units)
	}
}

// isEnabled is the status of a question for units: 0 where a script has enabled one of them.
func (t *Tools) isEnabled(units []string) int {
	for _, u := range units {
		if t.units[unitName(u)].Enabled {
			return 0
		}
	}
	return 1
}

// systemctl is systemctl(1) in a chroot: it enables and masks units; nothing runs that it could ask or start.
func (t *Tools) systemctl(_ context.Context, c *command.Call) (int, error) {
	words, user := withoutOptions(c.Args)
	if len(words) == 0 {
		return 1, nil
	}
	action, units := words[0], words[1:]
	switch action {
	case "enable", "reenable", "preset", "disable", "mask":
		t.decide(action, units, user)
		return 0, nil
	case "unmask":
		for _, u := range units {
			if have, ok := t.units[u]; ok {
				have.Masked = false
				t.units[u] = have
			}
		}
		return 0, nil
	case "is-enabled":
		return t.isEnabled(units), nil
	case "daemon-reload", "daemon-reexec", "start", "stop", "restart", "try-restart", "reload", "reload-or-restart", "try-reload-or-restart", "kill",
		"reset-failed", "condrestart", "preset-all":
		return 0, nil
	case "is-active", "is-failed", "status", "is-system-running", "show", "cat", "list-units", "list-unit-files":
		return 3, nil
	}
	return c.Unknown(action)
}

func withoutOptions(args []string) (words []string, user bool) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--user" || a == "--global":
			user = true
		case a == "--root" || a == "-n" || a == "-p" || a == "-t" || a == "--property":
			i++
		case strings.HasPrefix(a, "-"):
		default:
			words = append(words, a)
		}
	}
	return words, user
}

// unitName adds the type that systemctl assumes.
func unitName(u string) string {
	u = path.Base(u)
	if !strings.Contains(u, ".") {
		u += ".service"
	}
	return u
}

func (t *Tools) enable(units []string) {
	for _, u := range units {
		have := t.units[unitName(u)]
		have.Package, have.Enabled = t.current, true
		t.units[unitName(u)] = have
	}
}

func (t *Tools) disable(units []string) {
	for _, u := range units {
		if have, ok := t.units[unitName(u)]; ok {
			have.Enabled = false
			t.units[unitName(u)] = have
		}
	}
}

func (t *Tools) mask(units []string) {
	for _, u := range units {
		have := t.units[unitName(u)]
		have.Package, have.Masked = t.current, true
		t.units[unitName(u)] = have
	}
}

// ucf is ucf(1) for a file that is not there yet: it becomes a copy of the package's.
func (t *Tools) ucf(_ context.Context, c *command.Call) (int, error) {
	var words []string
	for i := 0; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case a == "--purge" || a == "-p":
			return 0, nil
		case a == "--sum-file" || a == "--src-dir" || a == "-s" || a == "-P" || a == "--state-dir":
			i++
		case strings.HasPrefix(a, "-"):
		default:
			words = append(words, a)
		}
	}
	if len(words) != 2 {
		return c.Fail(2, "need a new file and a destination")
	}
	from, to := c.Path(words[0]), c.Path(words[1])
	n, err := t.files.Stat(from)
	if err != nil || n.Type != tree.Regular {
		return c.Fail(1, "the new file %s does not exist", words[0])
	}
	if _, err := t.files.Stat(to); err == nil {
		return 0, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := t.files.MkdirAll(path.Dir(to), 0o755); err != nil {
		return 0, err
	}
	return 0, t.files.Copy(n, to)
}

// a2Depends is the line in which a module of Apache names others that it needs.
var a2Depends = regexp.MustCompile(`(?m)^# Depends:(.*)$`)

// dependsOf are the names in a line of dependencies.
func dependsOf(line *regexp.Regexp, text []byte) []string {
	m := line.FindSubmatch(text)
	if m == nil {
		return nil
	}
	return strings.FieldsFunc(string(m[1]), func(r rune) bool { return r == ',' || r == ' ' })
}

// a2enable is a2enmod(8) and its siblings, which are written in Perl: links from NAME-enabled to NAME-available.
func (t *Tools) a2enable(kind string, suffixes ...string) command.Func {
	return func(_ context.Context, c *command.Call) (int, error) {
		status := 0
		for names := a2names(c.Args); len(names) > 0; names = names[1:] {
			name, any := names[0], false
			for _, suffix := range suffixes {
				file := strings.TrimSuffix(name, suffix) + suffix
				if !t.files.Exists(path.Join("/etc/apache2", kind+"-available", file)) {
					continue
				}
				any = true
				link := path.Join("/etc/apache2", kind+"-enabled", file)
				if _, err := t.files.Lstat(link); err == nil {
					continue
				}
				if err := t.files.MkdirAll(path.Dir(link), 0o755); err != nil {
					return 0, err
				}
				if err := t.files.Symlink(path.Join("..", kind+"-available", file), link); err != nil {
					return 0, err
				}
				text, err := t.files.ReadFile(link)
				if err != nil {
					return 0, err
				}
				names = append(names, dependsOf(a2Depends, text)...)
			}
			if !any {
				status, _ = c.Fail(1, "%s does not exist", name)
			}
		}
		return status, nil
	}
}

func (t *Tools) a2disable(kind string, suffixes ...string) command.Func {
	return func(_ context.Context, c *command.Call) (int, error) {
		for _, name := range a2names(c.Args) {
			for _, suffix := range suffixes {
				err := t.files.Remove(path.Join("/etc/apache2", kind+"-enabled", strings.TrimSuffix(name, suffix)+suffix))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return 0, err
				}
			}
		}
		return 0, nil
	}
}

func a2names(args []string) []string {
	var out []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			out = append(out, strings.Fields(a)...)
		}
	}
	return slices.Compact(out)
}
