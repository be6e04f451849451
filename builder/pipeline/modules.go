package pipeline

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/builder/initrd"
	"spore/builder/kmod"
	"spore/builder/omit"
	"spore/builder/source"
)

// kept is what image.yaml puts back, in an order of its own: the same wishes in another order are the same root.
func (b *build) kept() omit.Keep {
	return omit.Keep{Classes: slices.Sorted(slices.Values(b.Config.Image.Keep)), Paths: slices.Sorted(slices.Values(b.Config.Image.KeepPaths))}
}

// neededModules are the names of modules that stay in the root whatever rules say: those of the initramfs, of our units,
// and of the kernel command line.
func (b *build) neededModules(m *kmod.Modules) ([]string, error) {
	first, err := initrd.Select(m)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, mod := range first {
		out = append(out, mod.Name)
	}
	loaded, err := unitModules(source.Units(b.Source))
	if err != nil {
		return nil, fmt.Errorf("read our own units: %w", err)
	}
	return append(append(out, loaded...), argumentModules(b.Config.Image.KernelArguments)...), nil
}

// modprobe is how a unit loads a module: no options, one name.
var modprobe = regexp.MustCompile(`(?m)^Exec[A-Za-z]+=\S*/modprobe ([A-Za-z0-9_-]+)$`)

// unitModules are the modules that units load.
func unitModules(units fs.FS) ([]string, error) {
	var out []string
	err := fs.WalkDir(units, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(p) != ".service" {
			return err
		}
		data, err := fs.ReadFile(units, p)
		for _, found := range modprobe.FindAllSubmatch(data, -1) {
			out = append(out, string(found[1]))
		}
		return err
	})
	return out, err
}

// argumentModules are the modules that systemd-modules-load(8) loads for words of the kernel command line.
func argumentModules(words []string) []string {
	var out []string
	for _, word := range words {
		for _, key := range []string{"modules_load=", "modules-load=", "rd.modules_load=", "rd.modules-load="} {
			if list, ok := strings.CutPrefix(word, key); ok {
				out = append(out, strings.FieldsFunc(list, func(r rune) bool { return r == ',' })...)
			}
		}
	}
	return out
}
