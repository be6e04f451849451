package pipeline

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/builder/initrd"
	"spore/builder/kmod"
	"spore/builder/omit"
	"spore/builder/packs"
	"spore/builder/source"
	"spore/builder/store"
	"spore/builder/tree"
)

// kept is what image.yaml puts back, in an order of its own: the same wishes in another order are the same root.
func (b *build) kept() omit.Keep {
	return omit.Keep{Classes: slices.Sorted(slices.Values(b.Config.Image.Keep)), Paths: slices.Sorted(slices.Values(b.Config.Image.KeepPaths))}
}

// hardware is what a root has of the kernel's modules.
type hardware struct {
	// Indexes are depmod's files, and the list of the modules of the initramfs.
	Indexes map[string][]byte
	// Omitted is what the root leaves out.
	Omitted *omit.Kernel
}

// chooseHardware chooses the modules of the root, and with them the firmware; the packages are read only when the store
// does not know them.
func (b *build) chooseHardware(ctx context.Context, opened []*packs.Pack) (*hardware, error) {
	loaded, err := b.loadedModules()
	if err != nil {
		return nil, err
	}
	part, err := b.modulePart()
	if err != nil {
		return nil, err
	}
	firmware, err := haveFirmware(opened)
	if err != nil {
		return nil, err
	}
	if firmware {
		part = kmod.Part{} // The modules that are left out say which firmware goes with them.
	}
	key := store.KeyOf("hardware", b.Tool, b.packages.kernel.SHA256, b.packages.release, part.ID,
		strings.Join(b.kept().Classes, " "), strings.Join(b.kept().Paths, " "), strings.Join(loaded, " "))
	f, err := b.Store.Ensure(key, func(w *os.File) error {
		m, err := kmod.Cached(ctx, b.Store, b.packages.kernel.SHA256, b.packages.release, part, func() (*tree.Tree, error) {
			for _, p := range opened {
				if p.Name == b.packages.kernel.Name {
					return packTree(p)
				}
			}
			return nil, fmt.Errorf("package %s is not among the packs", b.packages.kernel.Name)
		})
		if err != nil {
			return fmt.Errorf("index the kernel's modules: %w", err)
		}
		made, err := selectModules(m, b.kept(), loaded)
		if err != nil {
			return err
		}
		return gob.NewEncoder(w).Encode(made)
	})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var h hardware
	if err := gob.NewDecoder(f).Decode(&h); err != nil {
		return nil, fmt.Errorf("read the choice of modules from the store (remove %s to make it again): %w", f.Name(), err)
	}
	return &h, nil
}

// loadedModules are those that something in the root loads by name.
func (b *build) loadedModules() ([]string, error) {
	loaded, err := unitModules(source.Units(b.Source))
	if err != nil {
		return nil, fmt.Errorf("read our own units: %w", err)
	}
	return append(append(loaded, b.ownModules()...), argumentModules(b.Config.Image.KernelArguments)...), nil
}

// modulePart is what is read of the kernel's modules, for the root and for the initramfs.
func (b *build) modulePart() (kmod.Part, error) {
	loaded, err := b.loadedModules()
	return omit.Part(b.packages.release, b.kept(), initrd.Names(), loaded), err
}

// haveFirmware reports whether a package brings firmware.
func haveFirmware(opened []*packs.Pack) (bool, error) {
	found := errors.New("found")
	for _, p := range opened {
		err := p.Entries(func(name string, _ *tree.Inode) error {
			// A package from before the merge of /usr has its files in /lib.
			if strings.HasPrefix(path.Join("/usr", strings.TrimPrefix(name, "/usr")), omit.FirmwareDir+"/") {
				return found
			}
			return nil
		})
		if errors.Is(err, found) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// selectModules applies the rules. The modules of the initramfs, and those that are loaded by name, stay whatever rules
// say.
func selectModules(m *kmod.Modules, keep omit.Keep, loaded []string) (*hardware, error) {
	first, err := initrd.Select(m)
	if err != nil {
		return nil, err
	}
	needed := slices.Clone(loaded)
	for _, mod := range first {
		needed = append(needed, mod.Name)
	}
	kept, omitted, err := omit.Select(m, keep, needed)
	if err != nil {
		return nil, err
	}
	indexes, err := kept.Files()
	if err != nil {
		return nil, err
	}
	indexes[initrd.ListFile] = initrd.List(first)
	return &hardware{Indexes: indexes, Omitted: omitted}, nil
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
		out = append(out, modprobed(data)...)
		return err
	})
	return out, err
}

// modprobed are the modules that one unit loads.
func modprobed(unit []byte) []string {
	var out []string
	for _, found := range modprobe.FindAllSubmatch(unit, -1) {
		out = append(out, string(found[1]))
	}
	return out
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
