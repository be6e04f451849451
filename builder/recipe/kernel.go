package recipe

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// defaultLibraryPaths are the directories that Debian's dynamic linker searches without a cache (ld.so
// --list-diagnostics, path.system_dirs).
var defaultLibraryPaths = map[string]bool{
	"/lib/x86_64-linux-gnu": true, "/usr/lib/x86_64-linux-gnu": true, "/lib": true, "/usr/lib": true,
}

// libraryDir is the directory that libraries of other directories are linked into.
const libraryDir = "/usr/lib/x86_64-linux-gnu"

// linkLibraries stands for ld.so.cache, which no image has: libraries of directories that packages add to the library
// path are linked into one that is on it.
func linkLibraries(b *build) error {
	const dir = "/etc/ld.so.conf.d"
	for _, name := range b.tree.Children(dir) {
		if !strings.HasSuffix(name, ".conf") {
			continue
		}
		data, err := b.tree.ReadFile(path.Join(dir, name))
		if err != nil {
			return err
		}
		for _, line := range strings.Split(string(data), "\n") {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' || !path.IsAbs(line) || defaultLibraryPaths[line] {
				continue
			}
			if err := b.linkLibrariesOf(line, path.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *build) linkLibrariesOf(dir, why string) error {
	for _, name := range b.tree.Children(dir) {
		to := path.Join(libraryDir, name)
		if !strings.Contains(name, ".so") || b.tree.Exists(to) {
			continue
		}
		if err := b.link(path.Join(dir, name), to, why+" adds its directory to the library path"); err != nil {
			return err
		}
	}
	return nil
}

// writeModuleIndexes lays in depmod's files, which a kernel package's postinst makes.
func writeModuleIndexes(b *build) error {
	if b.opts.Kernel == "" {
		return nil
	}
	dir := path.Join("/usr/lib/modules", b.opts.Kernel)
	if !b.tree.Exists(dir) {
		return fmt.Errorf("no package contains %s; the kernel release %q is wrong or its package is missing", dir, b.opts.Kernel)
	}
	names := slices.Sorted(maps.Keys(b.opts.ModuleIndexes))
	for _, name := range names {
		if err := b.file(path.Join(dir, name), b.opts.ModuleIndexes[name], 0o644, "module index as depmod makes it"); err != nil {
			return err
		}
	}
	return nil
}
