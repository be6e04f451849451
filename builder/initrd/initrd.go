// Package initrd makes the initramfs: a newc cpio (the kernel's Documentation/driver-api/early-userspace/
// buffer-format.rst) that holds stage1 as /init, its configuration, and the modules between power-on and the root.
//
// It is three archives, each compressed with zstd on its own and cached by its content, one after the other: modules,
// which change with the kernel; /init; and the configuration. The kernel unpacks them in order.
//
// It leaves out microcode (a section of the UKI), firmware files, and any shell.
package initrd

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"

	"spore/builder/kmod"
	"spore/builder/store"
	"spore/builder/tree"
	"spore/builder/uki"
)

// Names of steps in the store; a number changes when the step's output does.
const (
	modulesStep = "initrd-modules-6"
	initStep    = "initrd-init-2"
)

// ConfigPath is where stage1 finds its configuration.
const ConfigPath = "/etc/spore/stage1.json"

// Options say what goes in.
type Options struct {
	// Store keeps the compressed archives.
	Store *store.Store
	// Kernel identifies the content of the module directory, for instance the SHA-256 of the kernel's package.
	Kernel string
	// Version is the kernel's release.
	Version string
	// Part is what is read of the kernel's modules; it has the modules of Names.
	Part kmod.Part
	// Tree gives the tree with the module directory; it is called only when the store has no archive of this kernel.
	Tree func() (*tree.Tree, error)
	// Init reads the static binary of stage1, and InitID identifies its content; it is read only when the store has no
	// archive of it.
	Init   func() ([]byte, error)
	InitID string
	// Config is stage1.json.
	Config []byte
}

// Build makes the initramfs and returns it as content that is read from the store.
func Build(ctx context.Context, o Options) (uki.Content, error) {
	modules, err := cached(o.Store, store.KeyOf(modulesStep, o.Kernel, o.Version, o.Part.ID), func() ([]byte, error) {
		m, err := kmod.Cached(ctx, o.Store, o.Kernel, o.Version, o.Part, o.Tree)
		if err != nil {
			return nil, err
		}
		t, err := o.Tree()
		if err != nil {
			return nil, err
		}
		return ModulesArchive(ctx, t, m)
	})
	if err != nil {
		return nil, fmt.Errorf("make initramfs for kernel %s: %w", o.Version, err)
	}
	init, err := cached(o.Store, store.KeyOf(initStep, o.InitID), func() ([]byte, error) {
		program, err := o.Init()
		if err != nil {
			return nil, err
		}
		return InitArchive(program)
	})
	if err != nil {
		return nil, fmt.Errorf("make initramfs for kernel %s: %w", o.Version, err)
	}
	config, err := ConfigArchive(o.Config)
	if err != nil {
		return nil, fmt.Errorf("make initramfs for kernel %s: %w", o.Version, err)
	}
	return padded(modules, init, uki.Bytes(config)), nil
}

// padded is archives one after the other, and zeros up to the alignment of an uncompressed archive: systemd-stub
// appends some.
func padded(archives ...uki.Content) uki.Content {
	const alignment = 4
	all := uki.Joined(archives)
	return append(all, uki.Bytes(make([]byte, -all.Size()&(alignment-1))))
}

func cached(st *store.Store, k store.Key, fn func() ([]byte, error)) (uki.Content, error) {
	f, err := st.Ensure(k, func(w *os.File) error {
		data, err := fn()
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.Close()
	return st.Content(k)
}

// skeleton are the directories and nodes that exist before devtmpfs and the other kernel filesystems are mounted. The
// kernel opens /dev/console for /init itself.
var skeleton = []cpio.Record{
	cpio.Directory("dev", 0o755),
	cpio.CharDev("dev/console", 0o600, 5, 1),
	cpio.CharDev("dev/kmsg", 0o600, 1, 11),
	cpio.CharDev("dev/null", 0o666, 1, 3),
	cpio.Directory("proc", 0o555),
	cpio.Directory("run", 0o755),
	cpio.Directory("sys", 0o555),
	cpio.Directory("sysroot", 0o755),
}

// indexFiles are the files of the module directory that stage1 reads.
var indexFiles = []string{"modules.alias", "modules.dep", "modules.softdep"}

// ModulesArchive is the compressed archive of the skeleton and of the modules of Select, those of most machines
// decompressed, with index files that name only them; and of the drivers of network cards and watchdogs, apart.
func ModulesArchive(ctx context.Context, t *tree.Tree, m *kmod.Modules) ([]byte, error) {
	selected, err := Select(m)
	if err != nil {
		return nil, err
	}
	dir := path.Join("lib/modules", m.Version)
	files := map[string][]byte{}
	decompressed, err := unpacked(m)
	if err != nil {
		return nil, err
	}
	there := make([]*kmod.Module, len(selected))
	var d kmod.Decompressor
	for i, mod := range selected {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := *mod
		there[i] = &c
		read := t.ReadFile
		if decompressed[mod.Name] {
			c.Path = plainPath(mod.Path)
			read = func(p string) ([]byte, error) { return d.Read(t, p) }
		}
		data, err := read(path.Join(kmod.Dir, m.Version, mod.Path))
		if err != nil {
			return nil, err
		}
		files[path.Join(dir, c.Path)] = bytes.Clone(data)
	}
	indexes, err := restricted(m, there).Files()
	if err != nil {
		return nil, err
	}
	for _, name := range indexFiles {
		files[path.Join(dir, name)] = indexes[name]
	}
	files[path.Join(dir, "modules.builtin")] = builtinText(m.Builtin)
	drivers, err := apartFiles(ctx, t, m, there)
	if err != nil {
		return nil, err
	}
	maps.Copy(files, drivers)
	records := append([]cpio.Record{}, skeleton...)
	return archive(append(records, fileRecords(files, 0o644)...))
}

// restricted is m with only the given modules, at their new paths.
func restricted(m *kmod.Modules, plain []*kmod.Module) *kmod.Modules {
	out := m.Restrict(plain)
	byName := map[string]string{}
	for _, p := range plain {
		byName[p.Name] = p.Path
	}
	for i := range out.Loadable {
		out.Loadable[i].Path = byName[out.Loadable[i].Name]
	}
	return out
}

func plainPath(p string) string {
	return strings.TrimSuffix(strings.TrimSuffix(p, ".xz"), ".zst")
}

// builtinText is modules.builtin with the names of the modules only; readers look at nothing else.
func builtinText(names []string) []byte {
	var b bytes.Buffer
	for _, n := range names {
		fmt.Fprintf(&b, "kernel/%s.ko\n", n)
	}
	return b.Bytes()
}

// InitArchive is the compressed archive that holds /init.
func InitArchive(init []byte) ([]byte, error) {
	if !bytes.HasPrefix(init, []byte("\x7fELF")) {
		return nil, fmt.Errorf("stage1 of %d bytes is not an ELF program", len(init))
	}
	return archive(fileRecords(map[string][]byte{"init": init}, 0o755))
}

// ConfigArchive is the compressed archive that holds stage1.json.
func ConfigArchive(config []byte) ([]byte, error) {
	return archive(fileRecords(map[string][]byte{strings.TrimPrefix(ConfigPath, "/"): config}, 0o644))
}

// fileRecords makes records of files and the directories above them, sorted, since the kernel makes no parents.
func fileRecords(files map[string][]byte, perm uint64) []cpio.Record {
	paths := map[string]bool{}
	for p := range files {
		for ; p != "."; p = path.Dir(p) {
			paths[p] = true
		}
	}
	sorted := make([]string, 0, len(paths))
	for p := range paths {
		sorted = append(sorted, p)
	}
	slices.Sort(sorted) // a directory is a prefix of its content, and so comes before it
	records := make([]cpio.Record, len(sorted))
	for i, p := range sorted {
		if data, ok := files[p]; ok {
			records[i] = cpio.StaticFile(p, string(data), perm)
		} else {
			records[i] = cpio.Directory(p, 0o755)
		}
	}
	return records
}

// archive writes records, owned by root and of time zero, as a compressed newc archive.
func archive(records []cpio.Record) ([]byte, error) {
	var plain bytes.Buffer
	w := cpio.Newc.Writer(&plain)
	for i, r := range records {
		r.Ino = uint64(i + 1)
		r.NLink = 1
		if err := w.WriteRecord(r); err != nil {
			return nil, fmt.Errorf("write %s into the archive: %w", r.Name, err)
		}
	}
	if err := cpio.WriteTrailer(w); err != nil {
		return nil, fmt.Errorf("end the archive: %w", err)
	}
	return Compress(plain.Bytes())
}

// Compress makes one zstd frame, as Build does of each archive.
func Compress(plain []byte) ([]byte, error) {
	options := []zstd.EOption{zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1)}
	if len(plain) <= small {
		options = append(options, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(small), zstd.WithLowerEncoderMem(true))
	}
	enc, err := zstd.NewWriter(nil, options...)
	if err != nil {
		return nil, fmt.Errorf("start zstd: %w", err)
	}
	defer enc.Close()
	return enc.EncodeAll(plain, nil), nil
}

// level costs about a second once per kernel, and the firmware reads every byte on every boot.
const level = zstd.SpeedBestCompression

// small is the size in bytes up to which an archive is not worth the tables of that level: to clear them takes longer
// than all else in a build that finds the other archives in the store.
const small = 64 << 10
