// Package blockdev lists the disks of a machine and their partitions from sysfs (Linux Documentation/ABI/stable/
// sysfs-block). It reads no disk.
package blockdev

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Disk is a whole block device.
type Disk struct {
	// Name is the kernel's, such as vda; the node is /dev/Name.
	Name string
	// SysPath is its directory below /sys, such as devices/pci0000:00/0000:00:03.0/virtio0/block/vda. For the one device
	// that stands for several NVMe controllers it is below the first controller.
	SysPath       string
	Model, Serial string
	// Size is in bytes; 0 for a drive without a medium. That of an optical drive is the kernel's guess until somebody opens it.
	Size int64
	// SectorSize is the logical one, in bytes.
	SectorSize int
	// Optical says that it is a drive for discs: the kernel makes no partitions of what is in it.
	Optical bool
}

// String names the disk for people.
func (d Disk) String() string {
	return fmt.Sprintf("/dev/%s (%s, model %q, serial %q, at %s)", d.Name, sizeText(d.Size), d.Model, d.Serial, strings.TrimPrefix(d.SysPath, "devices/"))
}

func sizeText(n int64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// notDisks are block devices that no image is on.
var notDisks = regexp.MustCompile(`^(ram|loop|zram|dm-|md|nbd|fd|mtdblock|ubiblock)[0-9]|^mmcblk[0-9]+(boot[0-9]|rpmb)|^nvme[0-9]+c[0-9]+n`)

// optical are the drives for discs (Linux, drivers/scsi/sr.c).
var optical = regexp.MustCompile(`^sr[0-9]+$`)

// List returns the disks in sysfs, sorted by name, drives for discs included. sys is /sys.
func List(sys fs.FS) ([]Disk, error) {
	entries, err := fs.ReadDir(sys, "block")
	if err != nil {
		return nil, fmt.Errorf("listing disks: %w", err)
	}
	var disks []Disk
	for _, e := range entries {
		if notDisks.MatchString(e.Name()) {
			continue
		}
		if d, ok := read(sys, e.Name()); ok {
			disks = append(disks, d)
		}
	}
	return disks, nil
}

// read reads one disk; ok is false when it has gone meanwhile.
func read(sys fs.FS, name string) (Disk, bool) {
	target, err := fs.ReadLink(sys, "block/"+name)
	if err != nil {
		return Disk{}, false
	}
	real := path.Join("block", target)
	sectors, err := strconv.ParseInt(Text(sys, real+"/size"), 10, 64)
	if err != nil || sectors < 0 {
		return Disk{}, false
	}
	d := Disk{Name: name, SysPath: controllerPath(sys, real), Size: sectors * 512, SectorSize: 512, Optical: optical.MatchString(name)}
	if n, err := strconv.Atoi(Text(sys, real+"/queue/logical_block_size")); err == nil {
		d.SectorSize = n
	}
	d.Model = model(sys, real+"/device/")
	d.Serial = serial(sys, real)
	return d, true
}

// controllerPath gives a multipath NVMe namespace, which is below devices/virtual, the path of its first controller.
func controllerPath(sys fs.FS, real string) string {
	subsystem := path.Dir(real)
	if !strings.HasPrefix(real, "devices/virtual/nvme-subsystem/") {
		return real
	}
	entries, _ := fs.ReadDir(sys, subsystem)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || !strings.HasPrefix(e.Name(), "nvme") {
			continue
		}
		if target, err := fs.ReadLink(sys, subsystem+"/"+e.Name()); err == nil {
			return path.Join(subsystem, target, path.Base(real))
		}
	}
	return real
}

// model joins vendor and model of the device in dir; virtio has numbers there, and MMC a name.
func model(sys fs.FS, dir string) string {
	vendor := Text(sys, dir+"vendor")
	if strings.HasPrefix(vendor, "0x") {
		vendor = ""
		if Text(sys, dir+"model") == "" && strings.HasPrefix(Text(sys, dir+"modalias"), "virtio:") {
			return "virtio"
		}
	}
	return strings.TrimSpace(vendor + " " + Text(sys, dir+"model") + Text(sys, dir+"name"))
}

// serial looks where the several buses keep a serial number.
func serial(sys fs.FS, real string) string {
	for _, file := range []string{real + "/serial", real + "/device/serial"} {
		if s := Text(sys, file); s != "" {
			return s
		}
	}
	// SCSI: page 0x80 of the vital product data is 4 bytes of header and the text.
	if page := Text(sys, real+"/device/vpd_pg80"); len(page) > 4 {
		if s := printable(page[4:]); s != "" {
			return s
		}
	}
	// USB: the serial number is the device's, some levels up.
	for dir := real; strings.Contains(dir, "/usb"); dir = path.Dir(dir) {
		if s := Text(sys, dir+"/serial"); s != "" {
			return s
		}
	}
	return ""
}

// Partition returns the node name (such as vda2) and device number ("254:2") of a disk's partition, and whether the kernel
// has made it.
func Partition(sys fs.FS, d Disk, number int) (name, dev string, ok bool) {
	entries, err := fs.ReadDir(sys, path.Join("class/block", d.Name))
	if err != nil {
		return "", "", false
	}
	for _, e := range entries {
		dir := path.Join("class/block", d.Name, e.Name())
		if strings.HasPrefix(e.Name(), d.Name) && Text(sys, dir+"/partition") == strconv.Itoa(number) {
			dev = Text(sys, dir+"/dev")
			return e.Name(), dev, dev != ""
		}
	}
	return "", "", false
}

// maxText bounds what is read of one sysfs file, in bytes.
const maxText = 4096

// Text reads a small sysfs file, without blanks around it; a file that cannot be read is empty.
func Text(sys fs.FS, name string) string {
	f, err := sys.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s))
}
