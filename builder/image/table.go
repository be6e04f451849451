package image

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf16"
)

// Sizes of the GPT (UEFI 2.10, tables 5.5 and 5.6).
const (
	gptHeaderSize = 92
	gptEntrySize  = 128
	maxEntries    = 1024
)

// table is a partition table as it was read.
type table struct {
	guid       string
	partitions []Partition
}

// readTable reads and checks one copy of the GPT, whose header is in the given sector of a disk of size bytes.
func readTable(r io.ReaderAt, sector, size int64) (*table, error) {
	h := make([]byte, sectorSize)
	if _, err := r.ReadAt(h, sector*sectorSize); err != nil {
		return nil, fmt.Errorf("read GPT header: %w", err)
	}
	le := binary.LittleEndian
	if string(h[:8]) != "EFI PART" {
		return nil, errors.New("no GPT header")
	}
	sum := le.Uint32(h[16:])
	clear(h[16:20])
	if le.Uint32(h[12:]) != gptHeaderSize || crc32.ChecksumIEEE(h[:gptHeaderSize]) != sum {
		return nil, errors.New("the GPT header has a wrong checksum")
	}
	if le.Uint64(h[24:]) != uint64(sector) {
		return nil, errors.New("the GPT header is in another sector than it says")
	}
	at, count, entrySize := le.Uint64(h[72:]), le.Uint32(h[80:]), le.Uint32(h[84:])
	if entrySize != gptEntrySize || count > maxEntries || at > uint64(size/sectorSize) {
		return nil, fmt.Errorf("the GPT has %d entries of %d bytes at sector %d, which cannot be", count, entrySize, at)
	}
	entries := make([]byte, count*entrySize)
	if _, err := r.ReadAt(entries, int64(at)*sectorSize); err != nil {
		return nil, fmt.Errorf("read GPT entries: %w", err)
	}
	if crc32.ChecksumIEEE(entries) != le.Uint32(h[88:]) {
		return nil, errors.New("the GPT entries have a wrong checksum")
	}
	t := &table{guid: guidText(h[56:72])}
	for i := range int(count) {
		e := entries[i*gptEntrySize:][:gptEntrySize]
		if bytes.Equal(e[:16], make([]byte, 16)) {
			continue
		}
		p, err := parsePartition(i+1, e, size)
		if err != nil {
			return nil, err
		}
		t.partitions = append(t.partitions, p)
	}
	return t, nil
}

func parsePartition(number int, e []byte, size int64) (Partition, error) {
	le := binary.LittleEndian
	first, last := le.Uint64(e[32:]), le.Uint64(e[40:])
	if sectors := uint64(size / sectorSize); first > last || last >= sectors {
		return Partition{}, fmt.Errorf("partition %d spans sectors %d to %d of a disk of %d", number, first, last, sectors)
	}
	var name []uint16
	for i := 56; i < gptEntrySize; i += 2 {
		u := le.Uint16(e[i:])
		if u == 0 {
			break
		}
		name = append(name, u)
	}
	return Partition{
		Number: number, Name: string(utf16.Decode(name)),
		Type: guidText(e[:16]), UUID: guidText(e[16:32]),
		Offset: int64(first) * sectorSize, Size: int64(last-first+1) * sectorSize,
		Attributes: le.Uint64(e[48:]),
	}, nil
}

// guidText writes a GUID of a GPT, whose first three fields are little-endian, as text.
func guidText(b []byte) string {
	swapped := []byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6]}
	return formatUUID(hex.EncodeToString(append(swapped, b[8:16]...)))
}
