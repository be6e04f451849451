package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"spore/builder/tree"
)

// Inode types of squashfs_fs.h. The extended form of each has the number of the basic one plus 7.
const (
	typeDir      = 1
	typeRegular  = 2
	typeSymlink  = 3
	typeBlock    = 4
	typeChar     = 5
	typeFifo     = 6
	typeExtended = 7
)

var inodeTypes = map[tree.Type]uint16{
	tree.Dir: typeDir, tree.Regular: typeRegular, tree.Symlink: typeSymlink,
	tree.BlockDevice: typeBlock, tree.CharDevice: typeChar, tree.Fifo: typeFifo,
}

// writeInode appends one inode to the inode table. The listing of a directory must be written.
func (t *tables) writeInode(n *node) error {
	xattr, err := t.xattrs.add(n.inode.Xattrs)
	if err != nil {
		return fmt.Errorf("%s: %w", n.path, err)
	}
	body, extended, err := t.inodeBody(n, xattr)
	if err != nil {
		return fmt.Errorf("%s: %w", n.path, err)
	}
	uid, err := t.ids.add(n.inode.UID)
	if err != nil {
		return fmt.Errorf("%s: %w", n.path, err)
	}
	gid, err := t.ids.add(n.inode.GID)
	if err != nil {
		return fmt.Errorf("%s: %w", n.path, err)
	}
	kind := inodeTypes[n.inode.Type]
	if extended {
		kind += typeExtended
	}
	le := binary.LittleEndian
	b := le.AppendUint16(make([]byte, 0, 16+len(body)), kind)
	b = le.AppendUint16(b, uint16(n.inode.Mode))
	b = le.AppendUint16(b, uid)
	b = le.AppendUint16(b, gid)
	b = le.AppendUint32(b, uint32(n.inode.MTime))
	b = le.AppendUint32(b, n.number)
	n.reference, n.written = t.inodes.reference(), true
	t.inodes.write(append(b, body...))
	return nil
}

// inodeBody is what follows the part that all inodes share.
func (t *tables) inodeBody(n *node, xattr uint32) (b []byte, extended bool, err error) {
	le := binary.LittleEndian
	switch n.inode.Type {
	case tree.Dir:
		return t.dirBody(n, xattr)
	case tree.Regular:
		return regularBody(n, xattr)
	case tree.Symlink:
		b = le.AppendUint32(b, n.nlink)
		b = le.AppendUint32(b, uint32(len(n.inode.Target)))
		b = append(b, n.inode.Target...)
	case tree.BlockDevice, tree.CharDevice:
		b = le.AppendUint32(b, n.nlink)
		b = le.AppendUint32(b, encodeDevice(n.inode.Major, n.inode.Minor))
	case tree.Fifo:
		b = le.AppendUint32(b, n.nlink)
	default:
		return nil, false, fmt.Errorf("unknown inode type %d", n.inode.Type)
	}
	if xattr != invalidXattr {
		return le.AppendUint32(b, xattr), true, nil
	}
	return b, false, nil
}

// encodeDevice is new_encode_dev of include/linux/kdev_t.h.
func encodeDevice(major, minor uint32) uint32 {
	return minor&0xff | major<<8 | minor&^0xff<<12
}

func (t *tables) dirBody(n *node, xattr uint32) ([]byte, bool, error) {
	parent := t.count + 1 // the root's, as mksquashfs has it
	if n.parent != nil {
		parent = n.parent.number
	}
	le := binary.LittleEndian
	size := n.list.size + 3 // for "." and "..", which are not stored
	if size <= math.MaxUint16 && xattr == invalidXattr && len(n.list.index) == 0 {
		b := le.AppendUint32(nil, n.list.block)
		b = le.AppendUint32(b, n.nlink)
		b = le.AppendUint16(b, uint16(size))
		b = le.AppendUint16(b, n.list.offset)
		return le.AppendUint32(b, parent), false, nil
	}
	if size > math.MaxUint32 || len(n.list.index) > math.MaxUint16 {
		return nil, false, fmt.Errorf("a directory of %d entries is too large", len(n.entries))
	}
	b := le.AppendUint32(nil, n.nlink)
	b = le.AppendUint32(b, uint32(size))
	b = le.AppendUint32(b, n.list.block)
	b = le.AppendUint32(b, parent)
	b = le.AppendUint16(b, uint16(len(n.list.index)))
	b = le.AppendUint16(b, n.list.offset)
	b = le.AppendUint32(b, xattr)
	for _, i := range n.list.index {
		b = le.AppendUint32(b, i.at)
		b = le.AppendUint32(b, i.block)
		b = le.AppendUint32(b, uint32(len(i.name)-1))
		b = append(b, i.name...)
	}
	return b, true, nil
}

func regularBody(n *node, xattr uint32) ([]byte, bool, error) {
	p := n.placed
	if p == nil {
		return nil, false, errors.New("internal error: its data has no position")
	}
	f := p.file
	sparse := sparseBytes(f, n.content.pack.blockSize)
	le := binary.LittleEndian
	var b []byte
	extended := n.nlink > 1 || xattr != invalidXattr || sparse > 0 || f.size > math.MaxUint32 || p.start > math.MaxUint32
	if extended {
		b = le.AppendUint64(b, p.start)
		b = le.AppendUint64(b, uint64(f.size))
		b = le.AppendUint64(b, uint64(sparse))
		b = le.AppendUint32(b, n.nlink)
		b = le.AppendUint32(b, p.frag)
		b = le.AppendUint32(b, p.off)
		b = le.AppendUint32(b, xattr)
	} else {
		b = le.AppendUint32(b, uint32(p.start))
		b = le.AppendUint32(b, p.frag)
		b = le.AppendUint32(b, p.off)
		b = le.AppendUint32(b, uint32(f.size))
	}
	for _, size := range f.blocks {
		b = le.AppendUint32(b, size)
	}
	return b, extended, nil
}

// sparseBytes is how much of a file is blocks of zeros. The format cannot say "all of it": one byte less, as mksquashfs.
func sparseBytes(f *file, blockSize uint32) int64 {
	var n int64
	for i, b := range f.blocks {
		if b == 0 {
			n += min(int64(blockSize), f.size-int64(i)*int64(blockSize))
		}
	}
	if n > 0 && n == f.size {
		n--
	}
	return n
}
