// Package unsquash reads squashfs 4.0 images back (Linux: fs/squashfs/squashfs_fs.h, Documentation/filesystems/squashfs.rst):
// every path with its attributes, and, what readers of files do not tell, where in the image its data lies and how many
// bytes it takes there.
//
// The tables are read when an image is opened, the data of a file when it is asked for, block by block. The compressor is
// zstd, which package squashfs writes. Left out on purpose: other compressors, sockets, images before 4.0.
package unsquash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"spore/builder/squashfs"
	"spore/builder/tree"
)

// Values of squashfs_fs.h.
const (
	compressionZstd = 6
	metadataSize    = 8 << 10
	noFragment      = ^uint32(0)
	noXattr         = ^uint32(0)
	noTable         = ^uint64(0)
	storedMetadata  = 1 << 15
	storedBlock     = 1 << 24
)

// Bounds of what an image may make this package hold or do.
const (
	maxEntries   = 1 << 21
	maxDepth     = 256
	maxDirectory = 64 << 20
	maxTarget    = 64 << 10
	maxXattrs    = 1 << 20 // bytes of one set
	maxSymlinks  = 40      // path_resolution(7)
	maxCached    = 4096    // metadata blocks
)

// Extent is a range of the image in bytes.
type Extent struct{ Offset, Size int64 }

// Block is one block of data as it is stored.
type Block struct {
	Extent
	// Stored is set where the block is not compressed. A block of size 0 is one of zeros.
	Stored bool
}

// Entry is one path. Entries of the same Inode are hard links.
type Entry struct {
	Path  string
	Inode uint32
	Type  tree.Type
	// Mode holds the permission bits, set-user-ID, set-group-ID and sticky: 07777.
	Mode     uint32
	UID, GID uint32
	// MTime is in seconds since the epoch.
	MTime int64
	// Size is the length of a regular file in bytes.
	Size int64
	// Target is where a symbolic link points.
	Target string
	// Major and Minor number a device.
	Major, Minor uint32
	Xattrs       []tree.Xattr
	// Blocks are a regular file's own blocks, in their order.
	Blocks []Block
	// Fragment numbers the block in Image.Fragments that holds the end of the file, or is -1; FragmentOffset is where in it,
	// decompressed, that lies.
	Fragment       int
	FragmentOffset int64
}

// Image is an opened image. It may be used by one goroutine at a time.
type Image struct {
	// Super is the superblock.
	Super squashfs.Superblock
	// Entries lists every path, a directory before its content and names of a directory sorted by their bytes.
	Entries []Entry
	// Fragments are the blocks that ends of files share.
	Fragments []Block

	r      io.ReaderAt
	dec    *zstd.Decoder
	byPath map[string]int
	meta   map[int64]metaBlock
	ids    []uint32
	xattrs xattrTable
	// last is the fragment block that was read last: files beside each other share it.
	last struct {
		index int
		data  []byte
	}
}

// Open reads the tables of the image that begins at the reader's start and has at most size bytes.
func Open(r io.ReaderAt, size int64) (*Image, error) {
	head := make([]byte, squashfs.SuperblockSize)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("read squashfs superblock: %w", err)
	}
	super, err := squashfs.ParseSuperblock(head)
	if err != nil {
		return nil, err
	}
	switch {
	case super.Compression != compressionZstd:
		return nil, fmt.Errorf("squashfs compressor %d is not zstd", super.Compression)
	case super.BytesUsed > uint64(size):
		return nil, fmt.Errorf("the squashfs should have %d bytes, and has %d", super.BytesUsed, size)
	}
	img := &Image{Super: super, r: io.NewSectionReader(r, 0, int64(super.BytesUsed)), byPath: map[string]int{}, meta: map[int64]metaBlock{}}
	img.last.index = -1
	// Nothing in an image is larger than a block.
	if img.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(4<<20)); err != nil {
		return nil, err
	}
	if err := img.read(); err != nil {
		img.Close()
		return nil, fmt.Errorf("read squashfs: %w", err)
	}
	return img, nil
}

func (img *Image) read() error {
	if err := img.readIDs(); err != nil {
		return fmt.Errorf("id table: %w", err)
	}
	if err := img.readFragments(); err != nil {
		return fmt.Errorf("fragment table: %w", err)
	}
	if err := img.readXattrTable(); err != nil {
		return fmt.Errorf("table of extended attributes: %w", err)
	}
	if err := img.walk("/", img.Super.RootInode, 0); err != nil {
		return err
	}
	img.meta = nil
	for i := range img.Entries {
		img.byPath[img.Entries[i].Path] = i
	}
	return nil
}

// Close frees what the decoder holds.
func (img *Image) Close() { img.dec.Close() }

// Lstat finds a path without following a symbolic link at its end, or returns nil. Links in parents are not followed.
func (img *Image) Lstat(p string) *Entry {
	if i, ok := img.byPath[p]; ok {
		return &img.Entries[i]
	}
	return nil
}

// Link is a symbolic link that was followed.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// Resolve follows every symbolic link of a path, also one at its end, and tells which it followed. The path that it comes
// to need not exist.
func (img *Image) Resolve(p string) (string, []Link, error) {
	var links []Link
	rest := strings.Split(strings.Trim(path.Clean("/"+p), "/"), "/")
	cur := "/"
	for len(rest) > 0 {
		next := path.Join(cur, rest[0])
		rest = rest[1:]
		e := img.Lstat(next)
		if e == nil || e.Type != tree.Symlink {
			cur = next
			continue
		}
		links = append(links, Link{next, e.Target})
		if len(links) > maxSymlinks {
			return "", nil, fmt.Errorf("%s: too many levels of symbolic links", p)
		}
		target := e.Target
		if !path.IsAbs(target) {
			target = path.Join(cur, target)
		}
		rest = append(strings.Split(strings.Trim(path.Clean("/"+target), "/"), "/"), rest...)
		cur = "/"
	}
	return cur, links, nil
}

// ReadFile returns the data of the regular file at a path, whose links are followed. A file of more than limit bytes is an
// error; the error is fs.ErrNotExist when nothing is there.
func (img *Image) ReadFile(p string, limit int64) ([]byte, error) {
	q, _, err := img.Resolve(p)
	if err != nil {
		return nil, err
	}
	e := img.Lstat(q)
	switch {
	case e == nil:
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	case e.Type != tree.Regular:
		return nil, fmt.Errorf("%s is not a regular file", p)
	case e.Size > limit:
		return nil, fmt.Errorf("%s has %d bytes, and %d are the most", p, e.Size, limit)
	}
	data, err := io.ReadAll(img.Content(e))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	return data, nil
}

// table reads a table that is found through a list of the positions of its metadata blocks.
func (img *Image) table(index uint64, size int64) ([]byte, error) {
	if uint64(size) > img.Super.BytesUsed*64 {
		return nil, errors.New("it is larger than the image can hold")
	}
	blocks := (size + metadataSize - 1) / metadataSize
	positions := make([]byte, 8*blocks)
	if _, err := img.r.ReadAt(positions, int64(index)); err != nil {
		return nil, err
	}
	var out []byte
	for i := range blocks {
		b, err := img.block(int64(binary.LittleEndian.Uint64(positions[8*i:])))
		if err != nil {
			return nil, err
		}
		out = append(out, b.data...)
	}
	if int64(len(out)) < size {
		return nil, errors.New("it is shorter than it should be")
	}
	return out[:size], nil
}

func (img *Image) readIDs() error {
	raw, err := img.table(img.Super.IDTable, 4*int64(img.Super.IDs))
	if err != nil {
		return err
	}
	for ; len(raw) > 0; raw = raw[4:] {
		img.ids = append(img.ids, binary.LittleEndian.Uint32(raw))
	}
	return nil
}

func (img *Image) readFragments() error {
	if img.Super.Fragments == 0 {
		return nil
	}
	raw, err := img.table(img.Super.FragmentTable, 16*int64(img.Super.Fragments))
	if err != nil {
		return err
	}
	for ; len(raw) > 0; raw = raw[16:] {
		b, err := img.dataBlock(binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint32(raw[8:]))
		if err != nil {
			return err
		}
		img.Fragments = append(img.Fragments, b)
	}
	return nil
}

// dataBlock checks that a block lies in the area of data.
func (img *Image) dataBlock(start uint64, word uint32) (Block, error) {
	size := word &^ storedBlock
	if size > img.Super.BlockSize || word>>25 != 0 {
		return Block{}, fmt.Errorf("a block of %d bytes", size)
	}
	if size > 0 && (start < squashfs.SuperblockSize || start > img.Super.InodeTable || uint64(size) > img.Super.InodeTable-start) {
		return Block{}, fmt.Errorf("a block at %d, outside of the data", start)
	}
	return Block{Extent{int64(start), int64(size)}, word&storedBlock != 0}, nil
}
