package initrd

import (
	"context"
	"path"

	"spore/builder/kmod"
	"spore/builder/tree"
)

// apart are drivers whose indexes lie in a folder of their own below the module directory, since their devices say when
// they are there, and stage1 decides whether and when they are loaded.
var apart = []struct {
	dir   string
	names []string
}{
	{networkDir, network},
	{watchdogDir, watchdogs},
}

// apartFiles are those drivers, compressed as the kernel's package has them, and their indexes. The kernel decompresses
// a module itself when it is loaded (CONFIG_MODULE_DECOMPRESS), so that a machine that needs none only reads them, a
// quarter of their size, and unpacks nothing.
func apartFiles(ctx context.Context, t *tree.Tree, m *kmod.Modules, selected []*kmod.Module) (map[string][]byte, error) {
	files := map[string][]byte{}
	there := map[string]string{}
	for _, mod := range selected {
		there[mod.Name] = mod.Path
	}
	for _, a := range apart {
		if err := addApart(ctx, t, m, there, a.dir, a.names, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// addApart adds the drivers of one folder, and its indexes, to files. there are the paths of the modules that all folders
// have in common, by name.
func addApart(ctx context.Context, t *tree.Tree, m *kmod.Modules, there map[string]string, folder string, names []string, files map[string][]byte) error {
	drivers, err := m.Closure(nil, names)
	if err != nil {
		return err
	}
	dir := path.Join("lib/modules", m.Version)
	moved := make([]*kmod.Module, len(drivers))
	for i, mod := range drivers {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := *mod
		moved[i] = &c
		if p, ok := there[mod.Name]; ok {
			c.Path = path.Join("..", p)
			continue
		}
		c.Path = path.Join("..", mod.Path)
		if files[path.Join(dir, mod.Path)], err = t.ReadFile(path.Join(kmod.Dir, m.Version, mod.Path)); err != nil {
			return err
		}
	}
	indexes, err := restricted(m, moved).Files()
	if err != nil {
		return err
	}
	for _, name := range indexFiles {
		files[path.Join(dir, folder, name)] = indexes[name]
	}
	return nil
}
