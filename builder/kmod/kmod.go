// Package kmod indexes the modules of one kernel, as depmod(8) does, and finds what has to be loaded for a wanted set.
//
// It reads the module directory of a tree (/usr/lib/modules/VERSION with modules.order, modules.builtin,
// modules.builtin.modinfo and *.ko, *.ko.xz or *.ko.zst), and makes the text and binary indexes that libkmod, and so
// systemd-udevd and modprobe, read: see modules.dep(5) and the comment at the head of kmod's libkmod-index.c.
//
// It leaves out depmod.d(5) configuration (but a module below updates/ wins over one of the same name elsewhere, which is
// depmod's default), the check of symbol versions, and every architecture but little-endian ELF64.
package kmod

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
)

// Dir is where the kernels' module directories are.
const Dir = "/usr/lib/modules"

// Module is one loadable module.
type Module struct {
	// Name is the module's name as the kernel has it: "dm_verity".
	Name string `json:"name"`
	// Path is relative to the module directory: "kernel/drivers/md/dm-verity.ko.xz".
	Path string `json:"path"`
	// Aliases, Softdeps, Weakdeps and Firmware are the values of these keys of .modinfo, in the order of the file.
	Aliases  []string `json:"aliases,omitempty"`
	Softdeps []string `json:"softdeps,omitempty"`
	Weakdeps []string `json:"weakdeps,omitempty"`
	Firmware []string `json:"firmware,omitempty"`
	// Exports are the symbols that other modules may use.
	Exports []string `json:"exports,omitempty"`
	// Depends are the names of all modules whose symbols this one needs, directly or through another, in the order in
	// which modules.dep lists them: the last is to be loaded first.
	Depends []string `json:"depends,omitempty"`
}

// Alias says that a built-in module answers to a pattern.
type Alias struct {
	Pattern string `json:"pattern"`
	Name    string `json:"name"`
}

// Modules is all that is known of the modules of one kernel. It is plain data: keep it as JSON.
type Modules struct {
	// Version is the kernel's release, as uname -r says it.
	Version string `json:"version"`
	// Loadable is in the order of modules.order, which decides which of two modules with one alias comes first.
	Loadable []Module `json:"loadable"`
	// Builtin are the names of the modules in the kernel itself, in the order of modules.builtin.
	Builtin []string `json:"builtin"`
	// BuiltinAliases are the aliases of the modules in the kernel itself.
	BuiltinAliases []Alias `json:"builtinAliases"`
	// Unread are the paths of loadable modules that the Part left out, relative to the module directory and in its order.
	Unread []string `json:"unread,omitempty"`
}

// Versions lists the releases of the kernels in a tree, sorted.
func Versions(t *tree.Tree) []string {
	var out []string
	for _, v := range t.Children(Dir) {
		if t.Exists(path.Join(Dir, v, "modules.order")) {
			out = append(out, v)
		}
	}
	return out
}

// Index is Scan and Files in one: the index files of a kernel by their name in its module directory.
func Index(ctx context.Context, t *tree.Tree, version string) (map[string][]byte, error) {
	m, err := Scan(ctx, t, version, Part{})
	if err != nil {
		return nil, err
	}
	return m.Files()
}

// Scan reads the modules of a kernel. It costs seconds of CPU for a distribution's kernel, on all processors, and is a
// pure function of the module directory and the part: cache its result by the hash of the kernel's package.
func Scan(ctx context.Context, t *tree.Tree, version string, part Part) (*Modules, error) {
	if version == "" || strings.ContainsAny(version, "/\x00") || version == "." || version == ".." {
		return nil, fmt.Errorf("index kernel modules: %q is not a kernel release", version)
	}
	dir := path.Join(Dir, version)
	paths, err := modulePaths(t, dir)
	if err != nil {
		return nil, fmt.Errorf("index modules of kernel %s: %w", version, err)
	}
	m := &Modules{Version: version}
	if err := m.readBuiltin(t, dir); err != nil {
		return nil, fmt.Errorf("index modules of kernel %s: %w", version, err)
	}
	parsed, err := part.read(ctx, t, dir, paths, m.Builtin)
	if err != nil {
		return nil, fmt.Errorf("index modules of kernel %s: %w", version, err)
	}
	var read []string
	var objects []*object
	for i, o := range parsed {
		if o == nil {
			m.Unread = append(m.Unread, paths[i])
			continue
		}
		read, objects = append(read, paths[i]), append(objects, o)
	}
	if m.Loadable, err = resolve(read, objects); err != nil {
		return nil, fmt.Errorf("index modules of kernel %s: %w", version, err)
	}
	return m, nil
}

// modulePaths lists the modules below dir, relative to it: those of modules.order first and in its order, then the
// others by path.
func modulePaths(t *tree.Tree, dir string) ([]string, error) {
	root, err := t.Follow(dir)
	if err != nil {
		return nil, err
	}
	byPlain := map[string]string{} // path without compression suffix → path
	err = t.Walk(func(p string, n *tree.Inode) error {
		rel, ok := strings.CutPrefix(p, root+"/")
		if !ok || n.Type != tree.Regular {
			return nil
		}
		plain, ok := plainPath(rel)
		if !ok {
			return nil
		}
		if other, ok := byPlain[plain]; ok {
			return fmt.Errorf("%s and %s are the same module: remove one", other, rel)
		}
		byPlain[plain] = rel
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(byPlain) == 0 {
		return nil, fmt.Errorf("%s holds no module: is the kernel's package in the image?", dir)
	}
	order, err := t.ReadFile(path.Join(dir, "modules.order"))
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(byPlain))
	for _, line := range strings.Split(string(order), "\n") {
		if rel, ok := byPlain[line]; ok {
			paths = append(paths, rel)
			delete(byPlain, line)
		}
	}
	rest := make([]string, 0, len(byPlain))
	for _, rel := range byPlain {
		rest = append(rest, rel)
	}
	slices.Sort(rest)
	return dropShadowed(append(paths, rest...))
}

// dropShadowed keeps of two modules with one name the one below updates/ (depmod.d(5), the default "search").
func dropShadowed(paths []string) ([]string, error) {
	isUpdate := func(p string) bool { return strings.HasPrefix(p, "updates/") }
	byName := map[string]string{}
	for _, p := range paths {
		name := nameOf(p)
		old, ok := byName[name]
		switch {
		case !ok || (isUpdate(p) && !isUpdate(old)):
			byName[name] = p
		case isUpdate(p) == isUpdate(old):
			return nil, fmt.Errorf("%s and %s have the same module name: remove one", old, p)
		}
	}
	kept := paths[:0]
	for _, p := range paths {
		if byName[nameOf(p)] == p {
			kept = append(kept, p)
		}
	}
	return kept, nil
}

// plainPath takes the compression suffix off the path of a module; ok is false for other files.
func plainPath(p string) (plain string, ok bool) {
	for _, suffix := range []string{".ko", ".ko.xz", ".ko.zst"} {
		if strings.HasSuffix(p, suffix) {
			return strings.TrimSuffix(p, suffix) + ".ko", true
		}
	}
	return "", false
}

// nameOf is the name of the module in a file: "kernel/drivers/md/dm-verity.ko.xz" holds "dm_verity".
func nameOf(p string) string {
	base := path.Base(p)
	if i := strings.IndexByte(base, '.'); i >= 0 {
		base = base[:i]
	}
	return strings.ReplaceAll(base, "-", "_")
}

func (m *Modules) readBuiltin(t *tree.Tree, dir string) error {
	list, err := t.ReadFile(path.Join(dir, "modules.builtin"))
	if err != nil {
		return err
	}
	s := bufio.NewScanner(bytes.NewReader(list))
	for s.Scan() {
		if s.Text() != "" {
			m.Builtin = append(m.Builtin, nameOf(s.Text()))
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("modules.builtin: %w", err)
	}
	info, err := t.ReadFile(path.Join(dir, "modules.builtin.modinfo"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // kernels before 5.2
	}
	if err != nil {
		return err
	}
	for _, entry := range strings.Split(string(info), "\x00") { // module.key=value
		name, rest, ok := strings.Cut(entry, ".")
		if !ok {
			continue
		}
		if pattern, ok := strings.CutPrefix(rest, "alias="); ok && pattern != "" {
			m.BuiltinAliases = append(m.BuiltinAliases, Alias{Pattern: pattern, Name: name})
		}
	}
	return nil
}
