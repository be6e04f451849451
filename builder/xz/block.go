package xz

import (
	"encoding/binary"
	"hash/crc32"
)

// blockHeader is what this package uses of a block's header (section 3.1).
type blockHeader struct {
	// plain means that LZMA2 is the only filter.
	plain bool
	// dict is the size of the dictionary in bytes.
	dict uint32
	// packed and unpacked are the sizes in bytes, or -1.
	packed, unpacked int64
}

// headerSize is the size of a block header by its first byte, which is not 0.
func headerSize(b byte) int { return (int(b) + 1) * 4 }

const filterLZMA2 = 0x21

// parseBlockHeader reads a header of the size that its first byte says.
func parseBlockHeader(b []byte) (blockHeader, error) {
	h := blockHeader{packed: -1, unpacked: -1}
	body, sum := b[:len(b)-4], b[len(b)-4:]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(sum) {
		return h, corrupt("the checksum of a block header")
	}
	flags := body[1]
	if flags&0x3c != 0 {
		return h, nil // reserved: the other decoder says what it thinks of it
	}
	rest := body[2:]
	for _, f := range []struct {
		flag byte
		to   *int64
	}{{0x40, &h.packed}, {0x80, &h.unpacked}} {
		if flags&f.flag == 0 {
			continue
		}
		v, n := vli(rest)
		if n == 0 {
			return h, corrupt("a size in a block header")
		}
		*f.to, rest = int64(v), rest[n:]
	}
	if h.packed == 0 {
		return h, corrupt("a block header says that nothing follows")
	}
	if flags&3 != 0 || len(rest) < 3 || rest[0] != filterLZMA2 {
		return h, nil
	}
	if rest[1] != 1 || !allZero(rest[3:]) {
		return h, corrupt("the filters in a block header")
	}
	ok := false
	h.dict, ok = dictSize(rest[2])
	h.plain = ok
	return h, nil
}

// dictSize decodes the size of the dictionary (section 5.3.1).
func dictSize(b byte) (uint32, bool) {
	switch {
	case b > 40:
		return 0, false
	case b == 40:
		return 1<<32 - 1, true
	}
	return (2 | uint32(b)&1) << (b/2 + 11), true
}

// vli decodes a number (section 1.2) and says how many bytes it takes; 0 bytes mean that there is none.
func vli(b []byte) (v uint64, n int) {
	for n < 9 && n < len(b) {
		c := b[n]
		v |= uint64(c&0x7f) << (7 * n)
		n++
		if c&0x80 == 0 {
			if c == 0 && n > 1 {
				return 0, 0 // not the shortest form
			}
			return v, n
		}
	}
	return 0, 0
}
