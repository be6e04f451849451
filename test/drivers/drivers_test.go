// Package drivers holds what the builder writes of a kernel's modules against what a node reads of it before it starts
// another root: they share no code.
package drivers

import (
	"context"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/drivers"
	"spore/builder/initrd"
	"spore/builder/kmod"
	"spore/builder/kmod/kmodtest"
)

// root is the module directory of a root as a build makes it.
func root(t *testing.T, kernel []kmodtest.Module) fstest.MapFS {
	t.Helper()
	tree, err := kmodtest.Tree(kernel)
	require.NoError(t, err)
	m, err := kmod.Scan(context.Background(), tree, kmodtest.Release, kmod.Part{})
	require.NoError(t, err)
	indexes, err := m.Files()
	require.NoError(t, err)
	selected, err := initrd.Select(m)
	require.NoError(t, err)
	indexes[initrd.ListFile] = initrd.List(selected)
	dir := drivers.ModuleDir + "/" + kmodtest.Release + "/"
	out := fstest.MapFS{}
	for name, data := range kmodtest.Files(kernel) {
		out[dir+name] = &fstest.MapFile{Data: data}
	}
	for name, data := range indexes {
		out[dir+name] = &fstest.MapFile{Data: data}
	}
	return out
}

// without is the kernel of kmodtest without a module.
func without(path string) []kmodtest.Module {
	return slices.DeleteFunc(slices.Clone(kmodtest.Kernel), func(m kmodtest.Module) bool { return m.Path == path })
}

// machine boots from a virtio disk, and has a device whose driver is in no initramfs.
func machine() drivers.Machine {
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	const disk, pen = "devices/pci0000:00/0000:00:03.0/virtio0", "devices/pci0000:00/usb1/1-1:1.0"
	return drivers.Machine{Boot: "/dev/vda", State: "/dev/vda", Sys: fstest.MapFS{
		disk + "/modalias": text("virtio:d00000002v00001AF4"), disk + "/driver": link("../../../../bus/virtio/drivers/virtio_blk"),
		disk + "/block/vda/size": text("1000"), "block/vda": link("../" + disk + "/block/vda"), "class/block/vda": link("../../" + disk + "/block/vda"),
		"bus/virtio/drivers/virtio_blk/module": link("../../../../module/virtio_blk"),
		pen + "/modalias":                      text("usb:v02-x7"), pen + "/driver": link("../../../../bus/usb/drivers/c"),
		"bus/usb/devices/1-1:1.0": link("../../../" + pen), "bus/usb/drivers/c/module": link("../../../../module/c"),
	}}
}

func TestANodeReadsWhatABuildWrites(t *testing.T) {
	running, err := drivers.ReadKernel(root(t, kmodtest.Kernel), "")
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		kernel []kmodtest.Module
		change func(fstest.MapFS)
		want   []string
	}{
		"the same kernel": {kernel: kmodtest.Kernel},
		"a kernel without the disk's driver": {kernel: without("kernel/drivers/block/virtio_blk.ko"), want: []string{
			"the boot disk /dev/vda, the disk with the node's state /dev/vda: the new kernel has no driver for virtio0 (today virtio_blk; virtio:d00000002v00001AF4)",
		}},
		"an initramfs without the disk's driver": {
			kernel: kmodtest.Kernel,
			change: func(r fstest.MapFS) {
				file := drivers.ModuleDir + "/" + kmodtest.Release + "/" + initrd.ListFile
				require.Contains(t, string(r[file].Data), "virtio_blk\n")
				r[file] = &fstest.MapFile{Data: []byte("dm_mod\n")}
			},
			want: []string{
				"the boot disk /dev/vda, the disk with the node's state /dev/vda: the new initramfs has no driver for virtio0 (today virtio_blk; virtio:d00000002v00001AF4)",
			},
		},
	} {
		fresh := root(t, tt.kernel)
		if tt.change != nil {
			tt.change(fresh)
		}
		k, err := drivers.ReadKernel(fresh, kmodtest.Release)
		require.NoError(t, err)
		losses, err := drivers.Compare(machine(), running, k)
		require.NoError(t, err)
		var got []string
		for _, l := range losses {
			require.True(t, l.Refuses)
			got = append(got, l.String())
		}
		require.Equal(t, tt.want, got, name)
	}
}
