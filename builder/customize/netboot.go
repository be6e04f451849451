package customize

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spore/builder/image"
	"spore/builder/media"
	"spore/builder/netboot/ipxe"
	"spore/cluster/spec"
)

// Bounds on what is read of a folder for network boot, in bytes.
const (
	maxBootFile = 1 << 30
	maxLoaders  = 16
)

// readNetboot reads a folder for network boot.
func (o *original) readNetboot(inPlace bool) error {
	o.format = spec.FormatNetboot
	uki, err := o.bootFile(ipxe.UKI)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("it has no %s, so it is not a folder for network boot", ipxe.UKI)
	}
	if err != nil {
		return err
	}
	if err := o.readUKI(uki); err != nil {
		return err
	}
	kernel, err := o.bootFile(ipxe.Kernel)
	if err != nil {
		return err
	}
	if err := o.takeKernel(kernel); err != nil {
		return err
	}
	if err := o.readLoaders(); err != nil {
		return err
	}
	for _, hash := range []string{o.root.Hash, o.clusterHash} {
		if b, err := hex.DecodeString(hash); err != nil || len(b) != 32 {
			return fmt.Errorf("the command line of its UKI has the hash %q", hash)
		}
	}
	// In place the new folder takes the files of the old one, which goes.
	o.root.Link = inPlace
	o.root.Squashfs = image.Source{Path: filepath.Join(o.path, media.NetbootRoot)}
	o.root.Verity = image.Source{Path: filepath.Join(o.path, media.NetbootVerity)}
	if err := o.withFile(media.NetbootRoot, o.readManifest); err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	if err := o.withFile(media.NetbootCluster, o.readCluster); err != nil {
		return fmt.Errorf("read the cluster part: %w", err)
	}
	return nil
}

// withFile opens a squashfs of the folder.
func (o *original) withFile(name string, fn func(f *os.File, part *image.Filesystem) error) error {
	f, err := os.Open(filepath.Join(o.path, name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, 48)
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:4]) != "hsqs" {
		return fmt.Errorf("%s is not a squashfs", name)
	}
	used := binary.LittleEndian.Uint64(head[40:])
	if used > uint64(info.Size()) {
		return fmt.Errorf("%s is shorter than it says", name)
	}
	return fn(f, &image.Filesystem{Size: int64(used)})
}

func (o *original) bootFile(name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(o.path, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBootFile+1))
	if err == nil && len(data) > maxBootFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxBootFile)
	}
	return data, err
}

func (o *original) readLoaders() error {
	o.loaders = map[string][]byte{}
	entries, err := os.ReadDir(filepath.Join(o.path, media.NetbootLoaders))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if len(o.loaders) == maxLoaders {
			return fmt.Errorf("%s has more than %d files", media.NetbootLoaders, maxLoaders)
		}
		if o.loaders[e.Name()], err = o.bootFile(filepath.Join(media.NetbootLoaders, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
