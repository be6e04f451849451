package flash

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/storage/disk"
	"spore/storage/gpt"
)

func sysFile(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }

// someHost has the system on LVM on an NVMe disk, a stick with a mounted partition, a USB SSD that calls itself fixed, a memory
// card, an empty SATA disk, and one with a member of a Btrfs.
func someHost() Host {
	sys := fstest.MapFS{}
	add := func(name, dev string, files map[string]string) {
		sys["block/"+name+"/size"] = sysFile("16777216")
		sys["block/"+name+"/dev"] = sysFile(dev)
		sys["block/"+name+"/device/x"] = sysFile("")
		for k, v := range files {
			sys["block/"+name+"/"+k] = sysFile(v)
		}
	}
	add("nvme0n1", "259:0", map[string]string{
		"nvme0n1p2/partition": "2", "nvme0n1p2/dev": "259:2", "nvme0n1p2/holders/dm-0/dev": "254:0", "device/serial": "NVME1", "device/model": "Fast 1T"})
	add("sda", "8:0", map[string]string{"sda1/partition": "1", "sda1/dev": "8:1", "removable": "1", "device/vendor": "Kingston", "device/model": "DataTraveler", "serial": "K1"})
	add("mmcblk0", "179:0", map[string]string{"device/type": "SD", "serial": "0x1", "ro": "1"})
	add("sdc", "8:32", map[string]string{"removable": "0", "serial": "SATA1"})
	add("sdd", "8:48", map[string]string{"removable": "0", "serial": "BTR", "sdd1/partition": "1", "sdd1/dev": "8:49"})
	add("sde", "8:64", map[string]string{"removable": "1", "serial": "SWAP", "sde1/partition": "1", "sde1/dev": "8:65"})
	usb := "devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb"
	sys["block/sdb"] = &fstest.MapFile{Data: []byte("../" + usb), Mode: fs.ModeSymlink}
	for k, v := range map[string]string{"size": "2000000", "dev": "8:16", "removable": "0", "device/model": "Portable SSD", "serial": "USB1"} {
		sys[usb+"/"+k] = sysFile(v)
	}
	return Host{Sys: sys, Udev: fstest.MapFS{},
		Mounts: []byte("22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw\n" +
			"30 22 8:1 / /media/me/MY\\040STICK rw - vfat /dev/sda1 rw\n" +
			"31 22 0:44 /sub /data rw - btrfs /dev/sdd1 rw\n"),
		Swaps: []byte("Filename Type Size Used Priority\n/dev/sde1 partition 1 0 -2\n"),
	}
}

func targetOf(t *testing.T, name string) Target {
	t.Helper()
	all, err := someHost().Disks()
	require.NoError(t, err)
	for _, d := range all {
		if d.Name == name {
			return d
		}
	}
	t.Fatal("there is no " + name)
	return Target{}
}

func TestWhatIsRefused(t *testing.T) {
	named := func(d Target) Target { d.Named = true; return d }
	for name, tc := range map[string]struct {
		target Target
		want   string
	}{
		"the disk of the running system, also behind LVM":          {targetOf(t, "nvme0n1"), "the running system is on it (/dev/nvme0n1p2 is used by /dev/dm-0; /dev/dm-0 is mounted on /)"},
		"that, named by its serial number":                         {named(targetOf(t, "nvme0n1")), "boot another one"},
		"a stick that is mounted":                                  {targetOf(t, "sda"), "/dev/sda1 is mounted on /media/me/MY STICK: unmount it"},
		"a stick that is mounted, named by its serial":             {named(targetOf(t, "sda")), "unmount it"},
		"a disk of a Btrfs, whose numbers mountinfo does not tell": {named(targetOf(t, "sdd")), "/dev/sdd1 is mounted on /data"},
		"swap":                         {targetOf(t, "sde"), "used as swap"},
		"a card that is locked":        {targetOf(t, "mmcblk0"), "switch on its side"},
		"a disk that is not removable": {targetOf(t, "sdc"), "name it by its serial number (SATA1)"},
		"a partition":                  {Target{Disk: disk.Disk{Name: "sdb"}, Part: "/dev/sdb1", Removable: true}, "name the whole disk, /dev/sdb"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Refuse(tc.target)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "nothing was written")
		})
	}
}

func TestWhatIsNotRefused(t *testing.T) {
	inner := targetOf(t, "sdc")
	inner.Named = true
	for name, tc := range map[string]Target{
		"a USB disk that calls itself fixed":       targetOf(t, "sdb"),
		"an inner disk named by its serial number": inner,
		"a file":                    {File: "stick.img"},
		"a card that is not locked": {Disk: disk.Disk{Name: "mmcblk1"}, Removable: true},
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, Refuse(tc)) })
	}
	require.Equal(t, "/dev/sda (8192 MiB, Kingston DataTraveler, serial K1)", targetOf(t, "sda").Where())
}

func TestFindingATarget(t *testing.T) {
	dir := t.TempDir()
	h := someHost()
	_, err := h.Find(filepath.Join(dir, "none.img"))
	require.ErrorContains(t, err, "truncate -s 8G")
	_, err = h.Find(dir)
	require.ErrorContains(t, err, "neither a disk nor a file")
	_, err = h.Find("/dev/null")
	require.ErrorContains(t, err, "neither a disk nor a file")
	name := filepath.Join(dir, "stick.img")
	require.NoError(t, os.WriteFile(name, make([]byte, 1000), 0o600))
	found, err := h.Find(name)
	require.NoError(t, err)
	require.Equal(t, name, found.File)
	require.EqualValues(t, 1000, found.Size)
}

func TestContentIsSaidInWords(t *testing.T) {
	part := func(kind gpt.GUID, n int, name string) gpt.Partition {
		return gpt.Partition{Number: n, Type: kind, GUID: guid(byte(n)), Start: int64(n) * mebi, Size: mebi, Name: name}
	}
	for name, tc := range map[string]struct {
		parts []gpt.Partition
		want  string
	}{
		"a system":               {[]gpt.Partition{part(gpt.ESP, 1, "esp"), part(typeRoot, 2, "root-a")}, "a system of Spore"},
		"a system and its state": {[]gpt.Partition{part(typeRoot, 2, "root-a"), part(typeState, 3, "spore-state")}, "a system of Spore, and state of 1 MiB"},
		"state alone":            {[]gpt.Partition{part(typeState, 3, "spore-state")}, "state of 1 MiB alone: an earlier run was cut off"},
		"somebody's":             {[]gpt.Partition{part(gpt.GUID{1}, 1, "photos"), part(gpt.GUID{1}, 2, "")}, `"photos" of 1 MiB, "partition 2" of 1 MiB`},
		"an empty table":         {nil, "an empty partition table"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := gpt.Table{Partitions: tc.parts}.Encode(diskSize, 512)
			require.NoError(t, err)
			data := make([]byte, diskSize)
			copy(data[512:], e.Primary)
			require.Equal(t, tc.want, Content(bytes.NewReader(data), diskSize, 512))
		})
	}
	require.Equal(t, "nothing", Content(bytes.NewReader(make([]byte, diskSize)), diskSize, 512))
	data := make([]byte, diskSize)
	copy(data[32769:], "CD001")
	require.Equal(t, "it holds an ISO 9660 file system", Content(bytes.NewReader(data), diskSize, 512))
	copy(data[512:], "EFI PART")
	require.Equal(t, "a damaged partition table", Content(bytes.NewReader(data), diskSize, 512))
}
