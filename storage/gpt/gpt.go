// Package gpt reads and encodes GUID partition tables (UEFI specification 2.10, section 5.3). Everything it reads is
// outside data: sizes are bounded and both checksums must be right.
//
// It does not write to disks: in which order the copies of a table are replaced is for whoever replaces them. It does
// not read the protective MBR.
//
// github.com/diskfs/go-diskfs, by which the builder writes its tables and against which the tests hold this package,
// adds 0.5 MB to a program, eight times what this does. It replaces both copies by itself, and gives new GUIDs where
// none are set.
package gpt

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"unicode/utf16"
)

// Bounds of what is read. The specification asks for room for 128 entries of 128 bytes; tools allow more.
const (
	minHeader  = 92
	minEntry   = 128
	maxEntry   = 4096
	maxEntries = 1024
	maxArray   = 1 << 20
)

// ErrNone is returned when the disk has no table at all.
var ErrNone = errors.New("no GUID partition table")

// GUID is a GUID in the byte order of its text form.
type GUID [16]byte

// ESP is the type of EFI system partitions (UEFI 2.10, section 5.3.3).
var ESP = MustParseGUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")

// ParseGUID reads the text form 8-4-4-4-12, in either case.
func ParseGUID(s string) (GUID, error) {
	var g GUID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return g, fmt.Errorf("%q is not a GUID", s)
	}
	if _, err := hex.Decode(g[:], []byte(strings.ReplaceAll(s, "-", ""))); err != nil {
		return GUID{}, fmt.Errorf("%q is not a GUID", s)
	}
	return g, nil
}

// MustParseGUID is ParseGUID for constants.
func MustParseGUID(s string) GUID {
	g, err := ParseGUID(s)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return g
}

// String is the text form in lower case.
func (g GUID) String() string {
	h := hex.EncodeToString(g[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// FromDisk converts the mixed-endian form on disk (UEFI specification, appendix A).
func FromDisk(b []byte) GUID {
	var g GUID
	copy(g[:], b)
	g[0], g[1], g[2], g[3] = g[3], g[2], g[1], g[0]
	g[4], g[5] = g[5], g[4]
	g[6], g[7] = g[7], g[6]
	return g
}

// Partition is one used entry.
type Partition struct {
	// Number counts from 1, as the kernel numbers partitions.
	Number int
	Type   GUID
	GUID   GUID
	// Start and Size are in bytes.
	Start, Size int64
	// Name is the label, of at most 36 UTF-16 units.
	Name string
	// Attributes are the 64 bits of the entry.
	Attributes uint64
}

// Table is a valid table.
type Table struct {
	// Disk is the GUID of the disk.
	Disk GUID
	// Alternate is where the header that was read says that the other one is, in bytes.
	Alternate int64
	// Backup says that the primary table was bad and the backup was used. The kernel does not use it by itself.
	Backup     bool
	Partitions []Partition
}

// ByGUID returns the partition with the GUID.
func (t Table) ByGUID(g GUID) (Partition, bool) {
	for _, p := range t.Partitions {
		if p.GUID == g {
			return p, true
		}
	}
	return Partition{}, false
}

// Read reads the table of a disk of size bytes whose logical sectors have sectorSize bytes (512 or 4096). When the
// primary table is damaged, as after a power cut while it was written, it takes the backup: where a sound primary
// header says that it is, or in the last sector. Read returns ErrNone when there is none of these.
func Read(r io.ReaderAt, size int64, sectorSize int) (Table, error) {
	if sectorSize != 512 && sectorSize != 4096 {
		return Table{}, fmt.Errorf("sectors of %d bytes: only 512 and 4096 are supported", sectorSize)
	}
	sectors := size / int64(sectorSize)
	if sectors < 4 {
		return Table{}, ErrNone
	}
	d := disk{r: r, sectors: sectors, sectorSize: sectorSize}
	h, err := d.header(1)
	if err == nil {
		var t Table
		if t, err = d.table(h); err == nil {
			return t, nil
		}
	}
	backups := []int64{sectors - 1}
	if h.alternate > 1 && h.alternate < uint64(sectors-1) {
		backups = append(backups, int64(h.alternate))
	}
	var backupErr error
	for _, lba := range backups {
		t, err := d.backup(lba)
		if err == nil {
			return t, nil
		}
		backupErr = err
	}
	if errors.Is(err, ErrNone) && errors.Is(backupErr, ErrNone) {
		return Table{}, ErrNone
	}
	// Not wrapped: one of the two may be ErrNone, and a damaged table is not the same as none.
	return Table{}, fmt.Errorf("GUID partition table: primary: %v; backup: %v", err, backupErr)
}

// disk is what tables are read from.
type disk struct {
	r          io.ReaderAt
	sectors    int64
	sectorSize int
}

// header is a header whose own checksum is right.
type header struct {
	disk                GUID
	alternate, arrayLBA uint64
	count, entrySize    uint32
	arraySum            uint32
}

func (d disk) backup(lba int64) (Table, error) {
	h, err := d.header(lba)
	if err != nil {
		return Table{}, err
	}
	t, err := d.table(h)
	t.Backup = true
	return t, err
}

// header reads the header in the sector lba.
func (d disk) header(lba int64) (header, error) {
	b := make([]byte, d.sectorSize)
	if err := readFull(d.r, b, lba*int64(d.sectorSize)); err != nil {
		return header{}, err
	}
	if string(b[:8]) != "EFI PART" {
		return header{}, ErrNone
	}
	le := binary.LittleEndian
	size, sum := le.Uint32(b[12:]), le.Uint32(b[16:])
	if size < minHeader || int64(size) > int64(d.sectorSize) {
		return header{}, fmt.Errorf("header of %d bytes", size)
	}
	clear(b[16:20])
	if crc32.ChecksumIEEE(b[:size]) != sum {
		return header{}, errors.New("wrong checksum of the header")
	}
	if le.Uint64(b[24:]) != uint64(lba) {
		return header{}, fmt.Errorf("the header in sector %d claims to be in sector %d", lba, le.Uint64(b[24:]))
	}
	return header{
		disk: FromDisk(b[56:72]), alternate: le.Uint64(b[32:]), arrayLBA: le.Uint64(b[72:]), count: le.Uint32(b[80:]), entrySize: le.Uint32(b[84:]), arraySum: le.Uint32(b[88:]),
	}, nil
}

// table reads the entries that a header names.
func (d disk) table(h header) (Table, error) {
	if h.count > maxEntries || h.entrySize < minEntry || h.entrySize > maxEntry || h.entrySize%8 != 0 || uint64(h.count)*uint64(h.entrySize) > maxArray {
		return Table{}, fmt.Errorf("%d entries of %d bytes", h.count, h.entrySize)
	}
	array := make([]byte, int(h.count)*int(h.entrySize))
	if h.arrayLBA < 2 || h.arrayLBA > uint64(d.sectors) || int64(h.arrayLBA)+int64(len(array)/d.sectorSize) > d.sectors {
		return Table{}, fmt.Errorf("entries in sector %d of %d", h.arrayLBA, d.sectors)
	}
	if err := readFull(d.r, array, int64(h.arrayLBA)*int64(d.sectorSize)); err != nil {
		return Table{}, err
	}
	if crc32.ChecksumIEEE(array) != h.arraySum {
		return Table{}, errors.New("wrong checksum of the entries")
	}
	t, err := parseEntries(array, int(h.entrySize), d.sectors, d.sectorSize)
	t.Disk, t.Alternate = h.disk, int64(min(h.alternate, uint64(d.sectors)))*int64(d.sectorSize)
	return t, err
}

func parseEntries(array []byte, entrySize int, sectors int64, sectorSize int) (Table, error) {
	var t Table
	le := binary.LittleEndian
	for n := 1; len(array) > 0; n, array = n+1, array[entrySize:] {
		p := Partition{Number: n, Type: FromDisk(array[:16]), GUID: FromDisk(array[16:32])}
		if p.Type == (GUID{}) {
			continue
		}
		first, last := le.Uint64(array[32:]), le.Uint64(array[40:])
		if first < 2 || last < first || last >= uint64(sectors) {
			return Table{}, fmt.Errorf("partition %d: sectors %d to %d of %d", n, first, last, sectors)
		}
		p.Start, p.Size = int64(first)*int64(sectorSize), int64(last-first+1)*int64(sectorSize)
		p.Name, p.Attributes = nameOf(array[56:minEntry]), le.Uint64(array[48:])
		t.Partitions = append(t.Partitions, p)
	}
	return t, nil
}

// nameOf reads a label.
func nameOf(b []byte) string {
	var units []uint16
	for ; len(b) > 1; b = b[2:] {
		u := binary.LittleEndian.Uint16(b)
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return string(utf16.Decode(units))
}

func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading %d bytes at %d: %w", len(b), off, err)
}
