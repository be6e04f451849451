package gpt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf16"
)

// entries is how many entries an encoded table has room for, of minEntry bytes: the least that the specification allows.
const entries = 128

// maxLabel is the longest label, in UTF-16 units.
const maxLabel = 36

// Encoded is a table as bytes.
type Encoded struct {
	// MBR is the protective MBR (table 5.4), without the code of a boot loader.
	MBR []byte
	// Primary begins in the second sector of the disk, with the header.
	Primary []byte
	// Backup ends with the last sector of the disk, with the header; it begins at BackupAt, in bytes.
	Backup   []byte
	BackupAt int64
}

// Reserved is how many bytes at either end of a disk a table takes, with the MBR.
func Reserved(sectorSize int) int64 { return int64(2*sectorSize) + arraySize(sectorSize) }

// arraySize is that of the entries, in whole sectors.
func arraySize(sectorSize int) int64 {
	return (entries*minEntry + int64(sectorSize) - 1) / int64(sectorSize) * int64(sectorSize)
}

// Encode lays out a table for a disk of size bytes. The partitions must lie inside, beside each other, and have numbers of
// their own up to 128.
func (t Table) Encode(size int64, sectorSize int) (Encoded, error) {
	if sectorSize != 512 && sectorSize != 4096 {
		return Encoded{}, fmt.Errorf("sectors of %d bytes: only 512 and 4096 are supported", sectorSize)
	}
	sector := int64(sectorSize)
	sectors := size / sector
	if size < 3*Reserved(sectorSize) {
		return Encoded{}, fmt.Errorf("a disk of %d bytes is too small for a partition table", size)
	}
	if err := t.check(size, sectorSize); err != nil {
		return Encoded{}, err
	}
	array := make([]byte, arraySize(sectorSize))
	for _, p := range t.Partitions {
		p.encode(array[(p.Number-1)*minEntry:][:minEntry], sector)
	}
	arraySectors := arraySize(sectorSize) / sector
	last := sectors - 1
	e := Encoded{MBR: protective(sectors), BackupAt: (last - arraySectors) * sector}
	e.Primary = append(t.header(1, last, 2, sectorSize, array), array...)
	e.Backup = append(append([]byte{}, array...), t.header(last, 1, last-arraySectors, sectorSize, array)...)
	return e, nil
}

// check makes sure that what is encoded can be read again.
func (t Table) check(size int64, sectorSize int) error {
	sector, seen := int64(sectorSize), map[int]bool{}
	for i, p := range t.Partitions {
		switch {
		case p.Number < 1 || p.Number > entries || seen[p.Number]:
			return fmt.Errorf("partition %d: the numbers are from 1 to %d, each once", p.Number, entries)
		case p.Start%sector != 0 || p.Size%sector != 0 || p.Size <= 0:
			return fmt.Errorf("partition %d: %d bytes at %d are not whole sectors of %d bytes", p.Number, p.Size, p.Start, sector)
		case p.Start < Reserved(sectorSize) || p.Start+p.Size > size-Reserved(sectorSize)+sector:
			return fmt.Errorf("partition %d: bytes %d to %d are outside of a disk of %d", p.Number, p.Start, p.Start+p.Size, size)
		case p.Type == GUID{}:
			return fmt.Errorf("partition %d has no type", p.Number)
		case len(utf16.Encode([]rune(p.Name))) > maxLabel:
			return fmt.Errorf("partition %d: its label %q is longer than %d characters", p.Number, p.Name, maxLabel)
		}
		seen[p.Number] = true
		for _, q := range t.Partitions[:i] {
			if p.Start < q.Start+q.Size && q.Start < p.Start+p.Size {
				return fmt.Errorf("partitions %d and %d overlap", q.Number, p.Number)
			}
			if p.GUID == q.GUID {
				return errors.New("two partitions have the GUID " + p.GUID.String())
			}
		}
	}
	return nil
}

func (p Partition) encode(e []byte, sector int64) {
	le := binary.LittleEndian
	copy(e, p.Type.OnDisk())
	copy(e[16:], p.GUID.OnDisk())
	le.PutUint64(e[32:], uint64(p.Start/sector))
	le.PutUint64(e[40:], uint64((p.Start+p.Size)/sector-1))
	le.PutUint64(e[48:], p.Attributes)
	for i, u := range utf16.Encode([]rune(p.Name)) {
		le.PutUint16(e[56+2*i:], u)
	}
}

// header is the header in the sector own (table 5.5).
func (t Table) header(own, other, array int64, sectorSize int, data []byte) []byte {
	h := make([]byte, sectorSize)
	le := binary.LittleEndian
	copy(h, "EFI PART\x00\x00\x01\x00")
	le.PutUint32(h[12:], minHeader)
	le.PutUint64(h[24:], uint64(own))
	le.PutUint64(h[32:], uint64(other))
	usable := Reserved(sectorSize) / int64(sectorSize)
	le.PutUint64(h[40:], uint64(usable))
	le.PutUint64(h[48:], uint64(max(own, other)-usable+1))
	copy(h[56:], t.Disk.OnDisk())
	le.PutUint64(h[72:], uint64(array))
	le.PutUint32(h[80:], entries)
	le.PutUint32(h[84:], minEntry)
	le.PutUint32(h[88:], crc32.ChecksumIEEE(data[:entries*minEntry]))
	le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:minHeader]))
	return h
}

// protective is a protective MBR for a disk of so many sectors.
func protective(sectors int64) []byte {
	b := make([]byte, 512)
	copy(b[446:], []byte{0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0})
	// What does not fit is written as all ones.
	binary.LittleEndian.PutUint32(b[458:], uint32(min(sectors-1, 0xffffffff)))
	b[510], b[511] = 0x55, 0xaa
	return b
}

// OnDisk is the mixed-endian form (UEFI specification, appendix A).
func (g GUID) OnDisk() []byte {
	return []byte{g[3], g[2], g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]}
}
