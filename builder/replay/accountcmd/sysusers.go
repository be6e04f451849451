package accountcmd

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"spore/builder/accounts"
	"spore/builder/replay/command"
)

// sysusersDirs are the folders of sysusers.d(5); a file of an earlier one replaces one of the same name in a later
// one.
var sysusersDirs = [...]string{"/etc/sysusers.d", "/run/sysusers.d", "/usr/local/lib/sysusers.d", "/usr/lib/sysusers.d"}

// sysusers is systemd-sysusers(8).
func (s commands) sysusers(_ context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "root=", "replace=", "dry-run", "inline", "no-pager")
	if err != nil {
		return 0, err
	}
	if root := o.values["root"]; root != "" && path.Clean(root) != "/" {
		return c.Unknown("--root=" + root)
	}
	if o.has("replace") && (!path.IsAbs(o.values["replace"]) || !strings.HasSuffix(o.values["replace"], ".conf")) {
		return c.Fail(1, "the argument of --replace= is an absolute path that ends in .conf")
	}
	if o.has("replace") && len(o.operands) == 0 {
		return c.Fail(1, "when --replace= is given, some configuration items must be specified")
	}
	var files []accounts.SysusersFile
	switch {
	case o.has("inline"):
		files = []accounts.SysusersFile{{Name: "systemd-sysusers --inline", Text: strings.Join(o.operands, "\n")}}
	case len(o.operands) > 0:
		for _, arg := range o.operands {
			f, ok, err := sysusersFile(c, arg)
			if err != nil {
				return 0, err
			}
			if !ok {
				return c.Fail(1, "Failed to read '%s': No such file or directory", arg)
			}
			files = append(files, f)
		}
	}
	if len(o.operands) == 0 || o.has("replace") {
		if files, err = allSysusers(c, o.values["replace"], files); err != nil {
			return 0, err
		}
	}
	if o.has("dry-run") {
		return 0, nil
	}
	if err := s.db.SysusersFiles(files); err != nil {
		return 0, fmt.Errorf("%s: %w", c.Name, err)
	}
	return s.changed(c)
}

// sysusersFile reads what an argument names: standard input, a path, or a file in one of the folders.
func sysusersFile(c *command.Call, arg string) (accounts.SysusersFile, bool, error) {
	if arg == "-" {
		text, err := input(c)
		return accounts.SysusersFile{Name: "standard input", Text: text}, true, err
	}
	places := []string{c.Path(arg)}
	if !strings.Contains(arg, "/") {
		places = nil
		for _, dir := range sysusersDirs {
			places = append(places, path.Join(dir, arg))
		}
	}
	for _, p := range places {
		if !c.Files.Exists(p) {
			continue
		}
		data, err := c.Files.ReadFile(p)
		if err != nil {
			return accounts.SysusersFile{}, false, fmt.Errorf("%s: %w", c.Name, err)
		}
		return accounts.SysusersFile{Name: p, Text: string(data)}, true, nil
	}
	return accounts.SysusersFile{}, false, nil
}

// allSysusers reads the files of all folders in the order of their names. The given ones stand in the place of
// replaced, if that is not empty.
func allSysusers(c *command.Call, replaced string, given []accounts.SysusersFile) ([]accounts.SysusersFile, error) {
	found := map[string]string{}
	for _, dir := range sysusersDirs {
		if !c.Files.IsDir(dir) {
			continue
		}
		names, err := c.Files.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if _, have := found[name]; !have && strings.HasSuffix(name, ".conf") {
				found[name] = path.Join(dir, name)
			}
		}
	}
	// A file of the administrator, in a folder that comes before that of the replaced one, stays.
	if name := path.Base(replaced); replaced != "" {
		have := slices.Index(sysusersDirs[:], path.Dir(found[name]))
		if have < 0 || have >= slices.Index(sysusersDirs[:], path.Dir(replaced)) {
			found[name] = ""
		}
	}
	var files []accounts.SysusersFile
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name] == "" {
			files = append(files, given...)
			continue
		}
		data, err := c.Files.ReadFile(found[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		files = append(files, accounts.SysusersFile{Name: found[name], Text: string(data)})
	}
	return files, nil
}
