package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf16"
)

// fatFS reads a FAT32 filesystem that may be anything: go-diskfs trusts the sizes that the boot sector names. The format
// is Microsoft's "FAT: General Overview of On-Disk Format", 1.03.
type fatFS struct {
	r            io.ReaderAt
	cluster      int64 // bytes
	table        int64 // offset of the first FAT
	data         int64 // offset of cluster 2
	clusters     uint32
	rootCluster  uint32
	backupSector int64
}

// Bounds on what is read.
const (
	maxDirBytes  = 1 << 20
	dirEntrySize = 32
)

// Attributes of a directory entry, and the marks of its first byte.
const (
	attrLabel     = 0x08
	attrDir       = 0x10
	attrLong      = 0x0f
	entryDeleted  = 0xe5
	longNameLast  = 0x40
	longNameChars = 13
)

var errFAT = errors.New("not a sound FAT32 filesystem")

// openFAT reads the boot sector of a filesystem of size bytes.
func openFAT(r io.ReaderAt, size int64) (*fatFS, error) {
	b := make([]byte, sectorSize)
	if _, err := r.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("read boot sector: %w", err)
	}
	le := binary.LittleEndian
	bytesPer, perCluster := int64(le.Uint16(b[11:])), int64(b[13])
	reserved, fats := int64(le.Uint16(b[14:])), int64(b[16])
	total, fatSectors := int64(le.Uint32(b[32:])), int64(le.Uint32(b[36:]))
	switch {
	case b[510] != 0x55 || b[511] != 0xaa:
		return nil, fmt.Errorf("%w: the boot sector has no signature", errFAT)
	case bytesPer != sectorSize || perCluster == 0 || perCluster&(perCluster-1) != 0 || fats == 0 || fats > 2 || reserved == 0:
		return nil, fmt.Errorf("%w: the boot sector describes another kind of FAT", errFAT)
	case total*sectorSize > size:
		return nil, fmt.Errorf("%w: it says that it is larger than its partition", errFAT)
	}
	f := &fatFS{
		r: r, cluster: perCluster * sectorSize,
		table: reserved * sectorSize, data: (reserved + fats*fatSectors) * sectorSize,
		rootCluster: le.Uint32(b[44:]), backupSector: int64(le.Uint16(b[50:])),
	}
	// A table too short for the last clusters leaves them unused, as in Linux.
	count := min((total*sectorSize-f.data)/f.cluster, fatSectors*sectorSize/4-2)
	if count <= 0 {
		return nil, fmt.Errorf("%w: it has no clusters", errFAT)
	}
	f.clusters = uint32(min(count, 0x0ffffff5))
	return f, nil
}

// chain follows the clusters of a file for at most limit bytes; a longer or a circular chain is an error.
func (f *fatFS) chain(first uint32, limit int64) ([]int64, error) {
	var out []int64
	for c := first; ; {
		if c < 2 || c >= f.clusters+2 {
			return nil, fmt.Errorf("%w: a chain leads to cluster %d", errFAT, c)
		}
		out = append(out, f.data+int64(c-2)*f.cluster)
		var next [4]byte
		if _, err := f.r.ReadAt(next[:], f.table+int64(c)*4); err != nil {
			return nil, fmt.Errorf("read FAT: %w", err)
		}
		if c = binary.LittleEndian.Uint32(next[:]) & 0x0fffffff; c >= 0x0ffffff8 {
			return out, nil
		}
		if int64(len(out))*f.cluster >= limit || len(out) > int(f.clusters) {
			return nil, fmt.Errorf("%w: a chain is longer than its file", errFAT)
		}
	}
}

// freeClusters counts the free clusters and finds the first of them.
func (f *fatFS) freeClusters() (count, first uint32, err error) {
	table := make([]byte, int64(f.clusters+2)*4)
	if _, err := f.r.ReadAt(table, f.table); err != nil {
		return 0, 0, fmt.Errorf("read FAT: %w", err)
	}
	for c := f.clusters + 1; c >= 2; c-- {
		if binary.LittleEndian.Uint32(table[c*4:])&0x0fffffff == 0 {
			count, first = count+1, c
		}
	}
	return count, first, nil
}

// fatEntry is a file or directory.
type fatEntry struct {
	name  string
	first uint32
	size  int64
	dir   bool
}

// readDir lists a directory; each, if not nil, is told the offset of every used entry, labels and parts of long names
// included.
func (f *fatFS) readDir(first uint32, each func(off int64, entry []byte)) ([]fatEntry, error) {
	offsets, err := f.chain(first, maxDirBytes)
	if err != nil {
		return nil, err
	}
	var out []fatEntry
	var long []uint16
	buf := make([]byte, f.cluster)
	for _, at := range offsets {
		if _, err := f.r.ReadAt(buf, at); err != nil {
			return nil, fmt.Errorf("read directory: %w", err)
		}
		for i := 0; i < len(buf); i += dirEntrySize {
			e := buf[i : i+dirEntrySize]
			switch {
			case e[0] == 0:
				return out, nil
			case e[0] == entryDeleted:
				long = nil
				continue
			}
			if each != nil {
				each(at+int64(i), e)
			}
			switch {
			case e[11]&0x3f == attrLong:
				long = addLong(long, e)
				continue
			case e[11]&attrLabel == 0 && e[0] != '.':
				out = append(out, parseEntry(e, long))
			}
			long = nil
		}
	}
	return out, nil
}

// addLong puts the part of a long name that an entry holds before those already read: the last part comes first.
func addLong(tail []uint16, e []byte) []uint16 {
	if e[0]&longNameLast != 0 {
		tail = nil
	}
	var part []uint16
	for _, r := range [][2]int{{1, 11}, {14, 26}, {28, 32}} {
		for i := r[0]; i < r[1]; i += 2 {
			part = append(part, binary.LittleEndian.Uint16(e[i:]))
		}
	}
	if len(tail) > 20*longNameChars { // 255 characters are the limit
		return tail
	}
	return append(part, tail...)
}

func parseEntry(e []byte, long []uint16) fatEntry {
	le := binary.LittleEndian
	out := fatEntry{
		first: uint32(le.Uint16(e[20:]))<<16 | uint32(le.Uint16(e[26:])),
		size:  int64(le.Uint32(e[28:])),
		dir:   e[11]&attrDir != 0,
	}
	for i, u := range long {
		if u == 0 {
			long = long[:i]
			break
		}
	}
	if out.name = string(utf16.Decode(long)); out.name == "" {
		out.name = strings.TrimRight(string(e[:8]), " ")
		if ext := strings.TrimRight(string(e[8:11]), " "); ext != "" {
			out.name += "." + ext
		}
	}
	return out
}

// list returns the entries of a directory by its path, without regard to case; "" is the root.
func (f *fatFS) list(dir string) ([]fatEntry, error) {
	at := f.rootCluster
	for _, name := range strings.FieldsFunc(dir, func(r rune) bool { return r == '/' }) {
		entries, err := f.readDir(at, nil)
		if err != nil {
			return nil, err
		}
		e, ok := find(entries, name)
		if !ok || !e.dir {
			return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
		}
		at = e.first
	}
	return f.readDir(at, nil)
}

func find(entries []fatEntry, name string) (fatEntry, bool) {
	for _, e := range entries {
		if strings.EqualFold(e.name, name) {
			return e, true
		}
	}
	return fatEntry{}, false
}

// open returns the content of a file.
func (f *fatFS) open(e fatEntry) (*io.SectionReader, error) {
	if e.dir {
		return nil, fmt.Errorf("%s: is a directory", e.name)
	}
	if e.size == 0 {
		return io.NewSectionReader(strings.NewReader(""), 0, 0), nil
	}
	offsets, err := f.chain(e.first, e.size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	if int64(len(offsets))*f.cluster < e.size {
		return nil, fmt.Errorf("%s: %w: its chain is shorter than the file", e.name, errFAT)
	}
	return io.NewSectionReader(&chainReader{f, offsets}, 0, e.size), nil
}

// chainReader reads the clusters of a file as one.
type chainReader struct {
	f       *fatFS
	offsets []int64
}

// ReadAt implements io.ReaderAt.
func (c *chainReader) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		i, in := (off+int64(done))/c.f.cluster, (off+int64(done))%c.f.cluster
		if i >= int64(len(c.offsets)) {
			return done, io.EOF
		}
		run := int64(1) // neighbours are read at once
		for i+run < int64(len(c.offsets)) && c.offsets[i+run] == c.offsets[i]+run*c.f.cluster {
			run++
		}
		n := int(min(int64(len(p)-done), run*c.f.cluster-in))
		m, err := c.f.r.ReadAt(p[done:done+n], c.offsets[i]+in)
		done += m
		if m < n {
			return done, err
		}
	}
	return done, nil
}
