// Package sqmap says where in a squashfs 4.0 image (Documentation/filesystems/squashfs.rst) the data of a file lies, so that
// a test can damage exactly that. It reads no data, follows no symbolic links and knows zstd only.
package sqmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	superMagic      = 0x73717368
	superSize       = 96
	compressorZstd  = 6
	metadataSize    = 8192
	noFragment      = 0xffffffff
	storedMetadata  = 1 << 15
	storedData      = 1 << 24
	fragmentsPerRef = metadataSize / 16
	maxDirectory    = 64 << 20
	maxBlocks       = 1 << 22

	typeDir     = 1
	typeFile    = 2
	typeExtDir  = 8
	typeExtFile = 9
)

// Range is a piece of the image, in bytes.
type Range struct{ Offset, Size int64 }

// File is where the data of a file lies.
type File struct {
	Size int64
	// Blocks are the file's own data blocks; a sparse one has the size 0.
	Blocks []Range
	// Fragment is the block with the end of the file, which other files share; its size is 0 when there is none.
	Fragment Range
}

// Image is an opened squashfs image.
type Image struct {
	r         io.ReaderAt
	blockSize uint32
	root      uint64
	inodes    int64
	dirs      int64
	fragments int64
	dec       *zstd.Decoder
}

// Open reads the superblock of the image that begins at the reader's start.
func Open(r io.ReaderAt) (*Image, error) {
	raw := make([]byte, superSize)
	if _, err := r.ReadAt(raw, 0); err != nil {
		return nil, fmt.Errorf("squashfs superblock: %w", err)
	}
	le := binary.LittleEndian
	img := &Image{r: r, blockSize: le.Uint32(raw[12:]), root: le.Uint64(raw[32:]), inodes: int64(le.Uint64(raw[64:])),
		dirs: int64(le.Uint64(raw[72:])), fragments: int64(le.Uint64(raw[80:]))}
	switch {
	case le.Uint32(raw) != superMagic || le.Uint16(raw[28:]) != 4:
		return nil, errors.New("no squashfs 4 image")
	case le.Uint16(raw[20:]) != compressorZstd:
		return nil, fmt.Errorf("squashfs compressor %d is not zstd", le.Uint16(raw[20:]))
	case img.blockSize < 4096 || img.blockSize > 1<<20:
		return nil, fmt.Errorf("squashfs blocks of %d bytes", img.blockSize)
	}
	var err error
	img.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(4<<20))
	return img, err
}

// metadata reads from a chain of metadata blocks.
type metadata struct {
	img  *Image
	next int64
	buf  []byte
}

// at begins in the block at table+block with the byte at offset.
func (img *Image) at(table, block int64, offset int) (*metadata, error) {
	m := &metadata{img: img, next: table + block}
	if err := m.fill(); err != nil {
		return nil, err
	}
	if offset > len(m.buf) {
		return nil, errors.New("an offset outside its metadata block")
	}
	m.buf = m.buf[offset:]
	return m, nil
}

func (m *metadata) fill() error {
	var head [2]byte
	if _, err := m.img.r.ReadAt(head[:], m.next); err != nil {
		return fmt.Errorf("metadata block at %d: %w", m.next, err)
	}
	h := binary.LittleEndian.Uint16(head[:])
	size := int(h &^ storedMetadata)
	if size == 0 || size > metadataSize {
		return fmt.Errorf("metadata block at %d: %d bytes", m.next, size)
	}
	raw := make([]byte, size)
	if _, err := m.img.r.ReadAt(raw, m.next+2); err != nil {
		return fmt.Errorf("metadata block at %d: %w", m.next, err)
	}
	if h&storedMetadata == 0 {
		var err error
		if raw, err = m.img.dec.DecodeAll(raw, nil); err != nil {
			return fmt.Errorf("metadata block at %d: %w", m.next, err)
		}
	}
	m.next += 2 + int64(size)
	m.buf = raw
	return nil
}

// Read implements io.Reader.
func (m *metadata) Read(p []byte) (int, error) {
	if len(m.buf) == 0 {
		if err := m.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, m.buf)
	m.buf = m.buf[n:]
	return n, nil
}

// fields reads little-endian integers into the pointers.
func (m *metadata) fields(ptrs ...any) error {
	for _, p := range ptrs {
		if err := binary.Read(m, binary.LittleEndian, p); err != nil {
			return err
		}
	}
	return nil
}

// inode is what this package needs of one.
type inode struct {
	kind uint16
	// of a directory
	start, size uint32
	offset      uint16
	// of a file
	file File
}

// inode reads the inode of a reference: block in the upper bits, offset in the lower 16.
func (img *Image) inode(ref uint64) (inode, error) {
	m, err := img.at(img.inodes, int64(ref>>16), int(ref&0xffff))
	if err != nil {
		return inode{}, err
	}
	var n inode
	var skip [14]byte
	if err := m.fields(&n.kind, &skip); err != nil {
		return inode{}, err
	}
	var links, parent, xattr uint32
	var small, count uint16
	switch n.kind {
	case typeDir:
		err = m.fields(&n.start, &links, &small, &n.offset, &parent)
		n.size = uint32(small)
	case typeExtDir:
		err = m.fields(&links, &n.size, &n.start, &parent, &count, &n.offset, &xattr)
	case typeFile, typeExtFile:
		n.file, err = img.fileInode(m, n.kind)
	}
	return n, err
}

func (img *Image) fileInode(m *metadata, kind uint16) (File, error) {
	var start, size, sparse uint64
	var start32, size32, fragment, offset, links, xattr uint32
	var err error
	if kind == typeFile {
		err = m.fields(&start32, &fragment, &offset, &size32)
		start, size = uint64(start32), uint64(size32)
	} else {
		err = m.fields(&start, &size, &sparse, &links, &fragment, &offset, &xattr)
	}
	if err != nil {
		return File{}, err
	}
	blocks := size / uint64(img.blockSize)
	if fragment == noFragment && size%uint64(img.blockSize) != 0 {
		blocks++
	}
	if blocks > maxBlocks {
		return File{}, fmt.Errorf("a file of %d blocks", blocks)
	}
	f := File{Size: int64(size)}
	pos := int64(start)
	for range blocks {
		var word uint32
		if err := m.fields(&word); err != nil {
			return File{}, err
		}
		r := Range{pos, int64(word &^ storedData)}
		f.Blocks = append(f.Blocks, r)
		pos += r.Size
	}
	if fragment != noFragment {
		f.Fragment, err = img.fragment(fragment)
	}
	return f, err
}

func (img *Image) fragment(index uint32) (Range, error) {
	var ref [8]byte
	if _, err := img.r.ReadAt(ref[:], img.fragments+int64(index/fragmentsPerRef)*8); err != nil {
		return Range{}, fmt.Errorf("fragment %d: %w", index, err)
	}
	m, err := img.at(0, int64(binary.LittleEndian.Uint64(ref[:])), int(index%fragmentsPerRef)*16)
	if err != nil {
		return Range{}, fmt.Errorf("fragment %d: %w", index, err)
	}
	var start uint64
	var size uint32
	err = m.fields(&start, &size)
	return Range{int64(start), int64(size &^ storedData)}, err
}

// children reads a directory: the references of its inodes by name.
func (img *Image) children(n inode) (map[string]uint64, error) {
	out := map[string]uint64{}
	if n.size <= 3 { // an empty directory; the listing is 3 bytes shorter than the size
		return out, nil
	}
	if n.size > maxDirectory {
		return nil, fmt.Errorf("a directory of %d bytes", n.size)
	}
	m, err := img.at(img.dirs, int64(n.start), int(n.offset))
	if err != nil {
		return nil, err
	}
	raw := make([]byte, n.size-3)
	if _, err := io.ReadFull(m, raw); err != nil {
		return nil, err
	}
	b := bytes.NewReader(raw)
	for b.Len() > 0 {
		var head struct{ Count, Start, Number uint32 }
		if err := binary.Read(b, binary.LittleEndian, &head); err != nil {
			return nil, err
		}
		for i := uint64(0); i <= uint64(head.Count); i++ {
			var e struct {
				Offset     uint16
				Number     int16
				Type, Size uint16
			}
			if err := binary.Read(b, binary.LittleEndian, &e); err != nil {
				return nil, err
			}
			name := make([]byte, int(e.Size)+1)
			if _, err := io.ReadFull(b, name); err != nil {
				return nil, err
			}
			out[string(name)] = uint64(head.Start)<<16 | uint64(e.Offset)
		}
	}
	return out, nil
}

// Locate finds a regular file by its path from the root, without symbolic links in it.
func (img *Image) Locate(path string) (File, error) {
	ref := img.root
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		n, err := img.inode(ref)
		if err != nil {
			return File{}, fmt.Errorf("locate %s: %w", path, err)
		}
		if n.kind != typeDir && n.kind != typeExtDir {
			return File{}, fmt.Errorf("locate %s: %w: a parent is no directory", path, fs.ErrNotExist)
		}
		list, err := img.children(n)
		if err != nil {
			return File{}, fmt.Errorf("locate %s: %w", path, err)
		}
		next, ok := list[name]
		if !ok {
			return File{}, fmt.Errorf("locate %s: %w", path, fs.ErrNotExist)
		}
		ref = next
	}
	n, err := img.inode(ref)
	if err != nil {
		return File{}, fmt.Errorf("locate %s: %w", path, err)
	}
	if n.kind != typeFile && n.kind != typeExtFile {
		return File{}, fmt.Errorf("locate %s: not a regular file", path)
	}
	return n.file, nil
}

// DataAt is the range that holds the byte of the file at offset.
func (f File) DataAt(blockSize, offset int64) (Range, error) {
	i := offset / blockSize
	switch {
	case offset < 0 || offset >= f.Size:
		return Range{}, fmt.Errorf("byte %d of a file of %d", offset, f.Size)
	case i < int64(len(f.Blocks)):
		return f.Blocks[i], nil
	}
	return f.Fragment, nil
}

// BlockSize is that of data blocks, in bytes.
func (img *Image) BlockSize() int64 { return int64(img.blockSize) }

// Walk calls fn for each regular file with its path from the root, in the order of names. Of a file with several names
// each comes.
func (img *Image) Walk(fn func(path string, f File)) error {
	return img.walk(img.root, "", 0, fn)
}

// maxDepth bounds directories in directories; a damaged image may have circles.
const maxDepth = 64

func (img *Image) walk(ref uint64, path string, depth int, fn func(string, File)) error {
	n, err := img.inode(ref)
	if err != nil {
		return fmt.Errorf("walk %s: %w", path, err)
	}
	switch n.kind {
	case typeFile, typeExtFile:
		fn(path, n.file)
	case typeDir, typeExtDir:
		if depth == maxDepth {
			return fmt.Errorf("walk %s: more than %d directories in each other", path, maxDepth)
		}
		list, err := img.children(n)
		if err != nil {
			return fmt.Errorf("walk %s: %w", path, err)
		}
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if err := img.walk(list[name], path+"/"+name, depth+1, fn); err != nil {
				return err
			}
		}
	}
	return nil
}
