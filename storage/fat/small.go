package fat

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Numbers of clusters at which the next larger kind of FAT begins (specification, "FAT Type Determination").
const (
	fat16Clusters = 4085
	fat32Clusters = 65525
)

// OpenAny reads the boot sector of a filesystem of any kind in size bytes: FAT12 and FAT16, which mkfs.vfat makes of a
// small volume, and FAT32. What it returns is for reading alone.
func OpenAny(r io.ReaderAt, size int64) (*FS, error) {
	b := make([]byte, 512)
	if _, err := r.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("read boot sector: %w", err)
	}
	le := binary.LittleEndian
	fatSectors := int64(le.Uint16(b[22:]))
	if fatSectors == 0 {
		return Open(r, size)
	}
	bytesPer, perCluster := int64(le.Uint16(b[11:])), int64(b[13])
	reserved, fats, rootEntries := int64(le.Uint16(b[14:])), int64(b[16]), int64(le.Uint16(b[17:]))
	total := int64(le.Uint16(b[19:]))
	if total == 0 {
		total = int64(le.Uint32(b[32:]))
	}
	switch {
	case b[510] != 0x55 || b[511] != 0xaa:
		return nil, fmt.Errorf("%w: the boot sector has no signature", ErrUnsound)
	case bytesPer < 512 || bytesPer > 4096 || bytesPer&(bytesPer-1) != 0 || perCluster == 0 || perCluster&(perCluster-1) != 0 ||
		fats == 0 || fats > 2 || reserved == 0 || rootEntries == 0:
		return nil, fmt.Errorf("%w: the boot sector describes no FAT", ErrUnsound)
	case total*bytesPer > size:
		return nil, fmt.Errorf("%w: it claims to be larger than its partition", ErrUnsound)
	}
	root := (reserved + fats*fatSectors) * bytesPer
	rootSectors := (rootEntries*dirEntrySize + bytesPer - 1) / bytesPer
	f := &FS{
		r: r, cluster: perCluster * bytesPer, table: reserved * bytesPer, data: root + rootSectors*bytesPer,
		root: root, rootBytes: rootEntries * dirEntrySize, label: string(b[43:54]),
	}
	count := (total*bytesPer - f.data) / f.cluster
	bits := int64(12)
	if count >= fat16Clusters {
		bits = 16
	}
	// A table too short for the last clusters leaves them unused, as in Linux.
	count = min(count, fatSectors*bytesPer*8/bits-2)
	if count <= 0 || count >= fat32Clusters {
		return nil, fmt.Errorf("%w: it has %d clusters", ErrUnsound, max(count, 0))
	}
	f.clusters = uint32(count)
	return f, f.readSmallTable(bits)
}

// readSmallTable reads the allocation table of FAT12 or FAT16, which has at most 128 KiB.
func (f *FS) readSmallTable(bits int64) error {
	n := int64(f.clusters) + 2
	raw := make([]byte, (n*bits+7)/8)
	if _, err := f.r.ReadAt(raw, f.table); err != nil {
		return fmt.Errorf("read FAT: %w", err)
	}
	f.small = make([]uint32, n)
	for i := range f.small {
		if bits == 16 {
			f.small[i] = small16(uint32(binary.LittleEndian.Uint16(raw[2*i:])))
			continue
		}
		at, high := i*3/2, uint32(0)
		if at+1 < len(raw) {
			high = uint32(raw[at+1])
		}
		f.small[i] = small12((uint32(raw[at]) | high<<8) >> (i % 2 * 4) & 0xfff)
	}
	return nil
}

// small12 and small16 give the marks of the end of a chain the form that FAT32 has.
func small12(v uint32) uint32 {
	if v >= 0xff8 {
		return endOfChain
	}
	return v
}

func small16(v uint32) uint32 {
	if v >= 0xfff8 {
		return endOfChain
	}
	return v
}

// Label is the name of the volume: the entry of the root directory that has it, else what the boot sector says. It is
// empty on a volume without a name.
func (f *FS) Label() (string, error) {
	label := f.label
	err := f.eachEntry(f.rootCluster, func(e []byte) bool {
		if e[0] == entryDeleted || e[11]&0x3f == attrLong || e[11]&attrLabel == 0 {
			return true
		}
		label = string(e[:11])
		return false
	})
	if label = strings.TrimRight(label, " \x00"); label == "NO NAME" {
		label = ""
	}
	return label, err
}
