package customize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/builder/image"
	"spore/builder/manifest"
	"spore/builder/media"
	"spore/builder/secureboot"
	"spore/builder/uki"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/pki/authenticode"
	"spore/storage/verity"
)

// original is an image that was built before.
type original struct {
	// path leads to it without symbolic links; format is the one that `spore build` has for it.
	path, format string
	// file is the image, or its folder.
	file *os.File
	// info tells of a disk image or an ISO.
	info *image.Info
	// root is the image's root with all that boots it, taken out of its UKI, without signatures.
	root media.Root
	// uki and loader are as they are on the medium.
	uki, loader []byte
	// files are further files of the ESP, enroll the keys there for the firmware.
	files  map[string][]byte
	enroll *image.Enrolment
	// bios is what boots an ISO without UEFI, loaders are iPXE's binaries of a folder for network boot.
	bios    image.BIOS
	loaders map[string][]byte

	signed, predicted bool
	manifest          *manifest.Manifest
	// cmdline is the kernel command line, clusterHash the one that it has.
	cmdline, clusterHash string
	cluster              facts.Cluster
	nodes                []facts.Node
	// part are the files of the cluster part by their path.
	part map[string][]byte
}

// signable is a program that the firmware starts, as it is on the medium.
type signable struct {
	what string
	pe   []byte
}

// programs are what package media signs of the image.
func (o *original) programs() []signable {
	out := []signable{{"the UKI", o.uki}}
	if o.loader != nil {
		out = append(out, signable{"the boot loader", o.loader})
	}
	for _, name := range slices.Sorted(maps.Keys(o.loaders)) {
		if filepath.Ext(name) == ".efi" {
			out = append(out, signable{"iPXE (" + name + ")", o.loaders[name]})
		}
	}
	return out
}

// Close closes the image.
func (o *original) Close() error { return o.file.Close() }

// open reads an image, to change it in place or to write another one.
func open(name string, inPlace bool) (_ *original, err error) {
	o := &original{}
	if o.path, err = filepath.EvalSymlinks(name); err != nil {
		return nil, err
	}
	if o.path, err = filepath.Abs(o.path); err != nil {
		return nil, err
	}
	info, err := os.Stat(o.path)
	if err != nil {
		return nil, err
	}
	read := func() error { return o.readImage(info.Size()) }
	switch {
	case info.Mode()&fs.ModeDevice != 0:
		return nil, fmt.Errorf("%s is a device, and an interrupted change would leave it half: customize the image in a file, and write that with `spore flash`", name)
	case info.IsDir():
		read = func() error { return o.readNetboot(inPlace) }
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not an image; name a file or a folder that `spore build` wrote", name)
	}
	if o.file, err = os.Open(o.path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			o.Close()
		}
	}()
	if err := read(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return o, nil
}

// readImage reads a disk image or an ISO.
func (o *original) readImage(size int64) error {
	var err error
	if o.info, err = image.Inspect(o.file, size); err != nil {
		return err
	}
	if o.info.Root == nil || o.info.Cluster == nil {
		return fmt.Errorf("its UKI and its partitions do not belong together: %s", strings.Join(o.info.Problems, "; "))
	}
	if err := o.checkLayout(); err != nil {
		return err
	}
	p := o.info.ESP()
	esp, err := image.ReadESP(io.NewSectionReader(o.file, p.Offset, p.Size), p.Size)
	if err != nil {
		return err
	}
	o.format, o.loader, o.files, o.enroll = spec.FormatDisk, esp.Loader, esp.Files, esp.Enroll
	if err := o.readUKI(esp.UKI); err != nil {
		return err
	}
	if o.info.ISO != nil {
		if err := o.readISO(); err != nil {
			return err
		}
	}
	// The path leads to the file that is open, whatever is put in its place.
	name := fmt.Sprintf("/proc/self/fd/%d", o.file.Fd())
	o.root.Squashfs = image.Source{Path: name, Offset: o.info.Root.Offset, Size: padded(o.info.Root.Size)}
	o.root.Verity = image.Source{Path: name, Offset: o.info.Root.HashOffset, Size: verity.HashSize(o.root.Squashfs.Size) + o.info.Root.IndexSize}
	if err := o.readManifest(o.file, o.info.Root); err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	if err := o.readCluster(o.file, o.info.Cluster); err != nil {
		return fmt.Errorf("read the cluster part: %w", err)
	}
	return nil
}

// padded is the length of a squashfs file: whole blocks of its hash tree.
func padded(n int64) int64 { return (n + verity.BlockSize - 1) / verity.BlockSize * verity.BlockSize }

// checkLayout refuses the disk of a machine: the second slots and the state on it would be lost.
func (o *original) checkLayout() error {
	for _, p := range o.info.Partitions {
		if strings.HasSuffix(p.Name, "-b") || strings.HasPrefix(p.Name, "spore-state") {
			return fmt.Errorf("it has a partition %s, so it is the disk of a machine and not an image; use the image that `spore build` wrote", p.Name)
		}
	}
	return nil
}

// readUKI takes the UKI apart.
func (o *original) readUKI(data []byte) error {
	o.uki = data
	certificate, err := authenticode.Certificate(data)
	if err != nil {
		return fmt.Errorf("its UKI: %w", err)
	}
	o.root.Loader = o.loader
	if certificate != nil {
		o.signed = true
		if data, err = secureboot.Strip(data); err != nil {
			return fmt.Errorf("its UKI: %w", err)
		}
		if o.loader != nil {
			if o.root.Loader, err = secureboot.Strip(o.loader); err != nil {
				return fmt.Errorf("its boot loader: %w", err)
			}
		}
	}
	parts, err := uki.Split(data)
	if err != nil {
		return err
	}
	o.predicted, o.cmdline = len(parts.PCRPublicKey) > 0, parts.Cmdline
	o.root.Hash, _ = uki.Param(o.cmdline, "roothash")
	o.clusterHash, _ = uki.Param(o.cmdline, "spore.clusterhash")
	o.root.Stub, o.root.Kernel, o.root.Initrd = parts.Stub, parts.Kernel, parts.Initrd
	o.root.Microcode, o.root.OSRelease, o.root.Uname = parts.Microcode, parts.OSRelease, parts.Uname
	return nil
}

// readISO reads what an ISO has besides.
func (o *original) readISO() error {
	o.format = spec.FormatISO
	kernel, err := o.info.ReadKernel(o.file)
	if err != nil {
		return err
	}
	if err := o.takeKernel(kernel); err != nil {
		return err
	}
	o.bios, err = o.info.ReadBIOS(o.file)
	return err
}

// takeKernel takes the kernel at its own length; in the UKI there are zeros behind it.
func (o *original) takeKernel(kernel []byte) error {
	padded, err := uki.Read(o.root.Kernel)
	if err != nil {
		return err
	}
	rest, ok := bytes.CutPrefix(padded, kernel)
	if !ok || len(bytes.Trim(rest, "\x00")) > 0 {
		return errors.New("its kernel differs from the one in its UKI")
	}
	o.root.Kernel = uki.Bytes(kernel)
	return nil
}

// write writes the image with another configuration to a free place.
func (o *original) write(ctx context.Context, m *media.Media, name string) error {
	switch o.format {
	case spec.FormatISO:
		return m.WriteISO(ctx, name, o.bios, o.files)
	case spec.FormatNetboot:
		return m.WriteNetboot(ctx, name, o.loaders)
	}
	return m.WriteDisk(ctx, name, o.files)
}
