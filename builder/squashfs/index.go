package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"spore/builder/tree"
	"spore/storage/pieces"
)

// The index of a pack: numbers are unsigned varints, times signed ones, strings have their length before them.
//
//	origins    count, strings
//	fragments  count, then start, size and SHA-256 of each as it is stored
//	inodes     count, then of each: type, mode, uid, gid, mtime, origin, xattrs (count, then name and value of each), and
//	           regular file: size, SHA-256, start, fragment+1, offset in it, and where it has no fragment the size of each block,
//	           and the SHA-256 of each piece (blocksInPiece) that is not empty, as it is stored
//	           symbolic link: target
//	           device: major, minor
//	names      count, then path and inode of each

var errIndex = errors.New("the index is damaged")

func encodeIndex(nodes []packNode, names []packName, frags []fragment) []byte {
	var e indexEncoder
	origins := map[string]uint64{}
	var list []string
	for _, n := range nodes {
		if _, ok := origins[n.inode.Origin]; !ok {
			origins[n.inode.Origin] = uint64(len(list))
			list = append(list, n.inode.Origin)
		}
	}
	e.uint(uint64(len(list)))
	for _, s := range list {
		e.string(s)
	}
	e.uint(uint64(len(frags)))
	for _, f := range frags {
		e.uint(uint64(f.start))
		e.uint(uint64(f.size))
		e.b = append(e.b, f.sum[:]...)
	}
	e.uint(uint64(len(nodes)))
	for _, n := range nodes {
		e.node(n, origins[n.inode.Origin])
	}
	e.uint(uint64(len(names)))
	for _, n := range names {
		e.string(n.path)
		e.uint(uint64(n.node))
	}
	return e.b
}

type indexEncoder struct{ b []byte }

func (e *indexEncoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *indexEncoder) string(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *indexEncoder) node(n packNode, origin uint64) {
	in := n.inode
	for _, v := range []uint64{uint64(in.Type), uint64(in.Mode), uint64(in.UID), uint64(in.GID)} {
		e.uint(v)
	}
	e.b = binary.AppendVarint(e.b, in.MTime)
	e.uint(origin)
	e.uint(uint64(len(in.Xattrs)))
	for _, x := range in.Xattrs {
		e.string(x.Name)
		e.string(string(x.Value))
	}
	switch in.Type {
	case tree.Regular:
		f := n.file
		e.uint(uint64(f.size))
		e.b = append(e.b, f.sum[:]...)
		e.uint(uint64(f.start))
		e.uint(uint64(f.frag + 1))
		e.uint(uint64(f.fragOff))
		for _, b := range f.blocks {
			e.uint(uint64(b))
		}
		for _, p := range f.pieces {
			e.b = append(e.b, p.Sum[:]...)
		}
	case tree.Symlink:
		e.string(in.Target)
	case tree.CharDevice, tree.BlockDevice:
		e.uint(uint64(in.Major))
		e.uint(uint64(in.Minor))
	}
}

// indexDecoder reads an index of a pack whose blocks lie in [packHeader, dataEnd). The first error stays.
type indexDecoder struct {
	b         []byte
	blockSize uint32
	dataEnd   int64
	err       error
}

func (d *indexDecoder) fail(format string, a ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errIndex, fmt.Sprintf(format, a...))
	}
	d.b = nil
}

func (d *indexDecoder) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("it ends too early")
		return 0
	}
	if v > limit {
		d.fail("%d where %d is the most", v, limit)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *indexDecoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("it ends too early")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads the number of things of at least one byte each.
func (d *indexDecoder) count() int { return int(d.uint(uint64(len(d.b)))) }

func (d *indexDecoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.fail("it ends too early")
		return make([]byte, 0)
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *indexDecoder) string() string { return string(d.bytes(d.count())) }

func (d *indexDecoder) decode() (nodes []packNode, names []packName, frags []fragment, err error) {
	var origins []string
	for n := d.count(); n > 0 && d.err == nil; n-- {
		origins = append(origins, d.string())
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		f := fragment{start: int64(d.uint(math.MaxInt64)), size: d.blockField()}
		copy(f.sum[:], d.bytes(len(f.sum)))
		d.extent(f.start, int64(blockBytes(f.size)))
		frags = append(frags, f)
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		nodes = append(nodes, d.node(origins, frags))
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		name := packName{path: d.string(), node: int(d.uint(math.MaxInt32))}
		if name.node >= len(nodes) {
			d.fail("a path of inode %d, and there are %d", name.node, len(nodes))
		} else if err := checkPath(name.path); err != nil {
			d.fail("%q: %v", name.path, err)
		}
		names = append(names, name)
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes are left over", len(d.b))
	}
	return nodes, names, frags, d.err
}

func (d *indexDecoder) node(origins []string, frags []fragment) packNode {
	n := packNode{inode: tree.Inode{
		Type: tree.Type(d.uint(math.MaxUint8)), Mode: uint32(d.uint(math.MaxUint32)),
		UID: uint32(d.uint(math.MaxUint32)), GID: uint32(d.uint(math.MaxUint32)), MTime: d.int(),
	}}
	if origin := d.uint(math.MaxInt32); int(origin) < len(origins) {
		n.inode.Origin = origins[origin]
	} else {
		d.fail("origin %d, and there are %d", origin, len(origins))
	}
	for c := d.count(); c > 0 && d.err == nil; c-- {
		n.inode.Xattrs = append(n.inode.Xattrs, tree.Xattr{Name: d.string(), Value: d.bytes(d.count())})
	}
	switch n.inode.Type {
	case tree.Regular:
		n.file = d.file(frags)
	case tree.Symlink:
		n.inode.Target = d.string()
	case tree.CharDevice, tree.BlockDevice:
		n.inode.Major, n.inode.Minor = uint32(d.uint(maxMajor)), uint32(d.uint(maxMinor))
	}
	if d.err == nil {
		if err := checkInode(&n.inode); err != nil {
			d.fail("%v", err)
		}
	}
	return n
}

func (d *indexDecoder) file(frags []fragment) *file {
	f := &file{size: int64(d.uint(math.MaxInt64))}
	copy(f.sum[:], d.bytes(len(f.sum)))
	f.start = int64(d.uint(math.MaxInt64))
	f.frag = int(d.uint(uint64(len(frags)))) - 1
	f.fragOff = uint32(d.uint(maxBlockSize))
	if f.frag >= 0 {
		if f.size == 0 || int64(f.fragOff)+f.size > int64(d.blockSize) {
			d.fail("a file of %d bytes at %d of a fragment", f.size, f.fragOff)
		}
		return f
	}
	blocks := f.size / int64(d.blockSize)
	if f.size%int64(d.blockSize) != 0 {
		blocks++
	}
	if blocks > int64(len(d.b)) {
		d.fail("it ends too early")
		return f
	}
	for ; blocks > 0 && d.err == nil; blocks-- {
		f.blocks = append(f.blocks, d.blockField())
	}
	d.extent(f.start, f.stored())
	for group := range slices.Chunk(f.blocks, blocksInPiece(int(d.blockSize))) {
		var p pieces.Piece
		for _, b := range group {
			p.Size += int64(blockBytes(b))
		}
		if p.Size > 0 {
			copy(p.Sum[:], d.bytes(len(p.Sum)))
			f.pieces = append(f.pieces, p)
		}
	}
	return f
}

// blockField reads the on-disk size of a block.
func (d *indexDecoder) blockField() uint32 {
	v := uint32(d.uint(storedBlock | maxBlockSize))
	if blockBytes(v) > d.blockSize {
		d.fail("a block of %d bytes", blockBytes(v))
	}
	return v
}

// extent checks that data lies where data may be.
func (d *indexDecoder) extent(start, n int64) {
	if n > 0 && (start < packHeader || start > d.dataEnd || n > d.dataEnd-start) {
		d.fail("a block of %d bytes at %d, outside of the data", n, start)
	}
}
