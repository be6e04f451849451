package efi_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/blockdev"
	"spore/agent/efi"
)

// Places of disks, as Linux 6.12 shows them on QEMU's q35 and, further down, on hardware.
var places = map[string]string{
	"blk1":   "devices/pci0000:00/0000:00:01.0/virtio0/block/vda",
	"blk2":   "devices/pci0000:00/0000:00:02.0/virtio1/block/vdb",
	"sata1":  "devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda",
	"sata2":  "devices/pci0000:00/0000:00:1f.2/ata2/host1/target1:0:0/1:0:0:0/block/sdb",
	"nvme1":  "devices/pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1",
	"nvme2":  "devices/pci0000:00/0000:00:02.0/nvme/nvme1/nvme1n1",
	"scsi0":  "devices/pci0000:00/0000:00:01.0/virtio0/host6/target6:0:0/6:0:0:0/block/sdc",
	"scsi31": "devices/pci0000:00/0000:00:01.0/virtio0/host6/target6:0:3/6:0:3:1/block/sdd",
	"usb3-1": "devices/pci0000:00/0000:00:01.0/usb2/2-1/2-1:1.0/host7/target7:0:0/7:0:0:0/block/sde",
	"usb3-2": "devices/pci0000:00/0000:00:01.0/usb2/2-2/2-2:1.0/host7/target7:0:0/7:0:0:0/block/sde",
	"usb2-1": "devices/pci0000:00/0000:00:01.0/usb1/1-1/1-1:1.0/host8/target8:0:0/8:0:0:0/block/sdf",
	"hub1.3": "devices/pci0000:00/0000:00:01.0/usb1/1-1/1-1.3/1-1.3:1.0/host8/target8:0:0/8:0:0:0/block/sdf",
	"bridge": "devices/pci0000:00/0000:00:1c.4/0000:05:00.0/nvme/nvme2/nvme2n1",
	"vmd":    "devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0/nvme/nvme3/nvme3n1",
	"root2":  "devices/pci0000:80/0000:80:02.0/virtio2/block/vdc",
	"raid":   "devices/pci0000:00/0000:00:03.0/0000:02:00.0/host9/target9:2:0/9:2:0:0/block/sdg",
	"emmc":   "devices/pci0000:00/0000:00:1a.0/mmc_host/mmc0/mmc0:0001/block/mmcblk0",
	"noacpi": "devices/platform/soc/1234.mmc/mmc_host/mmc1/mmc1:0001/block/mmcblk1",
}

var sysLab = fstest.MapFS{}

func init() {
	for name, text := range map[string]string{
		"devices/pci0000:00/firmware_node/uid":                       "0\n",
		"devices/pci0000:80/firmware_node/uid":                       "1\n",
		"devices/pci0000:00/0000:00:1f.2/ata1/ata_port/ata1/port_no": "1\n",
		"devices/pci0000:00/0000:00:1f.2/ata2/ata_port/ata2/port_no": "2\n",
		"devices/pci0000:00/0000:00:01.0/usb1/maxchild":              "4\n",
		"devices/pci0000:00/0000:00:01.0/usb2/maxchild":              "4\n",
		"class/scsi_host/host6/proc_name":                            "virtio_scsi\n",
		"class/scsi_host/host9/proc_name":                            "megaraid_sas\n",
		"class/block/nvme0n1/nsid":                                   "1\n",
		"class/block/nvme1n1/nsid":                                   "1\n",
		"class/block/nvme2n1/nsid":                                   "1\n",
		"class/block/nvme3n1/nsid":                                   "1\n",
		"class/block/nvme2n1/eui":                                    "00 25 38 5b 71 b0 a1 f2\n",
	} {
		sysLab[name] = &fstest.MapFile{Data: []byte(text)}
	}
}

func at(place string) blockdev.Disk {
	dir := places[place]
	for i := len(dir) - 1; ; i-- {
		if dir[i] == '/' {
			return blockdev.Disk{Name: dir[i+1:], SysPath: dir}
		}
	}
}

func lab(testing.TB) []blockdev.Disk {
	var out []blockdev.Disk
	for name := range places {
		out = append(out, at(name))
	}
	return out
}

const (
	root0    = "02010c00d041030a00000000"
	root1    = "02010c00d041080a01000000"
	pci1     = "010106000001"
	pci2     = "010106000002"
	pciVMD   = "01010600000e"
	pci6     = "010106000006"
	pci0     = "010106000000"
	pci3     = "010106000003"
	pci1a    = "01010600001a"
	pci1c4   = "01010600041c"
	pci1f2   = "01010600021f"
	nvme1    = "0317100001000000" + "0000000000000000"
	nvme2    = "0317100002000000" + "0000000000000000"
	nvmeEUI  = "0317100001000000" + "0025385b71b0a1f2"
	nvmeIUE  = "0317100001000000" + "f2a1b0715b382500"
	nvmeOthr = "0317100001000000" + "0025385b71b0a1f3"
	sata0    = "03120a00" + "0000" + "ffff" + "0000"
	sata0pm  = "03120a00" + "0000" + "0000" + "0000"
	scsi00   = "03020800" + "0000" + "0000"
	emmc     = "031d050000"
	usbClass = "030f0b00" + "ffffffff" + "080650"
	usbPort5 = "030506000500"
	usbPort0 = "030506000000"
	vendor   = "0104140000000000000000000000000000000000"
)

func TestDisksAreFoundByTheirDevicePaths(t *testing.T) {
	for _, c := range []struct {
		name, option string
		// exact and near list all places with that verdict among those that are looked at.
		among, exact, near []string
	}{
		{"virtio-blk", bootVirtioBlk, []string{"blk1", "blk2", "sata1", "usb3-1"}, []string{"blk2"}, nil},
		{"AHCI", bootAHCI, []string{"sata1", "sata2", "blk1"}, []string{"sata2"}, nil},
		{"AHCI, first port, without multiplier written as 0", option(root0 + pci1f2 + sata0pm), []string{"sata1", "sata2"}, []string{"sata1"}, nil},
		{"NVMe", bootNVMe, []string{"nvme1", "nvme2", "sata1"}, []string{"nvme2"}, nil},
		{"NVMe, another namespace", option(root0 + pci1 + nvme2), []string{"nvme1", "nvme2"}, nil, nil},
		{"NVMe behind a bridge", option(root0 + pci1c4 + pci0 + nvmeEUI), []string{"bridge", "nvme1"}, []string{"bridge"}, nil},
		{"NVMe, EUI the other way round", option(root0 + pci1c4 + pci0 + nvmeIUE), []string{"bridge", "nvme1"}, []string{"bridge"}, nil},
		{"NVMe, another EUI", option(root0 + pci1c4 + pci0 + nvmeOthr), []string{"bridge", "nvme1"}, nil, nil},
		{"NVMe behind VMD", option(root0 + pciVMD + vendor + pci6 + pci0 + nvme1), []string{"vmd", "bridge"}, []string{"vmd"}, nil},
		{"virtio-scsi", bootVirtioSCSI, []string{"scsi0", "scsi31", "blk2"}, []string{"scsi31"}, nil},
		{"USB, the controller's first port", bootUSB, []string{"usb3-1", "usb3-2", "blk2", "hub1.3"}, []string{"usb3-1"}, nil},
		{"USB, either root hub may be meant", bootUSB, []string{"usb3-1", "usb2-1"}, []string{"usb3-1", "usb2-1"}, nil},
		{"USB behind a hub", bootUSBHub, []string{"hub1.3", "usb3-1", "usb2-1"}, []string{"hub1.3"}, nil},
		{"USB, a port that is counted behind the other hub's", option(root0 + pci1 + usbPort5), []string{"usb3-2", "usb3-1"}, []string{"usb3-2"}, nil},
		{"USB by class", option(usbClass), []string{"usb3-1", "hub1.3", "blk1"}, nil, []string{"usb3-1", "hub1.3"}},
		{"RAID controller with numbers of its own", option(root0 + pci3 + pci0 + scsi00), []string{"raid", "scsi0"}, []string{"raid"}, nil},
		{"RAID controller, other numbers", option(root0 + pci3 + pci0 + "0302080005000000"), []string{"raid", "scsi0"}, nil, []string{"raid"}},
		{"RAID controller without a known node", option(root0 + pci3 + pci0 + vendor), []string{"raid", "blk1"}, nil, []string{"raid"}},
		{"eMMC", option(root0 + pci1a + emmc), []string{"emmc", "noacpi", "blk1"}, nil, []string{"emmc"}},
		{"another PCI root", option(root1 + pci2), []string{"root2", "blk2"}, []string{"root2"}, nil},
		{"a controller is no disk behind a bridge of the same number", option(root0 + pci1), []string{"blk1", "blk2", "bridge"}, []string{"blk1"}, nil},
		{"USB path, SATA disk in that function", option(root0 + pci1f2 + usbPort0), []string{"sata1"}, nil, nil},
		{"SATA path, SCSI path, NVMe path on virtio-blk", option(root0 + pci1 + sata0), []string{"blk1"}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pathOf(t, c.option)
			require.True(t, p.Usable())
			var exact, near []string
			for _, place := range c.among {
				switch p.Match(sysLab, at(place)) {
				case efi.Exact:
					exact = append(exact, place)
				case efi.Controller:
					near = append(near, place)
				}
			}
			require.Equal(t, c.exact, exact)
			require.Equal(t, c.near, near)
		})
	}
}

func TestShortPathsNameNoHardware(t *testing.T) {
	require.False(t, efi.Path(nil).Usable())
	require.False(t, pathOf(t, bootShell).Usable())
	disk := append([]byte{4, 1, 42, 0}, make([]byte, 38)...)
	p, err := efi.ParsePath(append(disk, 0x7f, 0xff, 4, 0))
	require.NoError(t, err)
	require.False(t, p.Usable())
}

func TestOnlyDevicesOnTheWayAreNeeded(t *testing.T) {
	p := pathOf(t, option(root0+pci1c4+pci0+nvme1))
	for device, want := range map[string]bool{
		"devices/pci0000:00/0000:00:1c.4":                     true,
		"devices/pci0000:00/0000:00:1c.4/0000:05:00.0":        true,
		"devices/pci0000:00/0000:00:1c.4/0000:05:00.0/nvme/x": true,
		"devices/pci0000:00/0000:00:1f.2":                     false,
		"devices/pci0000:00/0000:00:1c.4/0000:05:00.1":        false,
		"devices/pci0000:80/0000:80:1c.4":                     false,
		"devices/platform/x":                                  false,
	} {
		require.Equal(t, want, p.OnWay(sysLab, device), device)
	}
	require.False(t, pathOf(t, bootShell).OnWay(sysLab, "devices/pci0000:00/0000:00:1c.4"))
}
