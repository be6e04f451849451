package modules

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// What stage1 does not ask lies here: the linker leaves it out of the initramfs.

// ListFile names, in the module directory of a root, the file that lists the modules which the initramfs of the same
// image has: one name a line. package initrd of the builder writes it.
const ListFile = "modules.initramfs"

// BuiltIn says whether a module is part of the kernel itself.
func (x *Index) BuiltIn(name string) bool { return x.builtin[Name(name)] }

// Only is the index with no other loadable modules than those of names. What is built in stays.
func (x *Index) Only(names map[string]bool) *Index {
	out := &Index{dep: map[string]entry{}, builtin: x.builtin, pre: x.pre, aliases: x.aliases}
	for name, e := range x.dep {
		if names[name] {
			out.dep[name] = e
		}
	}
	return out
}

// ReadBuiltinAliases adds to what Drivers knows the aliases of modules that are part of the kernel:
// modules.builtin.modinfo at the root of dir, NUL-terminated MODULE.KEY=VALUE. Before Linux 6.18 it has no aliases of
// device tables (MODULE_DEVICE_TABLE), and before 5.2 there is no such file.
func (x *Index) ReadBuiltinAliases(dir fs.FS) error {
	text, err := readText(dir, "modules.builtin.modinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kernel modules: %w", err)
	}
	for text != "" {
		var field string
		field, text, _ = strings.Cut(text, "\x00")
		module, rest, ok := strings.Cut(field, ".")
		pattern, isAlias := strings.CutPrefix(rest, "alias=")
		if ok && isAlias && pattern != "" {
			x.addAlias("alias "+pattern+" "+module, nil)
		}
	}
	return nil
}

// Drivers returns the names of the modules, loadable or built in, that want a device with the modalias.
func (x *Index) Drivers(modalias string) []string {
	var out []string
	for _, a := range x.aliases {
		if _, loadable := x.dep[a.module]; (loadable || x.builtin[a.module]) && a.matches(modalias) {
			out = append(out, a.module)
		}
	}
	return out
}

// Wants says whether one module wants a device with the modalias.
func (x *Index) Wants(name, modalias string) bool {
	name = Name(name)
	for _, a := range x.aliases {
		if a.module == name && a.matches(modalias) {
			return true
		}
	}
	return false
}

// ReadList reads ListFile at the root of dir; nil where there is none.
func ReadList(dir fs.FS) (map[string]bool, error) {
	text, err := readText(dir, ListFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("modules of the initramfs: %w", err)
	}
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out[Name(line)] = true
		}
	}
	return out, nil
}
