package unsquash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"spore/builder/tree"
)

// metaBlock is a metadata block, decompressed, and where the one behind it begins.
type metaBlock struct {
	data []byte
	next int64
}

// block reads the metadata block at a position of the image.
func (img *Image) block(at int64) (metaBlock, error) {
	if b, ok := img.meta[at]; ok {
		return b, nil
	}
	var head [2]byte
	if _, err := img.r.ReadAt(head[:], at); err != nil {
		return metaBlock{}, fmt.Errorf("metadata block at %d: %w", at, err)
	}
	word := binary.LittleEndian.Uint16(head[:])
	size := int(word &^ storedMetadata)
	if size == 0 || size > metadataSize {
		return metaBlock{}, fmt.Errorf("metadata block at %d: %d bytes", at, size)
	}
	raw := make([]byte, size)
	if _, err := img.r.ReadAt(raw, at+2); err != nil {
		return metaBlock{}, fmt.Errorf("metadata block at %d: %w", at, err)
	}
	if word&storedMetadata == 0 {
		var err error
		if raw, err = img.dec.DecodeAll(raw, nil); err != nil {
			return metaBlock{}, fmt.Errorf("metadata block at %d: %w", at, err)
		}
		if len(raw) == 0 || len(raw) > metadataSize {
			return metaBlock{}, fmt.Errorf("metadata block at %d: %d bytes decompressed", at, len(raw))
		}
	}
	if len(img.meta) >= maxCached {
		clear(img.meta)
	}
	b := metaBlock{raw, at + 2 + int64(size)}
	img.meta[at] = b
	return b, nil
}

// stream reads on through metadata blocks. Its first error stays, and what is read after it is zero.
type stream struct {
	img  *Image
	buf  []byte
	next int64
	err  error
}

// at begins in the block at table+block with the byte at offset.
func (img *Image) at(table uint64, block int64, offset int) *stream {
	s := &stream{img: img}
	b, err := img.block(int64(table) + block)
	if err == nil && offset > len(b.data) {
		err = errors.New("an offset outside of its metadata block")
	}
	if err != nil {
		s.err = err
		return s
	}
	s.buf, s.next = b.data[offset:], b.next
	return s
}

// bytes returns the next n bytes.
func (s *stream) bytes(n int) []byte {
	out := make([]byte, n)
	for at := 0; at < n && s.err == nil; {
		if len(s.buf) == 0 {
			b, err := s.img.block(s.next)
			if err != nil {
				s.err = err
				break
			}
			s.buf, s.next = b.data, b.next
		}
		m := copy(out[at:], s.buf)
		s.buf = s.buf[m:]
		at += m
	}
	return out
}

func (s *stream) u16() uint16 { return binary.LittleEndian.Uint16(s.bytes(2)) }
func (s *stream) u32() uint32 { return binary.LittleEndian.Uint32(s.bytes(4)) }
func (s *stream) u64() uint64 { return binary.LittleEndian.Uint64(s.bytes(8)) }

// xattrTable finds sets of extended attributes.
type xattrTable struct {
	start uint64
	ids   []byte
}

func (img *Image) readXattrTable() error {
	if img.Super.XattrTable == noTable {
		return nil
	}
	var head [16]byte
	if _, err := img.r.ReadAt(head[:], int64(img.Super.XattrTable)); err != nil {
		return err
	}
	le := binary.LittleEndian
	img.xattrs.start = le.Uint64(head[:])
	var err error
	img.xattrs.ids, err = img.table(img.Super.XattrTable+uint64(len(head)), 16*int64(le.Uint32(head[8:])))
	return err
}

// xattrPrefixes are the namespaces by their number (squashfs_fs.h, SQUASHFS_XATTR_*).
var xattrPrefixes = [...]string{"user.", "trusted.", "security."}

// xattrElsewhere marks a value that is stored once for several sets (SQUASHFS_XATTR_VALUE_OOL).
const xattrElsewhere = 0x100

// xattrSet reads the set with a number.
func (img *Image) xattrSet(id uint32) ([]tree.Xattr, error) {
	if id == noXattr {
		return nil, nil
	}
	if int64(id) >= int64(len(img.xattrs.ids)/16) {
		return nil, fmt.Errorf("set %d of extended attributes, and there are %d", id, len(img.xattrs.ids)/16)
	}
	row := img.xattrs.ids[16*id:]
	ref, count := binary.LittleEndian.Uint64(row), binary.LittleEndian.Uint32(row[8:])
	s := img.reference(img.xattrs.start, ref)
	var out []tree.Xattr
	for total := 0; count > 0 && s.err == nil; count-- {
		kind, length := s.u16(), s.u16()
		name := string(s.bytes(int(length)))
		size := s.u32()
		if total += int(length) + int(min(size, maxXattrs+1)); total > maxXattrs {
			return nil, fmt.Errorf("a set of extended attributes of more than %d bytes", maxXattrs)
		}
		value := s.bytes(int(size))
		if kind&xattrElsewhere != 0 && len(value) == 8 {
			v := img.reference(img.xattrs.start, binary.LittleEndian.Uint64(value))
			if size = v.u32(); size > maxXattrs {
				return nil, fmt.Errorf("an extended attribute of %d bytes", size)
			}
			if value = v.bytes(int(size)); v.err != nil {
				return nil, v.err
			}
		}
		if kind &^= xattrElsewhere; int(kind) >= len(xattrPrefixes) {
			return nil, fmt.Errorf("an extended attribute of kind %d", kind)
		}
		out = append(out, tree.Xattr{Name: xattrPrefixes[kind] + name, Value: value})
	}
	return out, s.err
}

// reference begins where a reference leads: the block in its upper bits, the offset in the lower 16.
func (img *Image) reference(table, ref uint64) *stream {
	if ref>>16 > img.Super.BytesUsed || table > img.Super.BytesUsed {
		return &stream{img: img, err: io.ErrUnexpectedEOF}
	}
	return img.at(table, int64(ref>>16), int(ref&0xffff))
}
