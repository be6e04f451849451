package install

import (
	"errors"
	"fmt"
	"io"

	"spore/storage/fat"
	"spore/storage/flash"
	"spore/storage/gpt"
)

// Types of partitions (Discoverable Partitions Specification; cluster is ours).
var (
	typeRoot    = gpt.MustParseGUID("4f68bce3-e8cd-4db1-96e7-fbcaf984b709")
	typeVerity  = gpt.MustParseGUID("2c7357ed-ebd2-46d9-aec1-23d437ec2bf5")
	typeCluster = gpt.MustParseGUID("6b0d4b7e-5c0a-4e0e-9d55-73706f726500")
	typeState   = gpt.MustParseGUID("4d21b016-b534-45c2-a9fb-5c16e091fd2d")
)

const (
	mib = 1 << 20
	// readOnly is the attribute of partitions that are mounted read-only (UAPI.2, bit 60).
	readOnly = 1 << 60
	// LoaderPath is where firmware looks on a disk that it knows no boot entry of (UEFI 2.10, section 3.5.1.1).
	LoaderPath = "/EFI/BOOT/BOOTX64.EFI"
)

// slots are the partitions of a disk, with the sizes of the disk layout.
var slots = []struct {
	name       string
	kind       gpt.GUID
	size       int64
	attributes uint64
}{
	{"esp", gpt.ESP, 1024 * mib, 0},
	{"root-a", typeRoot, 2048 * mib, readOnly},
	{"verity-a", typeVerity, 32 * mib, readOnly},
	{"cluster-a", typeCluster, 64 * mib, 0},
}

// Source is what the machine was started from.
type Source struct {
	// Parts are root, its hash tree and the cluster part, in this order.
	Parts [3]Part
	// ESP are the files of the medium's ESP.
	ESP []fat.File
	// ESPSize is the size of the ESP where the new one shall have the same; 0 is that of the disk layout.
	ESPSize int64
}

// Part is a partition of the medium.
type Part struct {
	GUID gpt.GUID
	// Slot is the size of the new partition where it shall be the same; 0 is that of the disk layout.
	Slot    int64
	Size    int64
	Content io.ReaderAt
}

// Wanted are the PARTUUIDs of root, hash tree and cluster part, in this order.
type Wanted [3]gpt.GUID

// Medium is the source on a disk or disc of size bytes, whose partition table has sectors of a size. The second slot's
// partitions and state, which were made on the machine, are not taken along.
func Medium(r io.ReaderAt, size int64, sectorSize int, want Wanted) (Source, error) {
	t, err := gpt.Read(r, size, sectorSize)
	if err != nil {
		return Source{}, fmt.Errorf("read its partition table: %w", err)
	}
	var s Source
	esp := gpt.Partition{}
	for _, p := range t.Partitions {
		if p.Type == gpt.ESP && esp.Size == 0 {
			esp = p
		}
	}
	if esp.Size == 0 {
		return Source{}, errors.New("it has no EFI system partition: start the machine from a stick or disc with spore.img or spore.iso")
	}
	// A disc has partitions as large as their content, and its ESP lies behind them.
	same := esp.Number == 1 && esp.Start == mib
	for i, guid := range want {
		p, ok := t.ByGUID(guid)
		if !ok {
			return Source{}, fmt.Errorf("it has no partition %s", guid)
		}
		s.Parts[i] = Part{GUID: guid, Size: p.Size, Content: io.NewSectionReader(r, p.Start, p.Size)}
		if same {
			s.Parts[i].Slot = p.Size
		}
	}
	if same {
		s.ESPSize = esp.Size
	}
	fsys, err := fat.Open(io.NewSectionReader(r, esp.Start, esp.Size), esp.Size)
	if err != nil {
		return Source{}, fmt.Errorf("its ESP: %w", err)
	}
	if s.ESP, err = fsys.Walk(); err != nil {
		return Source{}, fmt.Errorf("its ESP: %w", err)
	}
	return s, nil
}

// layout is what the disk with a serial number gets.
func (s Source) layout(serial string, c flash.Choice, sectorSize int) (flash.Layout, error) {
	l := flash.Layout{SectorSize: sectorSize}
	identity := []string{serial}
	for _, p := range s.Parts {
		identity = append(identity, p.GUID.String())
	}
	l.Table.Disk = derived(append([]string{"spore installed disk"}, identity...)...)
	at := int64(mib)
	for i, slot := range slots {
		size, guid := slot.size, derived(append([]string{"spore installed esp"}, identity...)...)
		if i == 0 && s.ESPSize != 0 {
			size = s.ESPSize
		}
		if i > 0 {
			p := s.Parts[i-1]
			guid = p.GUID
			size = max(size, (p.Size+mib-1)/mib*mib)
			if p.Slot != 0 {
				size = p.Slot
			}
		}
		l.Table.Partitions = append(l.Table.Partitions, gpt.Partition{
			Number: i + 1, Type: slot.kind, GUID: guid, Start: at, Size: size, Name: slot.name, Attributes: slot.attributes,
		})
		at += size
	}
	esp := l.Table.Partitions[0]
	content, err := flash.NewESP(s.ESP, esp.Size, esp.Start, c, sectorSize)
	if err != nil {
		return l, err
	}
	l.Extents = append(l.Extents, flash.Extent{At: esp.Start, Size: esp.Size, Content: content})
	for i, p := range s.Parts {
		slot := l.Table.Partitions[i+1]
		l.Extents = append(l.Extents, flash.Extent{At: slot.Start, Size: min(p.Size, flash.Used(p.Content, slot.Type, p.Size)), Content: p.Content})
	}
	return l, nil
}
