package recipe

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// defaultLibraryPaths are the directories that Debian's dynamic linker searches without a cache (ld.so --list-diagnostics,
// path.system_dirs).
var defaultLibraryPaths = map[string]bool{
	"/lib/x86_64-linux-gnu": true, "/usr/lib/x86_64-linux-gnu": true, "/lib": true, "/usr/lib": true,
}

// checkLibraryPaths makes sure that an image without ld.so.cache finds every library: no package may add a directory that
// is not a default one, except empty ones. The cache would only be a table of what those directories
// hold; it saves a few failed opens a program start (docs of this step's test have the numbers).
func checkLibraryPaths(b *build) error {
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
			if line == "" || line[0] == '#' || defaultLibraryPaths[line] || len(b.tree.Children(line)) == 0 {
				continue
			}
			return fmt.Errorf("%s/%s adds %s to the library path, and the image has no ld.so.cache: "+
				"link its libraries into /usr/lib/x86_64-linux-gnu", dir, name, line)
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
