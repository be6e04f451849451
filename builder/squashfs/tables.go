package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/klauspost/compress/zstd"

	"spore/builder/tree"
)

// tables collects the metadata of an image. An inode refers to compressed positions in the directory table and the
// other way round, so both are written in one walk from the leaves up.
type tables struct {
	inodes, dirs *metadataWriter
	ids          idTable
	xattrs       xattrTable
	count        uint32
}

// buildTables returns everything that follows the data, in the order in which the kernel wants it (each table ends where
// the next begins: squashfs_fill_super), with the superblock but for its time and block size.
func buildTables(root *node, nodes []*node, l *layout, enc *zstd.Encoder) ([]byte, Superblock, error) {
	t := &tables{inodes: newMetadata(enc), dirs: newMetadata(enc), xattrs: newXattrTable(enc), count: uint32(len(nodes))}
	if err := t.directory(root); err != nil {
		return nil, Superblock{}, err
	}
	if err := t.writeInode(root); err != nil {
		return nil, Superblock{}, err
	}
	sb := Superblock{
		Inodes: t.count, Fragments: uint32(len(l.frags)), Compression: compressionZstd, IDs: uint16(len(t.ids.list)),
		Flags: flagDuplicates | flagExportable | flagOptions, RootInode: root.reference,
		FragmentTable: invalidBlock, XattrTable: invalidBlock,
	}
	var out []byte
	out, sb.InodeTable = appendMetadata(out, l.end, t.inodes)
	out, sb.DirectoryTable = appendMetadata(out, l.end, t.dirs)
	if len(t.inodes.out) > math.MaxUint32 || len(t.dirs.out) > math.MaxUint32 {
		return nil, Superblock{}, errors.New("more than 4 GiB of metadata")
	}
	if len(l.frags) > 0 {
		out, sb.FragmentTable = appendTable(out, l.end, enc, fragmentTable(l.frags), nil)
	} else {
		sb.Flags |= flagNoFragments
	}
	out, sb.ExportTable = appendTable(out, l.end, enc, exportTable(nodes), nil)
	out, sb.IDTable = appendTable(out, l.end, enc, t.ids.encode(), nil)
	if len(t.xattrs.ids) > 0 {
		out, sb.XattrTable = t.xattrs.append(out, l.end, enc)
	} else {
		sb.Flags |= flagNoXattrs
	}
	sb.BytesUsed = uint64(l.end) + uint64(len(out))
	return out, sb, nil
}

func fragmentTable(frags []fragment) []byte {
	b := make([]byte, 0, 16*len(frags))
	for _, f := range frags {
		b = binary.LittleEndian.AppendUint64(b, uint64(f.start))
		b = binary.LittleEndian.AppendUint32(b, f.size)
		b = binary.LittleEndian.AppendUint32(b, 0)
	}
	return b
}

// exportTable finds inodes by number; overlayfs and NFS ask for them so.
func exportTable(nodes []*node) []byte {
	b := make([]byte, 0, 8*len(nodes))
	for _, n := range nodes {
		b = binary.LittleEndian.AppendUint64(b, n.reference)
	}
	return b
}

// directory writes the listing of a directory after everything that it names. The inodes that it names stand together,
// so that reading a directory with its inodes touches few blocks.
func (t *tables) directory(d *node) error {
	for _, e := range d.entries {
		if e.node.inode.Type == tree.Dir {
			if err := t.directory(e.node); err != nil {
				return err
			}
		}
	}
	for _, e := range d.entries {
		if !e.node.written {
			if err := t.writeInode(e.node); err != nil {
				return err
			}
		}
	}
	var err error
	if d.list, err = writeListing(t.dirs, d.entries); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	return nil
}

// idTable holds each user and group id once.
type idTable struct {
	list  []uint32
	index map[uint32]uint16
}

func (t *idTable) add(id uint32) (uint16, error) {
	if i, ok := t.index[id]; ok {
		return i, nil
	}
	if len(t.list) >= maxIDs {
		return 0, fmt.Errorf("more than %d different user and group ids", maxIDs)
	}
	if t.index == nil {
		t.index = map[uint32]uint16{}
	}
	i := uint16(len(t.list))
	t.list, t.index[id] = append(t.list, id), i
	return i, nil
}

func (t *idTable) encode() []byte {
	b := make([]byte, 0, 4*len(t.list))
	for _, id := range t.list {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

// xattrTable holds each set of extended attributes once.
type xattrTable struct {
	sets  *metadataWriter
	ids   []byte // 16 bytes a set: reference, count, size
	index map[string]uint32
}

func newXattrTable(enc *zstd.Encoder) xattrTable {
	return xattrTable{sets: newMetadata(enc), index: map[string]uint32{}}
}

// add returns the number of a set, or that of none.
func (t *xattrTable) add(list []tree.Xattr) (uint32, error) {
	if len(list) == 0 {
		return invalidXattr, nil
	}
	var b []byte
	for _, x := range list {
		kind, name, err := xattrType(x.Name)
		if err != nil {
			return 0, err
		}
		b = binary.LittleEndian.AppendUint16(b, kind)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
		b = append(b, name...)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(x.Value)))
		b = append(b, x.Value...)
	}
	if i, ok := t.index[string(b)]; ok {
		return i, nil
	}
	i := uint32(len(t.index))
	t.index[string(b)] = i
	t.ids = binary.LittleEndian.AppendUint64(t.ids, t.sets.reference())
	t.ids = binary.LittleEndian.AppendUint32(t.ids, uint32(len(list)))
	t.ids = binary.LittleEndian.AppendUint32(t.ids, uint32(len(b)))
	t.sets.write(b)
	return i, nil
}

func (t *xattrTable) append(out []byte, offset int64, enc *zstd.Encoder) (all []byte, index uint64) {
	out, start := appendMetadata(out, offset, t.sets)
	head := binary.LittleEndian.AppendUint64(nil, start)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(t.index)))
	head = binary.LittleEndian.AppendUint32(head, 0)
	return appendTable(out, offset, enc, t.ids, head)
}
