package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spore/builder/apt"
	"spore/builder/deb"
	"spore/builder/image"
	"spore/builder/store"
	"spore/cluster/spec"
)

// biosFiles are what boots an ISO without UEFI, and the packages that have it. They are data here: nothing of them is run,
// and nothing goes into the root.
var biosFiles = []struct {
	pkg, path string
	into      func(*image.BIOS) *[]byte
}{
	{"isolinux", "/usr/lib/ISOLINUX/isohdpfx.bin", func(b *image.BIOS) *[]byte { return &b.MBR }},
	{"isolinux", "/usr/lib/ISOLINUX/isolinux.bin", func(b *image.BIOS) *[]byte { return &b.ISOLinux }},
	{"syslinux-common", "/usr/lib/syslinux/modules/bios/ldlinux.c32", func(b *image.BIOS) *[]byte { return &b.Ldlinux }},
}

// maxBIOSFile bounds a file of biosFiles, in bytes.
const maxBIOSFile = 1 << 20

// writeISO writes the hybrid ISO.
func (b *build) writeISO(ctx context.Context) error {
	if !b.wants(spec.FormatISO) {
		return nil
	}
	step := b.Progress.Step("iso")
	bios, err := b.takeBIOS(ctx)
	if err != nil {
		return fmt.Errorf("take isolinux from its packages: %w", err)
	}
	b.iso = filepath.Join(b.Out, ISOName)
	if err := b.media.WriteISO(ctx, b.iso, bios, nil); err != nil {
		return err
	}
	info, err := os.Stat(b.iso)
	if err != nil {
		return err
	}
	step.Note("%s, %d MiB", b.iso, info.Size()>>20)
	step.Done()
	return nil
}

// takeBIOS takes isolinux from the package archive. Its packages are of one version: the boot loader starts no module of
// another build.
func (b *build) takeBIOS(ctx context.Context) (image.BIOS, error) {
	var bios image.BIOS
	var first apt.Package
	for _, f := range biosFiles {
		p, err := b.mediaPackage(f.pkg)
		if err != nil {
			return bios, err
		}
		if first.Name == "" {
			first = p
		}
		if p.Version != first.Version {
			return bios, fmt.Errorf("the archive has %s of version %s, and %s of version %s: they do not start together", first.Name, first.Version, p.Name, p.Version)
		}
		data, err := b.fromPackage(ctx, p, f.path)
		if err != nil {
			return bios, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
		*f.into(&bios) = data
	}
	return bios, nil
}

// fromPackage returns one file of a package, which is downloaded only when the store does not have the file.
func (b *build) fromPackage(ctx context.Context, p apt.Package, name string) ([]byte, error) {
	key := store.KeyOf("package-file-1", p.SHA256, name)
	if !b.Store.Has(key) {
		if err := b.Archive.Fetch(ctx, []apt.Package{p}); err != nil {
			return nil, err
		}
		err := b.Store.Put(key, func(w *os.File) error {
			f, err := b.Archive.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			data, err := packageFile(f, name)
			if err != nil {
				return err
			}
			_, err = w.Write(data)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return b.Store.ReadAll(key)
}

// packageFile reads a whole .deb, so that its checksums are checked, and returns one file of it.
func packageFile(r io.Reader, name string) ([]byte, error) {
	d, err := deb.NewReader(r, deb.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var data []byte
	for {
		h, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Path != name {
			continue
		}
		if h.Size > maxBIOSFile {
			return nil, fmt.Errorf("%s has %d bytes, more than %d", name, h.Size, maxBIOSFile)
		}
		if data, err = io.ReadAll(d); err != nil {
			return nil, err
		}
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("it has no file %s", name)
	}
	return data, nil
}
