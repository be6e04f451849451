package squashfs

import (
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
)

// A metadataWriter collects metadata in memory, in compressed blocks of 8 KiB each with a two-byte length before it.
type metadataWriter struct {
	enc     *zstd.Encoder
	out     []byte
	buf     []byte // of the block that is not full yet
	scratch []byte
	starts  []int // of each block, in out
}

// position is where the next byte will be: the start of its block relative to the first, and the offset in the
// uncompressed block.
func (m *metadataWriter) position() (block uint32, offset uint16) {
	return uint32(len(m.out)), uint16(len(m.buf))
}

// reference is the position as inode references and the like hold it.
func (m *metadataWriter) reference() uint64 {
	return uint64(len(m.out))<<16 | uint64(len(m.buf))
}

func (m *metadataWriter) write(b []byte) {
	m.buf = append(m.buf, b...)
	for len(m.buf) >= metadataSize {
		m.block(m.buf[:metadataSize])
		m.buf = append(m.buf[:0], m.buf[metadataSize:]...)
	}
}

// finish writes the last block and returns everything.
func (m *metadataWriter) finish() []byte {
	if len(m.buf) > 0 {
		m.block(m.buf)
		m.buf = nil
	}
	return m.out
}

func (m *metadataWriter) block(raw []byte) {
	m.starts = append(m.starts, len(m.out))
	m.scratch = m.enc.EncodeAll(raw, m.scratch[:0])
	if len(m.scratch) < len(raw) {
		m.out = binary.LittleEndian.AppendUint16(m.out, uint16(len(m.scratch)))
		m.out = append(m.out, m.scratch...)
		return
	}
	m.out = binary.LittleEndian.AppendUint16(m.out, uint16(len(raw))|storedMetadata)
	m.out = append(m.out, raw...)
}

// appendTable appends a table that is found through an index (fragments, exports, ids, xattr ids): its metadata blocks,
// then head, then the position of each block. It returns where head and index begin. Offset is that of out in the image.
func appendTable(out []byte, offset int64, enc *zstd.Encoder, table, head []byte) (all []byte, index uint64) {
	m := metadataWriter{enc: enc}
	m.write(table)
	base := uint64(offset) + uint64(len(out))
	out = append(out, m.finish()...)
	index = uint64(offset) + uint64(len(out))
	out = append(out, head...)
	for _, s := range m.starts {
		out = binary.LittleEndian.AppendUint64(out, base+uint64(s))
	}
	return out, index
}
