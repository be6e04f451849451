package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spore/builder/clusterpart"
	"spore/builder/image"
	"spore/builder/initrd"
	"spore/builder/packs"
	"spore/builder/tree"
	"spore/builder/uki"
)

// kernelArguments are on the command line of every image, besides the two hashes and what image.yaml adds.
var kernelArguments = []string{
	"ro",
	"console=tty0", "console=ttyS0,115200",
	// The console shows notices and worse. A serial line takes seconds for the rest, which the journal has.
	"loglevel=6",
	// A machine that cannot go on starts over.
	"panic=10",
	// /var is mounted by the identity of the node, not by what a disk says of itself.
	"systemd.gpt_auto=0",
	// /etc and /var are new at each boot; nothing is to be updated or set up on account of that.
	"systemd.condition_needs_update=0", "systemd.firstboot=off",
	// The kernel's self-tests of ciphers cost seconds on slow machines and change nothing.
	"cryptomgr.notests=1",
}

// writeClusterPart writes the verified configuration to a temporary file.
func (b *build) writeClusterPart() (err error) {
	step := b.Progress.Step("cluster part")
	f, err := os.CreateTemp(filepath.Join(b.Store.Dir(), "tmp"), "cluster-*")
	if err != nil {
		return err
	}
	b.clusterFile = f.Name()
	defer func() { err = errors.Join(err, f.Close()) }()
	part, err := clusterpart.Write(f, b.Config, b.BuildTime)
	if err != nil {
		return err
	}
	b.clusterHash = part.RootHash
	step.Note("%d KiB, hash %.16s…", part.Size>>10, part.RootHash)
	step.Done()
	return nil
}

// removeClusterPart takes the temporary file away once the outputs hold its content, or a step has failed.
func (b *build) removeClusterPart() {
	if b.clusterFile != "" {
		os.Remove(b.clusterFile)
	}
}

// stage1Config is stage1.json of the initramfs.
type stage1Config struct {
	// BuildTime is the floor of the clock, in seconds since the epoch.
	BuildTime int64 `json:"buildTime"`
	// Modules are loaded on every machine.
	Modules []string `json:"modules"`
}

// writeUKI joins stub, kernel, initramfs and command line.
func (b *build) writeUKI(ctx context.Context) error {
	step := b.Progress.Step("UKI")
	initramfs, err := b.initramfs(ctx)
	if err != nil {
		return err
	}
	o := uki.Options{Initrd: initramfs, Cmdline: b.cmdline(), Uname: b.root.Manifest.Kernel}
	for name, into := range map[string]*[]byte{objStub: &o.Stub, objKernel: &o.Kernel, objRelease: &o.OSRelease, objMicrocode: &o.Microcode} {
		if *into, err = b.Store.ReadAll(b.root.object(name)); err != nil {
			return fmt.Errorf("read %s of the root: %w", name, err)
		}
	}
	if b.uki, err = uki.Build(o); err != nil {
		return fmt.Errorf("make the UKI: %w", err)
	}
	if b.wants("uki") {
		err = writeFile(filepath.Join(b.Out, UKIName), func(w io.Writer) error {
			_, err := w.Write(b.uki)
			return err
		})
	}
	step.Note("%.1f MiB, initramfs %.1f", float64(len(b.uki))/(1<<20), float64(len(initramfs))/(1<<20))
	step.Done()
	return err
}

func (b *build) cmdline() string {
	words := []string{"roothash=" + b.root.Hash, "spore.clusterhash=" + b.clusterHash}
	words = append(words, kernelArguments...)
	return strings.Join(append(words, b.Config.Image.KernelArguments...), " ")
}

func (b *build) initramfs(ctx context.Context) ([]byte, error) {
	kernelTree := func() (*tree.Tree, error) {
		p, err := packs.Ensure(ctx, b.Store, b.packages.kernel.SHA256, func() (io.ReadCloser, error) { return b.Archive.Open(b.packages.kernel) })
		if err != nil {
			return nil, err
		}
		// The pack stays open as long as the tree is read: until this process ends.
		return packTree(p)
	}
	modules, err := b.modules(ctx, kernelTree)
	if err != nil {
		return nil, fmt.Errorf("index the kernel's modules: %w", err)
	}
	always, err := initrd.Always(modules)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(stage1Config{BuildTime: b.BuildTime, Modules: always})
	if err != nil {
		return nil, err
	}
	init, err := readProgram(b.binaries.stage1)
	if err != nil {
		return nil, err
	}
	out, err := initrd.Build(ctx, initrd.Options{
		Store: b.Store, Kernel: b.packages.kernel.SHA256, Version: b.packages.release,
		Tree: kernelTree, Init: init, Config: config,
	})
	if err != nil {
		return nil, fmt.Errorf("make the initramfs: %w", err)
	}
	return out, nil
}

// writeDisk writes the disk image.
func (b *build) writeDisk(ctx context.Context) error {
	if !b.wants("disk") {
		return nil
	}
	step := b.Progress.Step("disk")
	loader, err := b.Store.ReadAll(b.root.object(objLoader))
	if err != nil {
		return fmt.Errorf("read the boot loader of the root: %w", err)
	}
	b.disk = filepath.Join(b.Out, DiskName)
	_, err = image.Write(ctx, b.disk, image.Options{
		RootHash: b.root.Hash, ClusterHash: b.clusterHash,
		Root: b.Store.Path(b.root.object(objSquashfs)), Verity: b.Store.Path(b.root.object(objVerity)), Cluster: b.clusterFile,
		UKI: b.uki, SystemdBoot: loader, Slots: image.Slots(b.Config.Image.Slots), Time: time.Unix(b.BuildTime, 0).UTC(),
	})
	if err != nil {
		return fmt.Errorf("write the disk image: %w", err)
	}
	step.Note("%s", b.disk)
	step.Done()
	return nil
}

// writeManifest writes manifest and SBOM beside the image.
func (b *build) writeManifest() error {
	m := b.root.Manifest
	if err := writeFile(filepath.Join(b.Out, ManifestName), m.Encode); err != nil {
		return err
	}
	return writeFile(filepath.Join(b.Out, SBOMName), func(w io.Writer) error { return m.SBOM(w, b.Config.Cluster.Name) })
}
