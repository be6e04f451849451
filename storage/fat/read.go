package fat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf16"
)

// FS is a filesystem that is read. It may be anything: no size that it names is trusted.
type FS struct {
	r           io.ReaderAt
	cluster     int64 // bytes
	table       int64 // offset of the first FAT
	data        int64 // offset of cluster 2
	clusters    uint32
	rootCluster uint32
	label       string // of the boot sector
	// small is the table of FAT12 or FAT16, nil on FAT32. Their root directory lies before the clusters, at root, and has
	// rootBytes; rootCluster is 0.
	small           []uint32
	root, rootBytes int64
}

// Bounds on what is read.
const (
	maxDirBytes  = 1 << 20
	dirEntrySize = 32
)

// endsChain and all above it end a chain.
const endsChain = 0x0ffffff8

// tableBlock is how many bytes of the allocation table are read at once.
const tableBlock = 4096

// Attributes of a directory entry, and the marks of its first byte.
const (
	attrLabel     = 0x08
	attrDir       = 0x10
	attrLong      = 0x0f
	entryDeleted  = 0xe5
	longNameLast  = 0x40
	longNameChars = 13
)

// longNameFields are where the parts of a long name lie in an entry.
var longNameFields = [][2]int{{1, 11}, {14, 26}, {28, 32}}

// ErrUnsound is in the error for what is no FAT32 filesystem, or a damaged one.
var ErrUnsound = errors.New("not a sound FAT32 filesystem")

// Open reads the boot sector of a filesystem in size bytes.
func Open(r io.ReaderAt, size int64) (*FS, error) {
	b := make([]byte, 512)
	if _, err := r.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("read boot sector: %w", err)
	}
	le := binary.LittleEndian
	bytesPer, perCluster := int64(le.Uint16(b[11:])), int64(b[13])
	reserved, fats := int64(le.Uint16(b[14:])), int64(b[16])
	total, fatSectors := int64(le.Uint32(b[32:])), int64(le.Uint32(b[36:]))
	switch {
	case b[510] != 0x55 || b[511] != 0xaa:
		return nil, fmt.Errorf("%w: the boot sector has no signature", ErrUnsound)
	case bytesPer < 512 || bytesPer > 4096 || bytesPer&(bytesPer-1) != 0 || perCluster == 0 || perCluster&(perCluster-1) != 0 || fats == 0 || fats > 2 || reserved == 0:
		return nil, fmt.Errorf("%w: the boot sector describes another kind of FAT", ErrUnsound)
	case total*bytesPer > size:
		return nil, fmt.Errorf("%w: it claims to be larger than its partition", ErrUnsound)
	}
	f := &FS{
		r: r, cluster: perCluster * bytesPer,
		table: reserved * bytesPer, data: (reserved + fats*fatSectors) * bytesPer,
		rootCluster: le.Uint32(b[44:]), label: string(b[71:82]),
	}
	// A table too short for the last clusters leaves them unused, as in Linux.
	count := min((total*bytesPer-f.data)/f.cluster, fatSectors*bytesPer/4-2)
	if count <= 0 {
		return nil, fmt.Errorf("%w: it has no clusters", ErrUnsound)
	}
	f.clusters = uint32(min(count, 0x0ffffff5))
	return f, nil
}

// chain follows the clusters of a file for at most limit bytes; a longer or a circular chain is an error.
func (f *FS) chain(first uint32, limit int64) ([]int64, error) {
	var out []int64
	// A read past the host's memory costs as much for a block of the table as for 4 bytes of it.
	block, at := make([]byte, tableBlock), int64(-1)
	for c := first; ; {
		if c < 2 || c >= f.clusters+2 {
			return nil, fmt.Errorf("%w: a chain leads to cluster %d", ErrUnsound, c)
		}
		out = append(out, f.data+int64(c-2)*f.cluster)
		if f.small != nil {
			c = f.small[c]
		} else {
			if from := int64(c) * 4 / tableBlock * tableBlock; from != at {
				// The last block may be part of one.
				block = block[:min(tableBlock, (int64(f.clusters)+2)*4-from)]
				if _, err := f.r.ReadAt(block, f.table+from); err != nil {
					return nil, fmt.Errorf("read FAT: %w", err)
				}
				at = from
			}
			c = binary.LittleEndian.Uint32(block[int64(c)*4-at:]) & 0x0fffffff
		}
		if c >= endsChain {
			return out, nil
		}
		if int64(len(out))*f.cluster >= limit || len(out) > int(f.clusters) {
			return nil, fmt.Errorf("%w: a chain is longer than its file", ErrUnsound)
		}
	}
}

// Free is the room for content in bytes, as the allocation table has it: clusters that a cut left without a file count
// as used.
func (f *FS) Free() (int64, error) {
	buf := make([]byte, 64<<10)
	var n int64
	for at, end := f.table+8, f.table+(int64(f.clusters)+2)*4; at < end; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), end-at)]
		if _, err := f.r.ReadAt(buf, at); err != nil {
			return 0, fmt.Errorf("read FAT: %w", err)
		}
		for i := 0; i < len(buf); i += 4 {
			if binary.LittleEndian.Uint32(buf[i:])&0x0fffffff == 0 {
				n++
			}
		}
	}
	return n * f.cluster, nil
}

// Entry is a file or directory.
type Entry struct {
	Name string
	// Size is in bytes; that of a directory is 0.
	Size  int64
	Dir   bool
	first uint32
}

// readDir lists a directory.
func (f *FS) readDir(first uint32) ([]Entry, error) {
	var out []Entry
	var long []uint16
	err := f.eachEntry(first, func(e []byte) bool {
		switch {
		case e[0] == entryDeleted:
		case e[11]&0x3f == attrLong:
			long = addLong(long, e)
			return true
		case e[11]&attrLabel == 0 && e[0] != '.':
			out = append(out, parseEntry(e, long))
		}
		long = nil
		return true
	})
	return out, err
}

// eachEntry calls do with the entries of a directory, each of dirEntrySize bytes, until it returns false.
func (f *FS) eachEntry(first uint32, do func(e []byte) bool) error {
	offsets, size := []int64{f.root}, f.rootBytes
	if f.small == nil || first != 0 {
		var err error
		if offsets, err = f.chain(first, maxDirBytes); err != nil {
			return err
		}
		size = f.cluster
	}
	buf := make([]byte, size)
	for _, at := range offsets {
		if _, err := f.r.ReadAt(buf, at); err != nil {
			return fmt.Errorf("read directory: %w", err)
		}
		for i := 0; i < len(buf); i += dirEntrySize {
			if e := buf[i : i+dirEntrySize]; e[0] == 0 || !do(e) {
				return nil
			}
		}
	}
	return nil
}

// addLong puts the part of a long name that an entry holds before those already read: the last part comes first.
func addLong(tail []uint16, e []byte) []uint16 {
	if e[0]&longNameLast != 0 {
		tail = nil
	}
	var part []uint16
	for _, r := range longNameFields {
		for i := r[0]; i < r[1]; i += 2 {
			part = append(part, binary.LittleEndian.Uint16(e[i:]))
		}
	}
	if len(tail) > 20*longNameChars { // 255 characters are the limit
		return tail
	}
	return append(part, tail...)
}

func parseEntry(e []byte, long []uint16) Entry {
	le := binary.LittleEndian
	out := Entry{
		first: uint32(le.Uint16(e[20:]))<<16 | uint32(le.Uint16(e[26:])),
		Size:  int64(le.Uint32(e[28:])),
		Dir:   e[11]&attrDir != 0,
	}
	for i, u := range long {
		if u == 0 {
			long = long[:i]
			break
		}
	}
	if out.Name = string(utf16.Decode(long)); out.Name == "" {
		out.Name = strings.TrimRight(string(e[:8]), " ")
		if ext := strings.TrimRight(string(e[8:11]), " "); ext != "" {
			out.Name += "." + ext
		}
	}
	return out
}

// List returns the entries of a directory by its path, without regard to case; "" is the root.
func (f *FS) List(dir string) ([]Entry, error) {
	first, err := f.locate(dir)
	if err != nil {
		return nil, err
	}
	return f.readDir(first)
}

// locate returns the first cluster of a directory.
func (f *FS) locate(dir string) (uint32, error) {
	at := f.rootCluster
	for _, name := range strings.FieldsFunc(dir, func(r rune) bool { return r == '/' }) {
		entries, err := f.readDir(at)
		if err != nil {
			return 0, err
		}
		e, ok := Find(entries, name)
		if !ok || !e.Dir {
			return 0, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
		}
		at = e.first
	}
	return at, nil
}

// Find returns the entry of a name, without regard to case.
func Find(entries []Entry, name string) (Entry, bool) {
	for _, e := range entries {
		if strings.EqualFold(e.Name, name) {
			return e, true
		}
	}
	return Entry{}, false
}

// Open returns the content of a file.
func (f *FS) Open(e Entry) (*io.SectionReader, error) {
	if e.Dir {
		return nil, fmt.Errorf("%s: is a directory", e.Name)
	}
	if e.Size == 0 {
		return io.NewSectionReader(strings.NewReader(""), 0, 0), nil
	}
	offsets, err := f.chain(e.first, e.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	if int64(len(offsets))*f.cluster < e.Size {
		return nil, fmt.Errorf("%s: %w: its chain is shorter than the file", e.Name, ErrUnsound)
	}
	return io.NewSectionReader(&chainReader{f, offsets}, 0, e.Size), nil
}

// Bounds of Walk.
const (
	maxDepth = 8
	maxFiles = 4096
)

// Walk lists all files by their path, such as /EFI/BOOT/BOOTX64.EFI, in the order of the directories.
func (f *FS) Walk() ([]File, error) { return f.walk(nil, "", f.rootCluster, 0) }

func (f *FS) walk(out []File, dir string, first uint32, depth int) ([]File, error) {
	entries, err := f.readDir(first)
	if err != nil {
		return nil, fmt.Errorf("%s/: %w", dir, err)
	}
	for _, e := range entries {
		name := dir + "/" + e.Name
		switch {
		case len(out) == maxFiles || depth == maxDepth:
			return nil, fmt.Errorf("%s: %w: it has more than %d files or %d levels", name, ErrUnsound, maxFiles, maxDepth)
		case e.Dir:
			if out, err = f.walk(out, name, e.first, depth+1); err != nil {
				return nil, err
			}
			continue
		}
		content, err := f.Open(e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		out = append(out, File{Path: name, Size: e.Size, Content: content})
	}
	return out, nil
}

// chainReader reads the clusters of a file as one.
type chainReader struct {
	f       *FS
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
		for run*c.f.cluster-in < int64(len(p)-done) && i+run < int64(len(c.offsets)) && c.offsets[i+run] == c.offsets[i]+run*c.f.cluster {
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
