// Package verified mounts file systems of which the kernel holds each block to a root hash (dm-verity), for a moment
// and for whoever looks at them. A block that does not match cannot be read, and stops nothing.
package verified

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"spore/agent/dm"
	"spore/agent/format/verity"
)

// Mount makes the mapping and mounts the squashfs in it at dir, which it makes. The name is that of the mapping; it
// goes away when unmount was called, whatever becomes of this process meanwhile.
func Mount(target dm.Target, name, rootHash, dir string) (unmount func() error, err error) {
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	device, err := dm.Create(control, name, "CRYPT-VERITY-"+rootHash[:32]+"-"+name, target)
	if err != nil {
		return nil, err
	}
	if err = os.MkdirAll(dir, 0o755); err == nil {
		const flags = unix.MS_RDONLY | unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC
		err = unix.Mount("/dev/"+device, dir, "squashfs", flags, "")
	}
	// From now on it goes away when it is unmounted.
	gone := dm.Remove(control, name)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mount it at %s: %w", dir, err), gone)
	}
	return func() error { return errors.Join(unix.Unmount(dir, 0), os.Remove(dir), gone) }, nil
}

// Separate is what the kernel is told of a file system on one device with its hash tree on another. The devices only
// say how large they are; the root hash is the one that was signed.
func Separate(data, tree, rootHash string) (dm.Target, error) {
	dataSize, err := sizeOf(data)
	if err != nil {
		return dm.Target{}, err
	}
	treeSize, err := sizeOf(tree)
	if err != nil {
		return dm.Target{}, err
	}
	f, err := os.Open(tree)
	if err != nil {
		return dm.Target{}, err
	}
	defer f.Close()
	v, err := verity.Separate(f, treeSize, dataSize)
	if err != nil {
		return dm.Target{}, fmt.Errorf("%s: %w", tree, err)
	}
	return dm.Target{Type: "verity", Sectors: v.Sectors(), Params: v.ReadTarget(data, tree, rootHash)}, nil
}

// sizeOf is the size of a device or file in bytes.
func sizeOf(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", path, err)
	}
	return size, nil
}
