// Package iso writes and reads the metadata of ISO 9660 volumes (ECMA-119) with an El Torito boot catalog (El Torito
// Bootable CD-ROM Format Specification, 1.0): descriptors, catalog, path tables and directories.
//
// It places no content. The caller says in which sectors each file lies, so that a file can be a partition of the same
// image, or a part of one, without a second copy, and the content is streamed by whoever has it. go-diskfs' writer cannot
// be had on these terms: it copies all files into a folder and then into the image, writes the clock into descriptor and
// catalog, and places everything itself; its reader is the second opinion of the tests.
//
// Names are those of interchange level 2: up to 30 characters of A-Z, 0-9 and _ with one dot; a file of 4 GiB or more has
// several extents (level 3). There is no Rock Ridge, no Joliet and no UDF: every system shows these names, most of them in
// lower case.
package iso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

const (
	// SectorSize is the size of a logical block, in bytes.
	SectorSize = 2048
	// SystemArea is what precedes the descriptors, in bytes: for whatever else boots the medium (ECMA-119, 6.2.1).
	SystemArea = 16 * SectorSize
)

// Platforms of the boot catalog.
const (
	// BIOS is the platform 80x86 (El Torito, figure 2), UEFI that of UEFI 2.10, section 13.3.2.1.
	BIOS = 0x00
	UEFI = 0xef
)

// Limits of the format.
const (
	maxName  = 30
	maxDepth = 8 // with the root (ECMA-119, 6.8.2.1)
	// maxExtent is the largest whole number of sectors whose length fits in 32 bits.
	maxExtent = (1<<32 - 1) / SectorSize * SectorSize
	// maxDirs is what a path table can number.
	maxDirs = 1<<16 - 1
)

// File is a file whose content is elsewhere.
type File struct {
	// Path is slash-separated, without a slash at its beginning. Write takes lower case for upper case.
	Path string `json:"path"`
	// Sector is where the content begins.
	Sector int64 `json:"sector"`
	// Size is in bytes.
	Size int64 `json:"size"`
}

// Entry is an entry of the boot catalog, of a medium that emulates no other.
type Entry struct {
	Platform byte `json:"platform"`
	// Sector is where the image begins.
	Sector int64 `json:"sector"`
	// Load is how much the firmware loads, in sectors of 512 bytes; for UEFI the size of the image, and 0 for one that
	// reaches to the end of the volume, or that is larger than the field can say.
	Load uint16 `json:"load"`
}

// Volume is what is written.
type Volume struct {
	// Label is the volume's name: up to 32 characters of A-Z, 0-9 and _.
	Label string
	// Sectors is the size of the whole volume.
	Sectors int64
	// Time is the date of everything.
	Time  time.Time
	Files []File
	// Boot holds the entries of the boot catalog; the first is the default.
	Boot []Entry
}

// Sectors where the descriptors are; the catalog follows them.
const (
	primarySector = 16
	bootSector    = 17
	endSector     = 18
	catalogSector = 19
	firstTable    = 20
)

// Marshal returns the bytes from sector 16 on. Their number depends on the paths alone, and on how many extents files need.
func (v Volume) Marshal() ([]byte, error) {
	out, err := v.marshal()
	if err != nil {
		return nil, fmt.Errorf("write ISO 9660 metadata: %w", err)
	}
	return out, nil
}

func (v Volume) marshal() ([]byte, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	dirs, err := tree(v.Files)
	if err != nil {
		return nil, err
	}
	tableSize := 0
	for _, d := range dirs {
		tableSize += d.tableSize()
	}
	tableSectors := int64(roundUp(tableSize) / SectorSize)
	at := firstTable + 2*tableSectors
	for _, d := range dirs {
		d.sector, d.size = at, d.extent()
		at += int64(d.size / SectorSize)
	}
	image := make([]byte, (at-primarySector)*SectorSize)
	sector := func(n int64) []byte { return image[(n-primarySector)*SectorSize:] }
	v.primary(sector(primarySector), dirs[0], tableSize, tableSectors)
	if len(v.Boot) == 0 {
		descriptor(sector(bootSector), kindEnd)
	} else {
		bootRecord(sector(bootSector))
		descriptor(sector(endSector), kindEnd)
		v.catalog(sector(catalogSector)[:SectorSize])
	}
	pathTable(sector(firstTable), dirs, binary.LittleEndian)
	pathTable(sector(firstTable+tableSectors), dirs, binary.BigEndian)
	for _, d := range dirs {
		d.write(sector(d.sector)[:d.size], v.Time)
	}
	return image, nil
}

// check refuses what the format cannot say.
func (v Volume) check() error {
	if len(v.Label) == 0 || len(v.Label) > 32 || strings.Trim(v.Label, dCharacters) != "" {
		return fmt.Errorf("internal error: the label %q is not 1 to 32 characters of A-Z, 0-9 and _", v.Label)
	}
	if v.Sectors <= catalogSector || v.Sectors > 1<<32-1 {
		return fmt.Errorf("a volume of %d sectors cannot be", v.Sectors)
	}
	for _, f := range v.Files {
		if f.Sector < 0 || f.Size < 0 || f.Sector > v.Sectors || f.Size > (v.Sectors-f.Sector)*SectorSize {
			return fmt.Errorf("internal error: %s, %d bytes at sector %d, is outside of the volume of %d", f.Path, f.Size, f.Sector, v.Sectors)
		}
	}
	if n := 64 + 64*len(v.Boot); n > SectorSize {
		return fmt.Errorf("%d boot entries do not fit the catalog", len(v.Boot))
	}
	for _, e := range v.Boot {
		if e.Sector < 0 || e.Sector >= v.Sectors {
			return fmt.Errorf("internal error: the boot image at sector %d is outside of the volume of %d", e.Sector, v.Sectors)
		}
	}
	return nil
}

const dCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// directory is one directory while it is written.
type directory struct {
	name   string
	parent *directory
	number uint16 // in the path table, from 1
	depth  int
	dirs   map[string]*directory
	files  map[string]File
	sector int64
	size   int
}

// tree makes directories of the paths, in the order of the path table: by depth, by the number of the parent, by name
// (ECMA-119, 6.9.1).
func tree(files []File) ([]*directory, error) {
	newDir := func(name string, parent *directory) *directory {
		d := &directory{name: name, parent: parent, dirs: map[string]*directory{}, files: map[string]File{}}
		if parent != nil {
			d.depth = parent.depth + 1
		}
		return d
	}
	root := newDir("", nil)
	for _, f := range files {
		parts := strings.Split(strings.ToUpper(f.Path), "/")
		d := root
		for i, name := range parts {
			last := i == len(parts)-1
			if err := checkName(name, !last); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
			if last {
				if _, twice := d.files[name]; twice || d.dirs[name] != nil {
					return nil, fmt.Errorf("%s: the name appears twice", f.Path)
				}
				d.files[name] = f
				continue
			}
			if _, file := d.files[name]; file {
				return nil, fmt.Errorf("%s: %s is a file and a directory", f.Path, name)
			}
			if d.dirs[name] == nil {
				d.dirs[name] = newDir(name, d)
			}
			if d = d.dirs[name]; d.depth >= maxDepth {
				return nil, fmt.Errorf("%s: more than %d directories deep", f.Path, maxDepth)
			}
		}
	}
	root.parent = root
	dirs := []*directory{root}
	for i := 0; i < len(dirs); i++ { // breadth first is the order by depth and parent
		if len(dirs) > maxDirs {
			return nil, errors.New("more directories than a path table can number")
		}
		dirs[i].number = uint16(i + 1)
		for _, name := range sortedNames(dirs[i].dirs) {
			dirs = append(dirs, dirs[i].dirs[name])
		}
	}
	return dirs, nil
}

// checkName takes names of interchange level 2 (ECMA-119, 7.5.1, 7.6.3 and 10.2).
func checkName(name string, dir bool) error {
	base, ext, dot := strings.Cut(name, ".")
	if len(base)+len(ext) == 0 || len(base)+len(ext) > maxName || strings.Trim(base+ext, dCharacters) != "" || dir && dot {
		return fmt.Errorf("internal error: %q is not a name of A-Z, 0-9 and _, in files with one dot, of at most %d characters", name, maxName)
	}
	return nil
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool { return before(names[i], names[j]) })
	return names
}

// before is the order of records: name, then extension, each filled up with blanks (ECMA-119, 9.3).
func before(a, b string) bool {
	aBase, aExt, _ := strings.Cut(a, ".")
	bBase, bExt, _ := strings.Cut(b, ".")
	if aBase != bBase {
		return aBase < bBase // the shorter first, as no character of a name is less than a blank
	}
	return aExt < bExt
}

// record is a directory record (ECMA-119, 9.1).
type record struct {
	name   []byte
	sector int64
	size   int64
	flags  byte
}

// Flags of a directory record.
const (
	flagDir  = 0x02
	flagMore = 0x80 // the file goes on in the next record
)

// fixedRecord is the length of a record without its name.
const fixedRecord = 33

func (r record) length() int { return (fixedRecord + len(r.name) + 1) &^ 1 }

// records are those of a directory in their order.
func (d *directory) records() []record {
	out := []record{
		{name: []byte{0}, sector: d.sector, size: int64(d.size), flags: flagDir},
		{name: []byte{1}, sector: d.parent.sector, size: int64(d.parent.size), flags: flagDir},
	}
	names := append(sortedNames(d.dirs), sortedNames(d.files)...)
	slices.SortFunc(names, func(a, b string) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
	for _, name := range names {
		if child := d.dirs[name]; child != nil {
			out = append(out, record{name: []byte(name), sector: child.sector, size: int64(child.size), flags: flagDir})
			continue
		}
		out = append(out, fileRecords(name, d.files[name])...)
	}
	return out
}

// fileRecords is one record for each extent.
func fileRecords(name string, f File) []record {
	if !strings.Contains(name, ".") {
		name += "."
	}
	var out []record
	for at, rest := f.Sector, f.Size; ; {
		r := record{name: []byte(name + ";1"), sector: at, size: rest}
		if rest <= maxExtent {
			return append(out, r)
		}
		r.size, r.flags = maxExtent, flagMore
		out = append(out, r)
		at, rest = at+maxExtent/SectorSize, rest-maxExtent
	}
}

// extent is the length of a directory; no record crosses the end of a sector (ECMA-119, 6.8.1.1).
func (d *directory) extent() int {
	at := 0
	for _, r := range d.records() {
		at = place(at, r.length()) + r.length()
	}
	return roundUp(at)
}

// place returns where a record of a length goes, when what precedes it ends at at.
func place(at, length int) int {
	if at/SectorSize != (at+length-1)/SectorSize {
		return roundUp(at)
	}
	return at
}

func roundUp(n int) int { return (n + SectorSize - 1) / SectorSize * SectorSize }

func (d *directory) write(out []byte, when time.Time) {
	at := 0
	for _, r := range d.records() {
		at = place(at, r.length())
		r.write(out[at:at+r.length()], when)
		at += r.length()
	}
}

func (r record) write(out []byte, when time.Time) {
	out[0] = byte(len(out))
	both32(out[2:], r.sector)
	both32(out[10:], r.size)
	copy(out[18:25], recordTime(when))
	out[25] = r.flags
	both16(out[28:], 1) // the one volume of the set
	out[32] = byte(len(r.name))
	copy(out[fixedRecord:], r.name)
}

// both16 and both32 write a number little-endian and then big-endian (ECMA-119, 7.2.3 and 7.3.3).
func both16(out []byte, n int64) {
	binary.LittleEndian.PutUint16(out, uint16(n))
	binary.BigEndian.PutUint16(out[2:], uint16(n))
}

func both32(out []byte, n int64) {
	binary.LittleEndian.PutUint32(out, uint32(n))
	binary.BigEndian.PutUint32(out[4:], uint32(n))
}

// recordTime is the time in a record (ECMA-119, 9.1.5): the zero time, and years that it cannot say, are zeros.
func recordTime(t time.Time) []byte {
	t = t.UTC()
	if t.Year() < 1900 || t.Year() > 1900+255 {
		return make([]byte, 7)
	}
	return []byte{byte(t.Year() - 1900), byte(t.Month()), byte(t.Day()), byte(t.Hour()), byte(t.Minute()), byte(t.Second()), 0}
}

// descriptorTime is the time in a volume descriptor (ECMA-119, 8.4.26.1), in digits; the zero time is not specified.
func descriptorTime(t time.Time) []byte {
	if t.IsZero() {
		return append(bytes.Repeat([]byte("0"), 16), 0)
	}
	return append([]byte(t.UTC().Format("20060102150405")+"00"), 0)
}

// tableSize is the length of the directory's record in a path table (ECMA-119, 9.4).
func (d *directory) tableSize() int { return 8 + (max(len(d.name), 1)+1)&^1 }

func pathTable(out []byte, dirs []*directory, order binary.ByteOrder) {
	for _, d := range dirs {
		out[0] = byte(max(len(d.name), 1))
		order.PutUint32(out[2:], uint32(d.sector))
		order.PutUint16(out[6:], d.parent.number)
		copy(out[8:], d.name)
		out = out[d.tableSize():]
	}
}

// descriptor begins a volume descriptor (ECMA-119, 8.1).
func descriptor(out []byte, kind byte) {
	out[0] = kind
	copy(out[1:], "CD001")
	out[6] = 1
}

// Kinds of volume descriptors.
const (
	kindBoot    = 0
	kindPrimary = 1
	kindEnd     = 255
)

// primary writes the primary volume descriptor (ECMA-119, 8.4).
func (v Volume) primary(out []byte, root *directory, tableSize int, tableSectors int64) {
	descriptor(out, kindPrimary)
	for _, text := range [][2]int{{8, 72}, {190, 813}} { // texts that are not given are blank
		copy(out[text[0]:text[1]], bytes.Repeat([]byte(" "), text[1]-text[0]))
	}
	copy(out[40:72], v.Label)
	both32(out[80:], v.Sectors)
	both16(out[120:], 1)
	both16(out[124:], 1)
	both16(out[128:], SectorSize)
	both32(out[132:], int64(tableSize))
	binary.LittleEndian.PutUint32(out[140:], firstTable)
	binary.BigEndian.PutUint32(out[148:], uint32(firstTable+tableSectors))
	r := record{name: []byte{0}, sector: root.sector, size: int64(root.size), flags: flagDir}
	r.write(out[156:156+r.length()], v.Time)
	for i, at := range []int{813, 830, 847, 864} { // made, changed, of no use after, of use from
		t := v.Time
		if i > 1 {
			t = time.Time{}
		}
		copy(out[at:], descriptorTime(t))
	}
	out[881] = 1
}

const elTorito = "EL TORITO SPECIFICATION"

// bootRecord points to the catalog (El Torito, figure 7).
func bootRecord(out []byte) {
	descriptor(out, kindBoot)
	copy(out[7:39], elTorito)
	binary.LittleEndian.PutUint32(out[71:], catalogSector)
}

// Parts of a boot catalog (El Torito, figures 2 to 5).
const (
	catalogEntry = 32
	validation   = 0x01
	header       = 0x90
	finalHeader  = 0x91
	bootable     = 0x88
)

// catalog writes the boot catalog: the first entry as the default, each other in a section of its own, as platforms differ.
func (v Volume) catalog(out []byte) {
	out[0], out[1], out[30], out[31] = validation, v.Boot[0].Platform, 0x55, 0xaa
	binary.LittleEndian.PutUint16(out[28:], -sum16(out[:catalogEntry]))
	v.Boot[0].write(out[catalogEntry:])
	out = out[2*catalogEntry:]
	for i, e := range v.Boot[1:] {
		out[0], out[1], out[2] = header, e.Platform, 1
		if i == len(v.Boot)-2 {
			out[0] = finalHeader
		}
		e.write(out[catalogEntry:])
		out = out[2*catalogEntry:]
	}
}

func (e Entry) write(out []byte) {
	out[0] = bootable
	binary.LittleEndian.PutUint16(out[6:], e.Load)
	binary.LittleEndian.PutUint32(out[8:], uint32(e.Sector))
}

// sum16 is the sum of the words of b.
func sum16(b []byte) uint16 {
	var sum uint16
	for ; len(b) >= 2; b = b[2:] {
		sum += binary.LittleEndian.Uint16(b)
	}
	return sum
}

// Find returns the file with a path, without regard to case.
func Find(files []File, name string) (File, bool) {
	for _, f := range files {
		if strings.EqualFold(f.Path, name) {
			return f, true
		}
	}
	return File{}, false
}
