package rehearsal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"spore/builder/vm"
	"spore/cluster/spec"
)

// Lengths that QEMU's disks can report, in characters. virtio: include/standard-headers/linux/virtio_blk.h, VIRTIO_BLK_ID_BYTES.
const (
	maxVirtioSerial = 20
	maxSCSISerial   = 36
	maxATASerial    = 20
	maxATAModel     = 40
)

// sizes are those of the disks in bytes, by their use. Their files take what is written to them.
var sizes = map[string]int64{"state": 8 << 30, "kafka": 8 << 30, "osd": 10 << 30}

// defaultSize is that of a use that is not in the table.
const defaultSize = 8 << 30

// disk makes a disk that a selector finds.
func disk(d spec.Disk) (Disk, error) {
	named, value := "serial", d.Selector.Serial
	switch {
	case d.Selector.WWN != "":
		named, value = "wwn", d.Selector.WWN
	case d.Selector.ByID != "":
		named, value = "byID", d.Selector.ByID
	}
	device, problem := deviceFor(named, value)
	if problem != "" {
		return Disk{}, fmt.Errorf("QEMU cannot imitate the disk for %s with the %s %q: %s; the node will not have it", d.Use, named, value, problem)
	}
	out := Disk{Name: d.Use + "-" + fileName(value), Size: sizes[d.Use], Device: device}
	if out.Size == 0 {
		out.Size = defaultSize
	}
	return out, nil
}

// fileName is a name that a file can have, different for different texts.
func fileName(s string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, s)
	if plain == s && len(s) <= 100 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return plain[:min(len(plain), 60)] + "-" + hex.EncodeToString(sum[:4])
}

var (
	naa = regexp.MustCompile(`^(?:0x|naa\.)([0-9a-f]{16})$`)
	eui = regexp.MustCompile(`^eui\.([0-9a-f]{16})$`)
)

// deviceFor is a disk that says so of itself, or why there is none.
func deviceFor(named, value string) (device vm.Disk, problem string) {
	switch named {
	case "serial":
		return serial(value)
	case "wwn":
		return wwn(value)
	}
	return byID(value)
}

func serial(s string) (vm.Disk, string) {
	switch {
	case len(s) <= maxVirtioSerial:
		return vm.Disk{Serial: s}, ""
	case len(s) <= maxSCSISerial:
		return vm.Disk{Bus: "scsi", Serial: s}, ""
	}
	return vm.Disk{}, fmt.Sprintf("QEMU's disks have serial numbers of at most %d characters", maxSCSISerial)
}

func wwn(s string) (vm.Disk, string) {
	s = strings.ToLower(s)
	if m := naa.FindStringSubmatch(s); m != nil {
		return vm.Disk{Bus: "scsi", WWN: "0x" + m[1]}, ""
	}
	if m := eui.FindStringSubmatch(s); m != nil {
		return vm.Disk{Bus: "nvme", EUI: "0x" + m[1]}, ""
	}
	if id, ok := strings.CutPrefix(s, "uuid."); ok {
		return vm.Disk{Bus: "nvme", UUID: id}, ""
	}
	return vm.Disk{}, "QEMU's disks have a WWN of 64 bits, or an NVMe's eui. or uuid."
}

// byID takes the links of udev apart (60-persistent-storage.rules).
func byID(s string) (vm.Disk, string) {
	s = strings.TrimPrefix(s, "/dev/disk/by-id/")
	bus, rest, _ := strings.Cut(s, "-")
	switch {
	case bus == "wwn" && naa.MatchString(rest), bus == "nvme" && (eui.MatchString(rest) || strings.HasPrefix(rest, "uuid.")):
		return wwn(rest)
	case bus == "virtio" && len(rest) <= maxVirtioSerial:
		return vm.Disk{Serial: rest}, ""
	case bus == "ata":
		i := strings.LastIndexByte(rest, '_')
		if model, number := rest[:max(i, 0)], rest[i+1:]; i > 0 && len(model) <= maxATAModel && len(number) <= maxATASerial {
			return vm.Disk{Bus: "sata", Model: model, Serial: number}, ""
		}
	}
	return vm.Disk{}, "QEMU has no disk of that name; a selector by serial or wwn can be rehearsed"
}
