package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spore/builder/image"
	"spore/builder/netboot/ipxe"
)

// Names of the files in a folder for network boot, besides those of package ipxe. Machines load them by these names, from
// whatever URL the folder has.
const (
	NetbootRoot    = "root.squashfs"
	NetbootVerity  = "root.verity"
	NetbootCluster = "cluster.squashfs"
	NetbootCmdline = "cmdline"
	NetbootScript  = "boot.ipxe"
	// NetbootLoaders is the folder of iPXE's binaries.
	NetbootLoaders = "ipxe"
)

// WriteNetboot writes the folder that machines boot from over the network, whole or not at all: an older one of the same name is
// exchanged for it. loaders are iPXE's binaries by name.
func (m *Media) WriteNetboot(ctx context.Context, dir string, loaders map[string][]byte) (err error) {
	dir = filepath.Clean(dir)
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return fmt.Errorf("write the folder for network boot: %w", err)
	}
	// After the exchange this is the old folder.
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	if err := m.fillNetboot(ctx, fresh, loaders); err != nil {
		return fmt.Errorf("write the folder for network boot: %w", err)
	}
	if err := readable(fresh); err != nil {
		return fmt.Errorf("write the folder for network boot: %w", err)
	}
	if err := exchange(fresh, dir); err != nil {
		return fmt.Errorf("put the folder for network boot in its place: %w", err)
	}
	return nil
}

// readable lets everybody read a folder, whatever the umask is: a web server has an account of its own.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(name, 0o755)
		}
		return os.Chmod(name, 0o644)
	})
}

// exchange puts a folder in the place of another one, which then has its name, or in a place that is free.
func exchange(fresh, dir string) error {
	err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return os.Rename(fresh, dir)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		// A filesystem that cannot exchange: there is no folder for a moment.
		old := fresh + ".old"
		if err := os.Rename(dir, old); err != nil {
			return err
		}
		if err := os.Rename(fresh, dir); err != nil {
			return errors.Join(err, os.Rename(old, dir))
		}
		return os.Rename(old, fresh)
	}
	return &os.LinkError{Op: "exchange", Old: fresh, New: dir, Err: err}
}

func (m *Media) fillNetboot(ctx context.Context, dir string, loaders map[string][]byte) error {
	cmdline := m.Cmdline()
	script, err := ipxe.Plain(ipxe.Image{Cluster: m.config.Cluster.Name, Cmdline: cmdline})
	if err != nil {
		return err
	}
	kernel, initrd, err := m.root.readKernel()
	if err != nil {
		return err
	}
	files := map[string][]byte{
		ipxe.Kernel:    kernel,
		ipxe.Initrd:    initrd,
		ipxe.UKI:       m.UKI,
		NetbootCmdline: []byte(cmdline),
		NetbootScript:  script,
	}
	if err := os.Mkdir(filepath.Join(dir, NetbootLoaders), 0o755); err != nil {
		return err
	}
	for name, data := range loaders {
		if files[filepath.Join(NetbootLoaders, name)], err = m.netbootLoader(name, data); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	for name, source := range map[string]image.Source{
		NetbootRoot: m.root.Squashfs, NetbootVerity: m.root.Verity, NetbootCluster: {Path: m.ClusterFile},
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if m.root.Link && name != NetbootCluster && os.Link(source.Path, to) == nil {
			continue
		}
		if err := copySource(to, source); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// netbootLoader signs an iPXE for UEFI as what else the firmware starts. What iPXE loads then is checked by the
// firmware, too: it starts programs by LoadImage alone. A binary for BIOS has no signature that anybody would look at.
func (m *Media) netbootLoader(name string, data []byte) ([]byte, error) {
	if filepath.Ext(name) != ".efi" {
		return data, nil
	}
	out, err := m.keys.program(data)
	if err != nil {
		return nil, fmt.Errorf("iPXE %s: %w", name, err)
	}
	return out, nil
}

// copySource copies a range of a file into a new one; the kernel shares the blocks where the filesystem can.
func copySource(name string, s image.Source) (err error) {
	in, err := os.Open(s.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(s.Offset, io.SeekStart); err != nil {
		return err
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if s.Size == 0 {
		_, err = io.Copy(out, in)
		return err
	}
	_, err = io.CopyN(out, in, s.Size)
	return err
}
