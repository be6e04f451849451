package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"spore/builder/image"
	"spore/builder/initrd"
	"spore/builder/kmod"
	"spore/builder/lock"
	"spore/builder/media"
	"spore/builder/packs"
	"spore/builder/provenance"
	"spore/builder/tree"
	"spore/builder/uki"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
)

// stage1Config is stage1.json of the initramfs.
type stage1Config struct {
	// BuildTime is the floor of the clock, in seconds since the epoch.
	BuildTime int64 `json:"buildTime"`
	// Modules are loaded on every machine.
	Modules []string `json:"modules"`
}

// makeMedia makes the cluster part and the UKI, and what the root has for them.
func (b *build) makeMedia(ctx context.Context) error {
	step := b.Progress.Step("initramfs")
	initramfs, err := b.initramfs(ctx)
	if err != nil {
		return err
	}
	step.Done()
	r := media.Root{
		Hash: b.root.Hash, Squashfs: b.source(objSquashfs), Verity: b.source(objVerity),
		Initrd: initramfs, Uname: b.root.Manifest.Kernel, BuildTime: b.BuildTime,
	}
	for name, into := range map[string]*[]byte{objStub: &r.Stub, objRelease: &r.OSRelease, objMicrocode: &r.Microcode, objLoader: &r.Loader} {
		if *into, err = b.Store.ReadAll(b.root.object(name)); err != nil {
			return fmt.Errorf("read %s of the root: %w", name, err)
		}
	}
	if r.Kernel, err = b.Store.Content(b.root.object(objKernel)); err != nil {
		return fmt.Errorf("find %s of the root: %w", objKernel, err)
	}
	b.media, err = media.Make(media.Options{Root: r, Config: b.Config, Keys: b.Keys, Temp: b.Store.TempDir(), Progress: b.Progress})
	return err
}

// source is a part of the root in the store.
func (b *build) source(name string) image.Source {
	return image.Source{Path: b.Store.Path(b.root.object(name))}
}

// writeUKI writes the UKI alone.
func (b *build) writeUKI() error {
	if !b.wants(spec.FormatUKI) {
		return nil
	}
	return atomicfile.Replace(filepath.Join(b.Out, UKIName), b.media.UKI, 0o644, atomicfile.Unsynced)
}

func (b *build) initramfs(ctx context.Context) (uki.Content, error) {
	kernelTree := func() (*tree.Tree, error) {
		p, err := packs.Ensure(ctx, b.Store, b.packages.kernel.SHA256, func() (io.ReadCloser, error) { return b.Archive.Open(b.packages.kernel) })
		if err != nil {
			return nil, err
		}
		// The pack stays open as long as the tree is read: until this process ends.
		return packTree(p)
	}
	part, err := b.modulePart()
	if err != nil {
		return nil, err
	}
	always, err := memo(b, "modules of every machine", []string{b.packages.kernel.SHA256, b.packages.release, part.ID}, func() ([]string, error) {
		modules, err := kmod.Cached(ctx, b.Store, b.packages.kernel.SHA256, b.packages.release, part, kernelTree)
		if err != nil {
			return nil, fmt.Errorf("index the kernel's modules: %w", err)
		}
		return initrd.Always(modules)
	})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(stage1Config{BuildTime: b.BuildTime, Modules: always})
	if err != nil {
		return nil, err
	}
	out, err := initrd.Build(ctx, initrd.Options{
		Store: b.Store, Kernel: b.packages.kernel.SHA256, Version: b.packages.release, Part: part,
		Tree: kernelTree, Config: config, InitID: b.binaries.stage1.Key.String(),
		Init: func() ([]byte, error) { return b.readProgram(b.binaries.stage1) },
	})
	if err != nil {
		return nil, fmt.Errorf("make the initramfs: %w", err)
	}
	return out, nil
}

// writeDisk writes the disk image.
func (b *build) writeDisk(ctx context.Context) error {
	if !b.wants(spec.FormatDisk) {
		return nil
	}
	step := b.Progress.Step("disk")
	b.disk = filepath.Join(b.Out, DiskName)
	if err := b.media.WriteDisk(ctx, b.disk, nil); err != nil {
		return err
	}
	step.Note("%s", b.disk)
	step.Done()
	return nil
}

// writeManifest writes manifest, lock, bills of materials and provenance beside the image.
func (b *build) writeManifest() error {
	m := b.root.Manifest
	m.MediaPackages = b.mediaPackages
	var err error
	if m.BootPayloads, err = b.bootPayloads(); err != nil {
		return err
	}
	var written []provenance.Resource
	write := func(name string, fn func(w io.Writer) error) error {
		h := sha256.New()
		err := atomicfile.Fill(filepath.Join(b.Out, name), 0o644, atomicfile.Unsynced,
			func(f *os.File) error { return fn(io.MultiWriter(f, h)) })
		written = append(written, provenance.Resource{Name: name, Algorithm: provenance.SHA256, Digest: hex.EncodeToString(h.Sum(nil))})
		return err
	}
	files, err := b.Store.ReadAll(b.root.object(objFiles))
	if err != nil {
		return fmt.Errorf("read the list of files of the root: %w", err)
	}
	if err := write(ManifestName, func(w io.Writer) error { return m.EncodeWith(w, files) }); err != nil {
		return err
	}
	l, err := b.madeLock()
	if err != nil {
		return err
	}
	if err := write(lock.Name, l.Encode); err != nil {
		return err
	}
	if err := b.writeIDs(write); err != nil {
		return err
	}
	bills := Bills()
	for _, name := range slices.Sorted(maps.Keys(bills)) {
		if err := write(name, func(w io.Writer) error { return bills[name](w, m, b.Config.Cluster.Name) }); err != nil {
			return err
		}
	}
	return b.writeProvenance(m, written)
}
