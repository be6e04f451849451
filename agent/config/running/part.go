package running

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"spore/agent/dm"
	"spore/agent/format/squashfs"
	"spore/agent/format/verity"
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
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("check %s by its hash tree: %w", device, err)
	}
	defer control.Close()
	name := fmt.Sprintf("spore-live-%d", os.Getpid())
	node, err := dm.Create(control, name, "CRYPT-VERITY-"+clusterHash[:32]+"-"+name, target)
	if err != nil {
		return fmt.Errorf("check %s by its hash tree: %w", device, err)
	}
	mount := dir + ".mount"
	err = os.MkdirAll(mount, 0o755)
	if err == nil {
		const flags = unix.MS_RDONLY | unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC
		err = unix.Mount("/dev/"+node, mount, "squashfs", flags, "")
	}
	// From now on it goes away when it is unmounted, whatever becomes of this process.
	gone := dm.Remove(control, name)
	if err != nil {
		return errors.Join(fmt.Errorf("mount %s: %w", device, err), gone)
	}
	err = os.CopyFS(dir, os.DirFS(mount))
	return errors.Join(err, unix.Unmount(mount, 0), os.Remove(mount), gone)
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
