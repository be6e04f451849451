package squashfs

import (
	"encoding/binary"
	"errors"
	"math"
)

// maxRun is the most entries below one header (SQUASHFS_DIR_COUNT).
const maxRun = 256

// listing says where the entries of a directory are.
type listing struct {
	block  uint32 // start of its first metadata block in the directory table
	offset uint16 // in that block
	size   int64  // uncompressed, in bytes
	index  []indexEntry
}

// indexEntry lets the kernel begin to look for a name in the middle of a listing.
type indexEntry struct {
	at    uint32 // offset in the listing; a header is there
	block uint32 // the metadata block with that offset
	name  string // the first one below that header
}

// writeListing appends the entries of one directory, sorted by name. Entries whose inodes lie in the same metadata block
// and have near numbers share a header; a header does not reach beyond the metadata block in which it begins by more
// than one entry, so that the index can name each block.
func writeListing(m *metadataWriter, entries []entry) (listing, error) {
	var l listing
	l.block, l.offset = m.position()
	indexed := l.block
	for len(entries) > 0 {
		block, offset := m.position()
		if block != indexed {
			if l.size > math.MaxUint32 {
				return l, errors.New("the directory is too large")
			}
			l.index = append(l.index, indexEntry{at: uint32(l.size), block: block, name: entries[0].name})
			indexed = block
		}
		run, n := encodeRun(entries, metadataSize-int(offset))
		m.write(run)
		l.size += int64(len(run))
		entries = entries[n:]
	}
	return l, nil
}

// encodeRun encodes a header and at least one entry, and ends when the room is used up.
func encodeRun(entries []entry, room int) (b []byte, n int) {
	le := binary.LittleEndian
	base := entries[0].node
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(base.reference>>16))
	b = le.AppendUint32(b, base.number)
	for _, e := range entries {
		diff := int64(e.node.number) - int64(base.number)
		if n == maxRun || (n > 0 && len(b) >= room) || e.node.reference>>16 != base.reference>>16 || diff < math.MinInt16 || diff > math.MaxInt16 {
			break
		}
		b = le.AppendUint16(b, uint16(e.node.reference&0xffff))
		b = le.AppendUint16(b, uint16(int16(diff)))
		b = le.AppendUint16(b, inodeTypes[e.node.inode.Type])
		b = le.AppendUint16(b, uint16(len(e.name)-1))
		b = append(b, e.name...)
		n++
	}
	le.PutUint32(b, uint32(n-1))
	return b, n
}
