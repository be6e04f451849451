package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"spore/agent/bootinfo"
	"spore/agent/dm"
	"spore/agent/format/squashfs"
	"spore/agent/format/verity"
)

// mapRoot maps the root: data and hash tree are partitions of their own.
func (b *boot) mapRoot() (string, error) {
	data, hash := b.parts[b.wanted.Root], b.parts[b.wanted.Verity]
	f, err := os.Open(hash.Node)
	if err != nil {
		return "", err
	}
	defer f.Close()
	v, err := verity.Separate(f, hash.Size, data.Size)
	if err != nil {
		return "", fmt.Errorf("%s: %w", hash.Node, err)
	}
	return b.mapVolume("root", v, data, hash, b.args.RootHash)
}

// mapCluster maps the cluster part: its hash tree follows its file system in the same partition.
func (b *boot) mapCluster() (string, error) {
	p := b.parts[b.wanted.Cluster]
	f, err := os.Open(p.Node)
	if err != nil {
		return "", err
	}
	defer f.Close()
	used, err := squashfs.Size(f, p.Size)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.Node, err)
	}
	v, err := verity.Appended(f, p.Size, used)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.Node, err)
	}
	return b.mapVolume("cluster", v, p, p, b.args.ClusterHash)
}

// mapVolume makes /dev/mapper/name. udev makes the same link again when it runs.
func (b *boot) mapVolume(name string, v verity.Volume, data, hash part, rootHash string) (string, error) {
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("%w; module dm-mod is not loaded", err)
	}
	defer control.Close()
	uuid := fmt.Sprintf("CRYPT-VERITY-%s-%s", rootHash[:32], name)
	node, err := dm.Create(control, name, uuid, dm.Target{Type: "verity", Sectors: v.Sectors(), Params: v.Target(data.Dev, hash.Dev, rootHash)})
	if err != nil {
		return "", err
	}
	if err := os.Symlink("../"+node, "/dev/mapper/"+name); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return fmt.Sprintf("mapped %s: verity on %s, %d MiB, root hash %s", name, data.Node, v.DataBlocks*verity.BlockSize>>20, rootHash), nil
}

func (b *boot) mountRoot() (string, error) {
	err := mountAt("/dev/mapper/root", sysroot, "squashfs", "", unix.MS_RDONLY)
	return "mounted the root", describeMount(err)
}

func (b *boot) mountCluster() (string, error) {
	err := mountAt("/dev/mapper/cluster", bootinfo.ClusterDir, "squashfs", "", unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC)
	return "mounted the cluster part", describeMount(err)
}

// describeMount adds what an error number of mount(2) means here.
func describeMount(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%w; module squashfs is not loaded", err)
	}
	if err != nil && strings.Contains(err.Error(), "invalid argument") {
		return fmt.Errorf("%w; what is mapped is not a squashfs that this kernel knows", err)
	}
	return err
}
