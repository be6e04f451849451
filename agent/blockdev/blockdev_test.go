package blockdev_test

import (
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/blockdev"
)

// sysfs makes a fake /sys: files by name, links by name.
func sysfs(files, links map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, target := range links {
		m[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}
	return m
}

const (
	virtio = "devices/pci0000:00/0000:00:03.0/virtio0/block/vda"
	scsi   = "devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda"
	usb    = "devices/pci0000:00/0000:00:02.0/usb1/1-1/1-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb"
	shared = "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"
	disc   = "devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sr0"
	mmc    = "devices/pci0000:00/0000:00:1a.0/mmc_host/mmc0/mmc0:0001/block/mmcblk0"
)

var sys = sysfs(map[string]string{
	virtio + "/size": "6492160\n", virtio + "/serial": "FIRST\n", virtio + "/queue/logical_block_size": "512\n",
	virtio + "/device/vendor": "0x1af4\n", virtio + "/device/modalias": "virtio:d00000002v00001AF4\n",
	virtio + "/vda2/partition": "2\n", virtio + "/vda2/dev": "254:2\n", virtio + "/vda12/partition": "12\n", virtio + "/vda12/dev": "254:12\n",
	scsi + "/size": "7814037168\n", scsi + "/queue/logical_block_size": "4096\n", scsi + "/device/vendor": "ATA     \n", scsi + "/device/model": "Samsung SSD 860 \n",
	scsi + "/device/vpd_pg80": "\x00\x80\x00\x14S3Z8NB0K123456      ",
	usb + "/size":             "0\n", usb + "/device/vendor": "Kingston\n", usb + "/device/model": "DataTraveler\n",
	"devices/pci0000:00/0000:00:02.0/usb1/1-1/serial": "60A44C4138D8F311\n",
	shared + "/size": "2097152\n", shared + "/device/model": "QEMU NVMe Ctrl \n", shared + "/device/serial": "NV1 \n",
	disc + "/size": "2097151\n", disc + "/queue/logical_block_size": "2048\n", disc + "/device/vendor": "QEMU\n", disc + "/device/model": "QEMU DVD-ROM\n",
	mmc + "/size": "61079552\n", mmc + "/device/name": "DF4032\n", mmc + "/device/serial": "0x1f2e3d4c\n",
	mmc + "boot0/size":                 "8192\n",
	"devices/virtual/block/loop0/size": "0\n",
}, map[string]string{
	"block/vda": "../" + virtio, "block/sda": "../" + scsi, "block/sdb": "../" + usb, "block/nvme0n1": "../" + shared, "block/mmcblk0": "../" + mmc, "block/sr0": "../" + disc,
	"block/mmcblk0boot0": "../" + mmc + "boot0", "block/loop0": "../devices/virtual/block/loop0", "block/gone": "../devices/gone",
	"devices/virtual/nvme-subsystem/nvme-subsys0/nvme0": "../../../pci0000:00/0000:00:04.0/nvme/nvme0",
	"class/block/vda": "../../" + virtio,
})

func TestDisksAreListed(t *testing.T) {
	disks, err := blockdev.List(sys)
	require.NoError(t, err)
	require.Equal(t, []blockdev.Disk{
		{Name: "mmcblk0", SysPath: mmc, Model: "DF4032", Serial: "0x1f2e3d4c", Size: 61079552 * 512, SectorSize: 512},
		{Name: "nvme0n1", SysPath: "devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1", Model: "QEMU NVMe Ctrl", Serial: "NV1", Size: 1 << 30, SectorSize: 512},
		{Name: "sda", SysPath: scsi, Model: "ATA Samsung SSD 860", Serial: "S3Z8NB0K123456", Size: 7814037168 * 512, SectorSize: 4096},
		{Name: "sdb", SysPath: usb, Model: "Kingston DataTraveler", Serial: "60A44C4138D8F311", Size: 0, SectorSize: 512},
		{Name: "sr0", SysPath: disc, Model: "QEMU QEMU DVD-ROM", Size: 2097151 * 512, SectorSize: 2048, Optical: true},
		{Name: "vda", SysPath: virtio, Model: "virtio", Serial: "FIRST", Size: 6492160 * 512, SectorSize: 512},
	}, disks)
	require.Equal(t, `/dev/vda (3170 MiB, model "virtio", serial "FIRST", at pci0000:00/0000:00:03.0/virtio0/block/vda)`, disks[5].String())
	require.Contains(t, disks[2].String(), "3726 GiB")
}

func TestPartitionsAreFoundByNumber(t *testing.T) {
	disk := blockdev.Disk{Name: "vda", SysPath: virtio}
	name, dev, ok := blockdev.Partition(sys, disk, 2)
	require.True(t, ok)
	require.Equal(t, []string{"vda2", "254:2"}, []string{name, dev})
	_, _, ok = blockdev.Partition(sys, disk, 1)
	require.False(t, ok, "the kernel has not made it")
	_, _, ok = blockdev.Partition(sys, blockdev.Disk{Name: "vdz"}, 1)
	require.False(t, ok)
}

func TestNoSysfsIsAnError(t *testing.T) {
	_, err := blockdev.List(fstest.MapFS{})
	require.ErrorContains(t, err, "listing disks")
}

func TestTheSysfsOfThisMachineIsRead(t *testing.T) {
	if _, err := os.Stat("/sys/block"); err != nil {
		return
	}
	disks, err := blockdev.List(os.DirFS("/sys"))
	require.NoError(t, err)
	for _, d := range disks {
		require.Contains(t, d.SysPath, "devices/", d.Name)
		require.NotContains(t, d.SysPath, "..", d.Name)
	}
}
