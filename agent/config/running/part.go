package running

import (
	"errors"
	"fmt"
	"io"
	"os"

	"spore/agent/dm"
	"spore/agent/format/squashfs"
	"spore/agent/format/verity"
	"spore/agent/verified"
)

// copyPart copies the files of a cluster part into memory. The slot is not held: the next configuration goes there. As
// at a start, the kernel holds each block to the root hash of the hash tree before it looks at it: what was checked
// when it came may be something else on the disk.
func copyPart(device, clusterHash, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	target, err := targetOf(device, clusterHash)
	if err != nil {
		return err
	}
	mount := dir + ".mount"
	unmount, err := verified.Mount(target, fmt.Sprintf("spore-live-%d", os.Getpid()), clusterHash, mount)
	if err != nil {
		return fmt.Errorf("check %s by its hash tree: %w", device, err)
	}
	return errors.Join(os.CopyFS(dir, os.DirFS(mount)), unmount())
}

// targetOf is what the kernel is told of a cluster part: where it is, and where its hash tree, which follows its file
// system in the same partition. The disk only says how large they are; the root hash is the one that was signed.
func targetOf(device, clusterHash string) (dm.Target, error) {
	f, err := os.Open(device)
	if err != nil {
		return dm.Target{}, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return dm.Target{}, fmt.Errorf("size of %s: %w", device, err)
	}
	used, err := squashfs.Size(f, size)
	if err != nil {
		return dm.Target{}, fmt.Errorf("%s: %w", device, err)
	}
	v, err := verity.Appended(f, size, used)
	if err != nil {
		return dm.Target{}, fmt.Errorf("%s: %w", device, err)
	}
	return dm.Target{Type: "verity", Sectors: v.Sectors(), Params: v.ReadTarget(device, device, clusterHash)}, nil
}
