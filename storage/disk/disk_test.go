package disk

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
)

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

// machine has a virtio disk, an NVMe, two paths to one SAN disk, a loop device, an empty drive and one with a disc.
func machine() (sys, udev fstest.MapFS) {
	sys = fstest.MapFS{
		"block/vda/size": file("16777216\n"), "block/vda/device/vendor": file("0x1af4"), "block/vda/serial": file("BOOT\n"), "block/vda/dev": file("254:0\n"),
		"block/nvme0n1/size": file("1000\n"), "block/nvme0n1/device/serial": file(" S5H9NX0 \n"), "block/nvme0n1/wwid": file("eui.0025385\n"), "block/nvme0n1/dev": file("259:0\n"),
		"block/nvme0n1/queue/logical_block_size": file("4096\n"), "block/nvme0n1/ro": file("1\n"),
		"block/sda/size": file("2000\n"), "block/sda/device/wwid": file("naa.5000c500a1b2c3d4\n"), "block/sda/dev": file("8:0\n"),
		"block/sdb/size": file("2000\n"), "block/sdb/device/wwid": file("naa.5000c500a1b2c3d4\n"), "block/sdb/dev": file("8:16\n"),
		"block/loop0/size": file("2000\n"), "block/loop0/dev": file("7:0\n"),
		"block/sr0/size": file("0\n"), "block/sr0/device/x": file(""), "block/sr0/dev": file("11:0\n"),
		"block/sr1/size": file("524288\n"), "block/sr1/device/type": file("5\n"), "block/sr1/dev": file("11:1\n"), "block/sr1/queue/logical_block_size": file("2048\n"),
	}
	udev = fstest.MapFS{
		"data/b254:0": file("S:disk/by-id/virtio-BOOT\nI:123\nE:ID_SERIAL=BOOT\nG:systemd\n"),
		"data/b8:0":   file("S:disk/by-id/wwn-0x5000c500a1b2c3d4\nS:disk/by-path/pci-1\nE:ID_SERIAL=ST4_ZA1\nE:ID_SERIAL_SHORT=ZA1\nE:ID_WWN=0x5000c500a1b2c3d4\n"),
		"data/b8:16":  file("S:disk/by-id/wwn-0x5000c500a1b2c3d4\nE:ID_SERIAL_SHORT=ZA1\nE:ID_WWN=0x5000c500a1b2c3d4\n"),
	}
	return sys, udev
}

func TestList(t *testing.T) {
	disks, err := List(machine())
	require.NoError(t, err)
	require.Equal(t, []Disk{
		{Name: "nvme0n1", Size: 512000, SectorSize: 4096, ReadOnly: true, Serials: []string{"S5H9NX0"}, WWNs: []string{"eui.0025385"}},
		{Name: "sda", Size: 1024000, SectorSize: 512, Serials: []string{"ZA1", "ST4_ZA1"}, WWNs: []string{"naa.5000c500a1b2c3d4", "0x5000c500a1b2c3d4"}, ByID: []string{"wwn-0x5000c500a1b2c3d4"}},
		{Name: "sdb", Size: 1024000, SectorSize: 512, Serials: []string{"ZA1"}, WWNs: []string{"naa.5000c500a1b2c3d4", "0x5000c500a1b2c3d4"}, ByID: []string{"wwn-0x5000c500a1b2c3d4"}},
		{Name: "sr1", Size: 256 << 20, SectorSize: 2048, Optical: true},
		{Name: "vda", Size: 8 << 30, SectorSize: 512, Serials: []string{"BOOT"}, ByID: []string{"virtio-BOOT"}},
	}, disks)
	require.Equal(t, "/dev/nvme0n1p3", disks[0].Partition(3))
	require.Equal(t, "/dev/sda3", disks[1].Partition(3))
}

func TestSelect(t *testing.T) {
	disks, err := List(machine())
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		selector  spec.DiskSelector
		want, err string
	}{
		"a serial":                         {spec.DiskSelector{Serial: "boot "}, "vda", ""},
		"a serial of an NVMe":              {spec.DiskSelector{Serial: "S5H9NX0"}, "nvme0n1", ""},
		"udev's long serial":               {spec.DiskSelector{Serial: "ST4_ZA1"}, "sda", ""},
		"an EUI":                           {spec.DiskSelector{WWN: "EUI.0025385"}, "nvme0n1", ""},
		"a name under by-id":               {spec.DiskSelector{ByID: "/dev/disk/by-id/virtio-BOOT"}, "vda", ""},
		"two disks with one WWN":           {spec.DiskSelector{WWN: "0x5000c500a1b2c3d4"}, "", `2 disks have the WWN "0x5000c500a1b2c3d4"`},
		"two disks with one serial":        {spec.DiskSelector{Serial: "ZA1"}, "", "use a selector that matches only one disk"},
		"a disk that is not there":         {spec.DiskSelector{Serial: "GONE"}, "", `no disk has the serial "GONE"; there are: /dev/nvme0n1`},
		"a kernel name selects nothing":    {spec.DiskSelector{ByID: "/dev/sda"}, "", "no disk has"},
		"a part of a serial is not enough": {spec.DiskSelector{Serial: "S5H9"}, "", "no disk has"},
		"nothing":                          {spec.DiskSelector{}, "", "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Select(disks, tc.selector)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.Equal(t, strings.HasPrefix(name, "two disks"), errors.Is(err, ErrAmbiguous))
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, d.Name)
		})
	}
}
