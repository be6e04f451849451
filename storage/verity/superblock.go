package verity

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

const (
	// SuperblockSize is how much of its block the superblock fills, in bytes.
	SuperblockSize = 512

	// maxReadSalt is that of the format, in bytes.
	maxReadSalt = 256
	// maxDataBlocks bounds a part to 1 TiB, far beyond any slot.
	maxDataBlocks = 1 << 28
)

// Superblock is what of the superblock matters.
type Superblock struct {
	// DataBlocks is the number of data blocks of BlockSize.
	DataBlocks int64
	Salt       []byte
	UUID       [16]byte
}

// Parse reads a superblock from its first SuperblockSize bytes. It is outside data. What it says only has to be safe to
// use: a wrong salt or size gives a tree that does not end in the trusted root hash. Only what Format writes is
// accepted, but for the length of the salt.
func Parse(b []byte) (Superblock, error) {
	if len(b) < SuperblockSize {
		return Superblock{}, fmt.Errorf("verity superblock: %d bytes of %d", len(b), SuperblockSize)
	}
	le := binary.LittleEndian
	algorithm, _, _ := strings.Cut(string(b[32:64]), "\x00")
	switch {
	case string(b[:8]) != "verity\x00\x00":
		return Superblock{}, errors.New("verity superblock: wrong magic")
	case le.Uint32(b[8:]) != 1 || le.Uint32(b[12:]) != 1:
		return Superblock{}, fmt.Errorf("verity superblock: version %d, hash type %d; only 1 and 1 are known",
			le.Uint32(b[8:]), le.Uint32(b[12:]))
	case algorithm != "sha256":
		return Superblock{}, fmt.Errorf("verity superblock: hash %q; only sha256 is used", algorithm)
	case le.Uint32(b[64:]) != BlockSize || le.Uint32(b[68:]) != BlockSize:
		return Superblock{}, fmt.Errorf("verity superblock: blocks of %d and %d bytes; only %d are used",
			le.Uint32(b[64:]), le.Uint32(b[68:]), BlockSize)
	}
	blocks, saltSize := le.Uint64(b[72:]), le.Uint16(b[80:])
	if blocks == 0 || blocks > maxDataBlocks {
		return Superblock{}, fmt.Errorf("verity superblock: %d data blocks", blocks)
	}
	if saltSize > maxReadSalt {
		return Superblock{}, fmt.Errorf("verity superblock: a salt of %d bytes", saltSize)
	}
	return Superblock{
		DataBlocks: int64(blocks), Salt: append([]byte(nil), b[88:88+int(saltSize)]...), UUID: [16]byte(b[16:32]),
	}, nil
}

// TreeBlocks is the number of hash blocks behind the superblock's block: none for a single data block, whose hash is
// the root.
func (s Superblock) TreeBlocks() int64 { return HashSize(s.DataBlocks*BlockSize)/BlockSize - 1 }
