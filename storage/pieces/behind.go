package pieces

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
)

// block is what an index in a partition is padded to, in bytes.
const block = 4096

// EncodeBlocks is Encode with zeros up to a whole block of 4096 bytes: so it stands behind the hash tree of a root.
func (x Index) EncodeBlocks() ([]byte, error) {
	b, err := x.Encode()
	if err != nil {
		return nil, err
	}
	return append(b, make([]byte, blocksFor(int64(len(x)))-int64(len(b)))...), nil
}

// BlocksSize is how many bytes EncodeBlocks returns.
func (x Index) BlocksSize() int64 { return blocksFor(int64(len(x))) }

// SizeAt is how many bytes, in whole blocks, an index takes that begins at an offset of r; 0 is that none begins there.
// It reads the head alone, so that the rest of the index may be damaged.
func SizeAt(r io.ReaderAt, at int64) int64 {
	h := make([]byte, head)
	if n, _ := r.ReadAt(h, at); n < head || string(h[:len(magic)]) != magic {
		return 0
	}
	n := int64(binary.BigEndian.Uint32(h[len(magic):]))
	if n > MaxCount {
		return 0
	}
	return blocksFor(n)
}

// blocksFor is the size of an index of n pieces in whole blocks.
func blocksFor(n int64) int64 { return (head + n*(4+sha256.Size) + block - 1) / block * block }
