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

	"spore/builder/replay/command"
	"spore/builder/tree"
)

// tmpfilesDirs are where systemd-tmpfiles looks for files, the first wins (tmpfiles.d(5)).
var tmpfilesDirs = []string{"/etc/tmpfiles.d", "/usr/lib/tmpfiles.d"}

// tmpfiles is systemd-tmpfiles(8) --create as far as it changes what is on a disk: directories, files and links, owners
// and modes. What is below /run is made on each boot.
func (t *Tools) tmpfiles(_ context.Context, c *command.Call) (int, error) {
	create := false
	var names []string
	for _, a := range c.Args {
		switch {
		case a == "--create":
			create = true
		case strings.HasPrefix(a, "-"):
		default:
			names = append(names, a)
		}
	}
	if !create {
		return 0, nil
	}
	if len(names) == 0 {
		names = t.tmpfilesNames()
	}
	for _, name := range names {
		p := t.tmpfilesPath(c, name)
		data, err := t.files.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(c.Stderr, "Failed to open '%s', ignoring: No such file or directory\n", name)
			continue
		}
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(data)) {
			if err := t.tmpfilesLine(line); err != nil {
				return 0, fmt.Errorf("systemd-tmpfiles: %s: %q: %w", p, strings.TrimSpace(line), err)
			}
		}
	}
	return 0, nil
}

func (t *Tools) tmpfilesNames() []string {
	seen := map[string]bool{}
	for _, dir := range tmpfilesDirs {
		names, err := t.files.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".conf") {
				seen[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (t *Tools) tmpfilesPath(c *command.Call, name string) string {
	if strings.Contains(name, "/") {
		return c.Path(name)
	}
	for _, dir := range tmpfilesDirs {
		if t.files.Exists(path.Join(dir, name)) {
			return path.Join(dir, name)
		}
	}
	return path.Join(tmpfilesDirs[0], name)
}

// tmpfilesLine does one line: TYPE PATH MODE USER GROUP AGE ARGUMENT.
func (t *Tools) tmpfilesLine(line string) error {
	f := strings.Fields(line)
	if len(f) < 2 || strings.HasPrefix(f[0], "#") {
		return nil
	}
	kind := f[0][:1]
	// "!" is for boots alone, and "^" takes what it writes from a credential of the machine.
	p := path.Clean(strings.Trim(f[1], `"`))
	if strings.Contains(p, "%") || strings.ContainsAny(p, "*?[") || !path.IsAbs(p) || transient(p) || strings.ContainsAny(f[0][1:], "!^") {
		return nil
	}
	column := func(i int) string {
		if len(f) > i && f[i] != "-" {
			return strings.TrimLeft(f[i], "~:$")
		}
		return ""
	}
	argument := ""
	if len(f) > 6 {
		argument = strings.Join(f[6:], " ")
	}
	switch kind {
	case "d", "D", "v", "q", "Q":
		if err := t.files.MkdirAll(p, 0o755); err != nil {
			return err
		}
	case "f", "F":
		if _, err := t.files.Lstat(p); err == nil && !strings.Contains(f[0], "+") {
			return nil
		}
		if err := t.files.MkdirAll(path.Dir(p), 0o755); err != nil {
			return err
		}
		if err := t.files.WriteFile(p, []byte(argument), 0o644); err != nil {
			return err
		}
	case "L":
		if _, err := t.files.Lstat(p); err == nil {
			return nil
		}
		if argument == "" || strings.Contains(f[0], "?") {
			return nil
		}
		if err := t.files.MkdirAll(path.Dir(p), 0o755); err != nil {
			return err
		}
		return t.files.Symlink(argument, p)
	case "z", "Z", "m", "e":
		if !t.files.Exists(p) {
			return nil
		}
	default: // what cleans up, sets attributes of other filesystems or makes devices
		return nil
	}
	return t.tmpfilesOwner(p, column(2), column(3), column(4))
}

func (t *Tools) tmpfilesOwner(p, mode, user, group string) error {
	uid, okUser := number(user, t.names.UserID)
	gid, okGroup := number(group, t.names.GroupID)
	m, err := strconv.ParseUint(mode, 8, 32)
	return t.files.Change(p, true, func(n *tree.Inode) {
		if mode != "" && err == nil {
			n.Mode = uint32(m) & 0o7777
		}
		if okUser {
			n.UID = uid
		}
		if okGroup {
			n.GID = gid
		}
	})
}

// number takes a number or a name; an unknown name changes nothing, as systemd-tmpfiles ignores such a line.
func number(name string, by func(string) (uint32, bool)) (uint32, bool) {
	if name == "" {
		return 0, false
	}
	if id, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(id), true
	}
	return by(name)
}

// transient tells whether a path is on a filesystem that each boot begins with.
func transient(p string) bool {
	for _, dir := range []string{"/run", "/var/run", "/tmp", "/var/tmp", "/dev", "/proc", "/sys"} {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}
