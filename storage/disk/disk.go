// Package disk lists the machine's disks with what they can be named by: serial number, WWN, /dev/disk/by-id. It reads
// sysfs and udev's database (the format of /run/udev/data is udev's own: S: lines are links, E: lines properties).
//
// Kernel names such as sda select nothing: they change between boots.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	"spore/cluster/spec"
)

// Disk is one whole disk.
type Disk struct {
	// Name is the kernel's, such as sda; good for this boot only.
	Name string
	// Size is in bytes, SectorSize the logical sector's.
	Size       int64
	SectorSize int
	ReadOnly   bool
	// Optical says that it is a drive for discs; Size is the kernel's guess until somebody has opened it.
	Optical bool
	// Serials, WWNs and ByID are the names that a selector can use.
	Serials, WWNs, ByID []string
}

// scsiDisc is the SCSI peripheral device type of drives for discs (SPC-4, table 138).
const scsiDisc = "5"

// Path is the device node.
func (d Disk) Path() string { return "/dev/" + d.Name }

// Serial is the shortest serial number, for messages; "unknown" when the disk reports none.
func (d Disk) Serial() string {
	if len(d.Serials) == 0 {
		return "unknown"
	}
	return d.Serials[0]
}

// Named is what a command is told to name the disk by: its serial number, else wwn: and its WWN, else id: and its name.
func (d Disk) Named() string {
	switch {
	case len(d.Serials) > 0 && !strings.ContainsAny(d.Serials[0], " '\"$`\\"):
		return d.Serials[0]
	case len(d.WWNs) > 0:
		return "wwn:" + d.WWNs[0]
	case len(d.ByID) > 0:
		return "id:" + d.ByID[0]
	}
	return "'" + d.Serial() + "'"
}

// Partition is the device node of a partition (Linux, disk_name in block/genhd.c: a p after a digit).
func (d Disk) Partition(number int) string {
	last := d.Name[len(d.Name)-1]
	if last >= '0' && last <= '9' {
		return fmt.Sprintf("/dev/%sp%d", d.Name, number)
	}
	return fmt.Sprintf("/dev/%s%d", d.Name, number)
}

// List lists the disks, sorted by name. sys is the content of /sys, udev that of /run/udev. What has no device behind it
// (loop, device-mapper, RAM disks) is no disk.
func List(sys, udev fs.FS) ([]Disk, error) {
	entries, err := fs.ReadDir(sys, "block")
	if err != nil {
		return nil, fmt.Errorf("list disks: %w", err)
	}
	var out []Disk
	for _, e := range entries {
		dir := "block/" + e.Name()
		if _, err := fs.Stat(sys, dir+"/device"); err != nil {
			continue
		}
		sectors := number(sys, dir+"/size")
		if sectors == 0 {
			continue // A drive without a medium.
		}
		d := Disk{
			Name: e.Name(), Size: sectors * 512, // sysfs counts in 512 bytes whatever the disk's sector.
			SectorSize: int(number(sys, dir+"/queue/logical_block_size")), ReadOnly: number(sys, dir+"/ro") == 1,
		}
		d.Optical = Text(sys, dir+"/device/type") == scsiDisc
		if d.SectorSize == 0 {
			d.SectorSize = 512
		}
		d.names(sys, udev, dir)
		out = append(out, d)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// names collects what a selector can use.
func (d *Disk) names(sys, udev fs.FS, dir string) {
	d.Serials = appendNew(d.Serials, Text(sys, dir+"/serial"), Text(sys, dir+"/device/serial"))
	d.WWNs = appendNew(d.WWNs, Text(sys, dir+"/wwid"), Text(sys, dir+"/device/wwid"))
	data, err := fs.ReadFile(udev, "data/b"+Text(sys, dir+"/dev"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if link, ok := strings.CutPrefix(line, "S:disk/by-id/"); ok {
			d.ByID = appendNew(d.ByID, link)
		}
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "E:"), "=")
		switch key {
		case "ID_SERIAL_SHORT", "ID_SERIAL", "ID_SCSI_SERIAL":
			d.Serials = appendNew(d.Serials, value)
		case "ID_WWN", "ID_WWN_WITH_EXTENSION":
			d.WWNs = appendNew(d.WWNs, value)
		}
	}
	// udev sorts by key, so that the long one, with vendor and model before it, is first. The label on a disk has the short one.
	slices.SortStableFunc(d.Serials, func(a, b string) int { return len(a) - len(b) })
}

// ErrAmbiguous is in Select's error when more than one disk has the name. No disk that comes later changes that.
var ErrAmbiguous = errors.New("use a selector that matches only one disk")

// Select returns the one disk that the selector names. No disk and more than one are errors that say what there is.
func Select(disks []Disk, s spec.DiskSelector) (Disk, error) {
	kind, want, names := "serial", s.Serial, func(d Disk) []string { return d.Serials }
	switch {
	case s.WWN != "":
		kind, want, names = "WWN", s.WWN, func(d Disk) []string { return d.WWNs }
	case s.ByID != "":
		kind, want, names = "/dev/disk/by-id name", path.Base(s.ByID), func(d Disk) []string { return d.ByID }
	}
	if want == "" {
		return Disk{}, fmt.Errorf("the disk selector is empty")
	}
	var found []Disk
	for _, d := range disks {
		for _, n := range names(d) {
			if same(n, want) {
				found = append(found, d)
				break
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Disk{}, fmt.Errorf("no disk has the %s %q; there are: %s", kind, want, describe(disks, names))
	}
	return Disk{}, fmt.Errorf("%d disks have the %s %q: %s; %w", len(found), kind, want, describe(found, names), ErrAmbiguous)
}

// same compares names of disks: case and surrounding blanks do not count, nor does the prefix that sysfs gives a WWN.
func same(a, b string) bool {
	norm := func(s string) string {
		s = strings.ToLower(strings.TrimSpace(s))
		if t, ok := strings.CutPrefix(s, "naa."); ok {
			return "0x" + t
		}
		return s
	}
	return norm(a) == norm(b)
}

func describe(disks []Disk, names func(Disk) []string) string {
	if len(disks) == 0 {
		return "none"
	}
	var parts []string
	for _, d := range disks {
		n := strings.Join(names(d), ", ")
		if n == "" {
			n = "nothing"
		}
		parts = append(parts, fmt.Sprintf("%s (%d MiB) with %s", d.Path(), d.Size>>20, n))
	}
	return strings.Join(parts, "; ")
}

func appendNew(list []string, values ...string) []string {
next:
	for _, v := range values {
		if v == "" {
			continue
		}
		for _, old := range list {
			if old == v {
				continue next
			}
		}
		list = append(list, v)
	}
	return list
}

// Text is what a file of sysfs says; empty where there is none.
func Text(f fs.FS, name string) string {
	data, err := fs.ReadFile(f, name)
	if err != nil || len(data) > 4096 {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(data), "?"))
}

func number(f fs.FS, name string) int64 {
	n, err := strconv.ParseInt(Text(f, name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
