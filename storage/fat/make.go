package fat

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf16"
)

// Options say what goes into a filesystem.
type Options struct {
	// Size is that of the partition, in bytes; the filesystem fills it.
	Size int64
	// Offset is where the partition begins on the disk, in bytes: some firmware compares it.
	Offset int64
	// SectorSize is that of the disk, 512 to 4096; 0 is 512. Linux does not mount a filesystem of smaller sectors than its
	// disk has.
	SectorSize int
	// Label has at most 11 characters.
	Label string
	// Time is the date of all files, in UTC. FAT begins in 1980; anything before is that.
	Time  time.Time
	Files []File
}

// File is a file of a filesystem. Directories are made as paths need them.
type File struct {
	// Path is such as /EFI/BOOT/BOOTX64.EFI.
	Path    string
	Size    int64
	Content io.ReaderAt
}

// Layout of the reserved sectors.
const (
	reservedSectors = 32
	infoSector      = 1
	backupSector    = 6
	rootCluster     = 2
	// minClusters is the least by which firmware tells FAT32 from FAT16.
	minClusters = 65525
	maxClusters = 0x0ffffff5
	endOfChain  = 0x0fffffff
	// maxName is the longest file name, in UTF-16 units.
	maxName = 255
)

// Image is a filesystem as the bytes of its partition. The content of its files is read when they are.
type Image struct {
	size    int64
	extents []extent
}

// extent is where an image holds anything but zeros.
type extent struct {
	at, size int64
	r        io.ReaderAt
}

// New makes a filesystem.
func New(o Options) (*Image, error) {
	img, err := build(o)
	if err != nil {
		return nil, fmt.Errorf("make FAT32: %w", err)
	}
	return img, nil
}

// Size is that of the partition in bytes.
func (i *Image) Size() int64 { return i.size }

// ReadAt implements io.ReaderAt.
func (i *Image) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("read before the beginning")
	}
	if off >= i.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), i.size-off))
	clear(p[:n])
	first := sort.Search(len(i.extents), func(k int) bool { return i.extents[k].at+i.extents[k].size > off })
	for _, e := range i.extents[first:] {
		if e.at >= off+int64(n) {
			break
		}
		from := max(off, e.at)
		part := p[from-off : min(off+int64(n), e.at+e.size)-off]
		if m, err := e.r.ReadAt(part, from-e.at); m < len(part) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAll writes all that is not zero to the same place behind an offset of w.
func (i *Image) WriteAll(w io.WriterAt, at int64) error {
	for _, e := range i.extents {
		if n, err := e.writeTo(io.NewOffsetWriter(w, at+e.at)); err != nil {
			return err
		} else if n < e.size {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// writeTo writes the content and returns its length. What is in memory is written from there, in one piece.
func (e extent) writeTo(w io.Writer) (int64, error) {
	if r, ok := e.r.(*bytes.Reader); ok && r.Size() == e.size {
		whole := *r // which has a place of its own
		if _, err := whole.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		return whole.WriteTo(w)
	}
	return io.CopyBuffer(w, io.NewSectionReader(e.r, 0, e.size), make([]byte, min(e.size, 1<<20)))
}

// node is a file or directory that is laid out.
type node struct {
	name     string
	children []*node // of a directory
	dir      bool
	file     File
	first    uint32
	clusters uint32
}

// geometry is where things lie.
type geometry struct {
	sector, perCluster, total, table, data int64
	clusters                               int64
}

func build(o Options) (*Image, error) {
	g, err := measure(o)
	if err != nil {
		return nil, err
	}
	root, err := plant(o.Files)
	if err != nil {
		return nil, err
	}
	cluster := g.sector * g.perCluster
	next := int64(rootCluster)
	img := &Image{size: o.Size}
	var chains []*node
	var place func(n *node, depth int) error
	place = func(n *node, depth int) error {
		size := n.file.Size
		if n.dir {
			size = int64(n.entries(depth == 0)) * dirEntrySize
		}
		if size == 0 {
			return nil // An empty file has no cluster.
		}
		n.first, n.clusters = uint32(next), uint32((size+cluster-1)/cluster)
		if next += int64(n.clusters); next > g.clusters+2 {
			return fmt.Errorf("the files need more than the %d MiB of the partition", o.Size>>20)
		}
		chains = append(chains, n)
		for _, c := range n.children {
			if err := place(c, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := place(root, 0); err != nil {
		return nil, err
	}
	boot := bootSector(o, g)
	info := infoSectorBytes(g, next)
	for _, at := range []int64{0, backupSector} {
		img.add(at*g.sector, boot)
		img.add((at+infoSector)*g.sector, info)
	}
	table := allocation(chains, next)
	img.add(reservedSectors*g.sector, table)
	img.add((reservedSectors+g.table)*g.sector, table)
	stamp := fatTime(o.Time)
	var fill func(n *node, parent uint32, depth int) error
	fill = func(n *node, parent uint32, depth int) error {
		at := (g.data + int64(n.first-2)*g.perCluster) * g.sector
		if !n.dir {
			if n.first != 0 {
				img.extents = append(img.extents, extent{at, n.file.Size, n.file.Content})
			}
			return nil
		}
		data, err := directory(n, parent, o.Label, stamp, depth == 0)
		if err != nil {
			return err
		}
		img.add(at, data)
		up := n.first
		if depth == 0 {
			up = 0 // The root is cluster 0 there, whatever it is.
		}
		for _, c := range n.children {
			if err := fill(c, up, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(root, 0, 0); err != nil {
		return nil, err
	}
	slices.SortFunc(img.extents, func(a, b extent) int { return int(min(max(a.at-b.at, -1), 1)) })
	return img, nil
}

func (i *Image) add(at int64, data []byte) {
	i.extents = append(i.extents, extent{at, int64(len(data)), bytes.NewReader(data)})
}

// measure chooses the cluster size as Microsoft's table has it, but one sector up to 260 MiB.
func measure(o Options) (geometry, error) {
	g := geometry{sector: int64(o.SectorSize)}
	if g.sector == 0 {
		g.sector = 512
	}
	if g.sector < 512 || g.sector > 4096 || g.sector&(g.sector-1) != 0 || o.Size%g.sector != 0 || o.Offset%g.sector != 0 {
		return g, fmt.Errorf("sectors of %d bytes do not fit a partition of %d bytes at %d", g.sector, o.Size, o.Offset)
	}
	bytesPer := int64(32 << 10)
	for _, row := range []struct{ upTo, cluster int64 }{{260 << 20, 512}, {8 << 30, 4 << 10}, {16 << 30, 8 << 10}, {32 << 30, 16 << 10}} {
		if o.Size <= row.upTo {
			bytesPer = row.cluster
			break
		}
	}
	g.perCluster = max(1, bytesPer/g.sector)
	if g.total = o.Size / g.sector; g.total > math.MaxUint32 {
		return g, fmt.Errorf("%d bytes are too many", o.Size)
	}
	// A few entries more than clusters, so that the sum needs no second round.
	g.table = (((g.total-reservedSectors)/g.perCluster+2)*4 + g.sector - 1) / g.sector
	g.data = reservedSectors + 2*g.table
	g.clusters = (g.total - g.data) / g.perCluster
	if g.clusters < minClusters || g.clusters > maxClusters {
		return g, fmt.Errorf("%d MiB make %d clusters; FAT32 has %d to %d", o.Size>>20, g.clusters, minClusters, maxClusters)
	}
	if len(o.Label) > 11 {
		return g, fmt.Errorf("the label %q has more than 11 characters", o.Label)
	}
	return g, nil
}

// plant makes the tree of the paths.
func plant(files []File) (*node, error) {
	root := &node{dir: true}
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range sorted {
		parts := strings.Split(strings.TrimPrefix(f.Path, "/"), "/")
		if len(parts) > maxDepth {
			return nil, fmt.Errorf("%s: more than %d levels", f.Path, maxDepth)
		}
		if f.Size < 0 || f.Size > math.MaxUint32 {
			return nil, fmt.Errorf("%s: %d bytes are more than a file can have", f.Path, f.Size)
		}
		at := root
		for i, name := range parts {
			if err := checkName(name); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
			child := at.child(name)
			last := i == len(parts)-1
			if child != nil && (last || !child.dir) {
				return nil, fmt.Errorf("%s: there is %s already", f.Path, child.name)
			}
			if child == nil {
				child = &node{name: name, dir: !last}
				if last {
					child.file = f
				}
				at.children = append(at.children, child)
			}
			at = child
		}
	}
	return root, nil
}

func (n *node) child(name string) *node {
	for _, c := range n.children {
		if strings.EqualFold(c.name, name) {
			return c
		}
	}
	return nil
}

func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") ||
		len(utf16.Encode([]rune(name))) > maxName || strings.ContainsAny(name, "\"*/:<>?\\|") {
		return fmt.Errorf("%q is not a file name of FAT", name)
	}
	for _, r := range name {
		if r < 0x20 || r == 0x7f || r == 0xfffd {
			return fmt.Errorf("%q is not a file name of FAT", name)
		}
	}
	return nil
}

// entries counts the directory entries; with a zero one behind the last.
func (n *node) entries(root bool) int {
	count := 3 // "." and ".." or the label, and the end.
	if root {
		count = 2
	}
	for _, c := range n.children {
		count++
		if !isShort(c.name) {
			count += longEntries(c.name)
		}
	}
	return count
}

func longEntries(name string) int {
	return (len(utf16.Encode([]rune(name))) + longNameChars - 1) / longNameChars
}

func bootSector(o Options, g geometry) []byte {
	b := make([]byte, g.sector)
	le := binary.LittleEndian
	copy(b, "\xeb\x58\x90MSWIN4.1") // The specification recommends this name.
	le.PutUint16(b[11:], uint16(g.sector))
	b[13] = byte(g.perCluster)
	le.PutUint16(b[14:], reservedSectors)
	b[16] = 2    // FATs
	b[21] = 0xf8 // fixed medium
	le.PutUint16(b[24:], 63)
	le.PutUint16(b[26:], 255)
	le.PutUint32(b[28:], uint32(o.Offset/g.sector))
	le.PutUint32(b[32:], uint32(g.total))
	le.PutUint32(b[36:], uint32(g.table))
	le.PutUint32(b[44:], rootCluster)
	le.PutUint16(b[48:], infoSector)
	le.PutUint16(b[50:], backupSector)
	b[64], b[66] = 0x80, 0x29
	copy(b[67:71], volumeID(o.Files))
	copy(b[71:82], label(o.Label))
	copy(b[82:90], "FAT32   ")
	b[510], b[511] = 0x55, 0xaa
	return b
}

// volumeID derives from the names and sizes; the name of a UKI has its hash.
func volumeID(files []File) []byte {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s\x00%d\x00", f.Path, f.Size)
	}
	return h.Sum(nil)[:4]
}

func label(s string) string {
	if s == "" {
		s = "NO NAME"
	}
	return fmt.Sprintf("%-11s", strings.ToUpper(s))
}

func infoSectorBytes(g geometry, next int64) []byte {
	b := make([]byte, g.sector)
	le := binary.LittleEndian
	copy(b, "RRaA")
	copy(b[484:], "rrAa")
	le.PutUint32(b[488:], uint32(g.clusters+2-next))
	le.PutUint32(b[492:], uint32(next))
	b[510], b[511] = 0x55, 0xaa
	return b
}

// allocation is the part of the table that is used: each chain lies in one piece.
func allocation(chains []*node, next int64) []byte {
	b := make([]byte, next*4)
	le := binary.LittleEndian
	le.PutUint32(b[0:], 0x0ffffff8)
	le.PutUint32(b[4:], endOfChain)
	for _, n := range chains {
		for i := range n.clusters {
			value := n.first + i + 1
			if i == n.clusters-1 {
				value = endOfChain
			}
			le.PutUint32(b[(n.first+i)*4:], value)
		}
	}
	return b
}

// directory lays out the entries of a directory.
func directory(n *node, parent uint32, volume string, stamp uint32, root bool) ([]byte, error) {
	var out []byte
	if root {
		out = append(out, entryOf(label(volume), attrLabel, 0, 0, stamp)...)
	} else {
		out = append(out, entryOf(".          ", attrDir, n.first, 0, stamp)...)
		out = append(out, entryOf("..         ", attrDir, parent, 0, stamp)...)
	}
	used := map[string]bool{}
	for _, c := range n.children {
		if isShort(c.name) {
			used[shortName(c.name)] = true
		}
	}
	for _, c := range n.children {
		short := ""
		if isShort(c.name) {
			short = shortName(c.name)
		} else {
			var err error
			if short, err = shorten(c.name, used); err != nil {
				return nil, err
			}
			out = append(out, longName(c.name, short)...)
		}
		attr := byte(0x20) // archive, as every other writer sets
		if c.dir {
			attr = attrDir
		}
		out = append(out, entryOf(short, attr, c.first, c.file.Size, stamp)...)
	}
	return out, nil
}

func entryOf(short string, attr byte, first uint32, size int64, stamp uint32) []byte {
	e := make([]byte, dirEntrySize)
	le := binary.LittleEndian
	copy(e, short)
	e[11] = attr
	le.PutUint32(e[14:], stamp)
	le.PutUint16(e[18:], uint16(stamp>>16)) // last access: a date alone
	le.PutUint16(e[20:], uint16(first>>16))
	le.PutUint32(e[22:], stamp)
	le.PutUint16(e[26:], uint16(first))
	le.PutUint32(e[28:], uint32(size))
	return e
}

// longName is the entries of a long name, its last part first.
func longName(name, short string) []byte {
	units := utf16.Encode([]rune(name))
	if len(units)%longNameChars != 0 {
		units = append(units, 0)
	}
	for len(units)%longNameChars != 0 {
		units = append(units, 0xffff)
	}
	sum := byte(0)
	for _, c := range []byte(short) {
		sum = sum>>1 | sum<<7
		sum += c
	}
	var out []byte
	for i := len(units) / longNameChars; i > 0; i-- {
		e := make([]byte, dirEntrySize)
		e[0] = byte(i)
		if i == len(units)/longNameChars {
			e[0] |= longNameLast
		}
		e[11], e[13] = attrLong, sum
		part := units[(i-1)*longNameChars:]
		for _, r := range longNameFields {
			for at := r[0]; at < r[1]; at += 2 {
				binary.LittleEndian.PutUint16(e[at:], part[0])
				part = part[1:]
			}
		}
		out = append(out, e...)
	}
	return out
}

const shortChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'()-@^_`{}~"

// isShort tells whether a name needs no long one: upper case, eight and three.
func isShort(name string) bool {
	stem, ext, dot := strings.Cut(name, ".")
	return stem != "" && len(stem) <= 8 && len(ext) <= 3 && (ext != "" || !dot) && strings.Trim(stem+ext, shortChars) == ""
}

// shortName is a name that isShort as a directory has it.
func shortName(name string) string {
	stem, ext, _ := strings.Cut(name, ".")
	return fmt.Sprintf("%-8s%-3s", stem, ext)
}

// shorten makes a short name that no other file of the directory has.
func shorten(name string, used map[string]bool) (string, error) {
	keep := func(s string, n int) string {
		var b strings.Builder
		for _, r := range strings.ToUpper(s) {
			switch {
			case r == ' ' || r == '.':
				continue
			case r < 0x80 && strings.ContainsRune(shortChars, r):
				b.WriteRune(r)
			default:
				b.WriteByte('_')
			}
		}
		return b.String()[:min(n, b.Len())]
	}
	stem, ext := name, ""
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		stem, ext = name[:i], name[i+1:]
	}
	ext = keep(ext, 3)
	for i := 1; i < 1_000_000; i++ {
		tail := fmt.Sprintf("~%d", i)
		short := fmt.Sprintf("%-8s%-3s", keep(stem, 8-len(tail))+tail, ext)
		if !used[short] {
			used[short] = true
			return short, nil
		}
	}
	return "", fmt.Errorf("%s: too many similar names in one directory", name)
}

// fatTime is a time as FAT has it, in UTC: the date in the upper half, the time in the lower. FAT begins in 1980 and
// ends in 2107.
func fatTime(t time.Time) uint32 {
	t = t.UTC()
	if t.Year() < 1980 || t.Year() > 2107 {
		t = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	date := uint32(t.Year()-1980)<<9 | uint32(t.Month())<<5 | uint32(t.Day())
	clock := uint32(t.Hour())<<11 | uint32(t.Minute())<<5 | uint32(t.Second()/2)
	return date<<16 | clock
}
