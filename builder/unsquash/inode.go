package unsquash

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
)

// Types of inodes; the second seven are the extended forms of the first.
const (
	inodeDir = 1 + iota
	inodeFile
	inodeSymlink
	inodeBlockDevice
	inodeCharDevice
	inodeFifo
	_ // sockets
	inodeExtDir
	inodeExtFile
	inodeExtSymlink
	inodeExtBlockDevice
	inodeExtCharDevice
	inodeExtFifo
)

var inodeTypes = map[uint16]tree.Type{
	inodeDir: tree.Dir, inodeExtDir: tree.Dir, inodeFile: tree.Regular, inodeExtFile: tree.Regular,
	inodeSymlink: tree.Symlink, inodeExtSymlink: tree.Symlink, inodeBlockDevice: tree.BlockDevice, inodeExtBlockDevice: tree.BlockDevice,
	inodeCharDevice: tree.CharDevice, inodeExtCharDevice: tree.CharDevice, inodeFifo: tree.Fifo, inodeExtFifo: tree.Fifo,
}

// listing is where the names of a directory are.
type listing struct {
	start, size uint32
	offset      uint16
}

// walk adds the inode of a reference and, of a directory, all that is in it.
func (img *Image) walk(p string, ref uint64, depth int) error {
	if len(img.Entries) == maxEntries || depth > maxDepth {
		return fmt.Errorf("%s: more than %d paths, or directories nested more than %d deep", p, maxEntries, maxDepth)
	}
	e, list, err := img.inode(ref)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	e.Path = p
	img.Entries = append(img.Entries, e)
	if e.Type != tree.Dir {
		return nil
	}
	children, err := img.children(list)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	for _, c := range children {
		if err := img.walk(path.Join(p, c.name), c.ref, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (img *Image) inode(ref uint64) (Entry, listing, error) {
	s := img.reference(img.Super.InodeTable, ref)
	kind, mode, uid, gid := s.u16(), s.u16(), s.u16(), s.u16()
	e := Entry{Mode: uint32(mode) & 0o7777, MTime: int64(s.u32()), Inode: s.u32(), Fragment: -1}
	var list listing
	if s.err != nil {
		return e, list, s.err
	}
	var ok bool
	if e.Type, ok = inodeTypes[kind]; !ok {
		return e, list, fmt.Errorf("an inode of type %d", kind)
	}
	if int(max(uid, gid)) >= len(img.ids) {
		return e, list, fmt.Errorf("owner %d or %d, and there are %d ids", uid, gid, len(img.ids))
	}
	e.UID, e.GID = img.ids[uid], img.ids[gid]
	xattr := noXattr
	var err error
	switch kind {
	case inodeDir:
		list.start = s.u32()
		s.u32() // links
		list.size, list.offset = uint32(s.u16()), s.u16()
	case inodeExtDir:
		s.u32() // links
		list.size, list.start = s.u32(), s.u32()
		s.u32() // parent
		s.u16() // entries of the index
		list.offset, xattr = s.u16(), s.u32()
	case inodeFile, inodeExtFile:
		xattr, err = img.file(s, kind, &e)
	case inodeSymlink, inodeExtSymlink:
		s.u32() // links
		size := s.u32()
		if size > maxTarget {
			return e, list, fmt.Errorf("a symbolic link of %d bytes", size)
		}
		e.Target = string(s.bytes(int(size)))
		if kind == inodeExtSymlink {
			xattr = s.u32()
		}
	default:
		s.u32() // links
		if e.Type != tree.Fifo {
			// The kernel's encoding of device numbers, new_decode_dev.
			d := s.u32()
			e.Major, e.Minor = d>>8&0xfff, d&0xff|d>>12&0xfff00
		}
		if kind >= inodeExtDir {
			xattr = s.u32()
		}
	}
	if err == nil {
		err = s.err
	}
	if err != nil {
		return e, list, err
	}
	e.Xattrs, err = img.xattrSet(xattr)
	return e, list, err
}

// file reads the rest of the inode of a regular file and returns the number of its extended attributes.
func (img *Image) file(s *stream, kind uint16, e *Entry) (xattr uint32, err error) {
	var start, size uint64
	var fragment uint32
	xattr = noXattr
	if kind == inodeFile {
		start = uint64(s.u32())
		fragment, e.FragmentOffset = s.u32(), int64(s.u32())
		size = uint64(s.u32())
	} else {
		start, size = s.u64(), s.u64()
		s.u64() // sparse
		s.u32() // links
		fragment, e.FragmentOffset, xattr = s.u32(), int64(s.u32()), s.u32()
	}
	block := uint64(img.Super.BlockSize)
	blocks := size / block
	if fragment != noFragment {
		tail := int64(size % block)
		if uint64(fragment) >= uint64(len(img.Fragments)) || e.FragmentOffset+tail > int64(block) {
			return 0, fmt.Errorf("a file that ends at %d of fragment %d", e.FragmentOffset, fragment)
		}
		e.Fragment = int(fragment)
	} else if size%block != 0 {
		blocks++
	}
	// A block takes four bytes of metadata, 8 KiB of which are never less than 16 bytes when compressed.
	if size > 1<<62 || blocks > img.Super.BytesUsed*128 {
		return 0, fmt.Errorf("a file of %d bytes", size)
	}
	e.Size = int64(size)
	for ; blocks > 0 && s.err == nil; blocks-- {
		b, err := img.dataBlock(start, s.u32())
		if err != nil {
			return 0, err
		}
		e.Blocks = append(e.Blocks, b)
		start += uint64(b.Size)
	}
	return xattr, s.err
}

// child is a name in a directory with the reference of its inode.
type child struct {
	name string
	ref  uint64
}

// children reads the names of a directory.
func (img *Image) children(l listing) ([]child, error) {
	if l.size <= 3 { // The size counts "." and "..", which are not stored, as three bytes.
		return nil, nil
	}
	if l.size > maxDirectory {
		return nil, fmt.Errorf("a directory of %d bytes", l.size)
	}
	s := img.at(img.Super.DirectoryTable, int64(l.start), int(l.offset))
	var out []child
	for left := int64(l.size) - 3; left > 0 && s.err == nil; {
		count, start := int64(s.u32())+1, s.u32()
		s.u32() // inode number of the first
		left -= 12
		for ; count > 0 && left > 0 && s.err == nil; count-- {
			offset := s.u16()
			s.u16() // difference of the inode number
			s.u16() // type
			name := string(s.bytes(int(s.u16()) + 1))
			left -= 8 + int64(len(name))
			if name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
				return nil, fmt.Errorf("a file with the name %q", name)
			}
			out = append(out, child{name, uint64(start)<<16 | uint64(offset)})
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	slices.SortFunc(out, func(a, b child) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(out); i++ {
		if out[i].name == out[i-1].name {
			return nil, fmt.Errorf("%q appears twice", out[i].name)
		}
	}
	return out, nil
}
