// Package verity reads the dm-verity superblock (cryptsetup wiki, "DMVerity", on-disk format version 1) and writes the
// line of arguments of the kernel's verity target (Documentation/admin-guide/device-mapper/verity.rst).
//
// The superblock is outside data. What it says only has to be safe to use: a wrong salt or size gives a tree that does
// not end in the trusted root hash, and the kernel refuses it at the first read. Only what Spore writes is accepted:
// hash type 1, sha256, blocks of 4096 bytes. Forward error correction is left out.
package verity

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// BlockSize is the size of data and hash blocks in bytes.
	BlockSize = 4096
	// SuperblockSize is how much of its block the superblock fills, in bytes.
	SuperblockSize = 512

	hashSize       = 32
	hashesPerBlock = BlockSize / hashSize
	maxSalt        = 256
	// maxDataBlocks bounds a part to 1 TiB, far beyond any slot.
	maxDataBlocks = 1 << 28
)

// Superblock is what of the superblock matters.
type Superblock struct {
	// DataBlocks is the number of data blocks of BlockSize.
	DataBlocks int64
	Salt       []byte
}

// Parse reads a superblock from its first SuperblockSize bytes.
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
		return Superblock{}, fmt.Errorf("verity superblock: version %d, hash type %d; only 1 and 1 are known", le.Uint32(b[8:]), le.Uint32(b[12:]))
	case algorithm != "sha256":
		return Superblock{}, fmt.Errorf("verity superblock: hash %q; only sha256 is used", algorithm)
	case le.Uint32(b[64:]) != BlockSize || le.Uint32(b[68:]) != BlockSize:
		return Superblock{}, fmt.Errorf("verity superblock: blocks of %d and %d bytes; only %d are used", le.Uint32(b[64:]), le.Uint32(b[68:]), BlockSize)
	}
	blocks, saltSize := le.Uint64(b[72:]), le.Uint16(b[80:])
	if blocks == 0 || blocks > maxDataBlocks {
		return Superblock{}, fmt.Errorf("verity superblock: %d data blocks", blocks)
	}
	if saltSize > maxSalt {
		return Superblock{}, fmt.Errorf("verity superblock: a salt of %d bytes", saltSize)
	}
	return Superblock{DataBlocks: int64(blocks), Salt: append([]byte(nil), b[88:88+int(saltSize)]...)}, nil
}

// TreeBlocks is the number of hash blocks behind the superblock's block: none for a single data block, whose hash is the root.
func (s Superblock) TreeBlocks() int64 {
	var total int64
	for _, n := range s.levels() {
		total += n
	}
	return total
}

// Volume is where data and tree are: the argument of a mapping.
type Volume struct {
	Superblock
	// HashBlock is the block of the hash device in which the superblock is.
	HashBlock int64
}

// Separate reads a volume whose superblock is at the start of hash, a partition of hashSize bytes of its own. The data
// partition has dataSize bytes.
func Separate(hash io.ReaderAt, hashSize, dataSize int64) (Volume, error) {
	v, err := readVolume(hash, 0, hashSize)
	if err == nil && v.DataBlocks > dataSize/BlockSize {
		err = fmt.Errorf("verity superblock: %d data blocks in a partition of %d bytes", v.DataBlocks, dataSize)
	}
	return v, err
}

// Appended reads a volume whose superblock follows dataSize bytes of data, rounded up to BlockSize, in the same partition
// of size bytes.
func Appended(part io.ReaderAt, size, dataSize int64) (Volume, error) {
	blocks := (dataSize + BlockSize - 1) / BlockSize
	v, err := readVolume(part, blocks, size)
	if err == nil && v.DataBlocks != blocks {
		err = fmt.Errorf("verity superblock: %d data blocks, but the file system before it has %d", v.DataBlocks, blocks)
	}
	return v, err
}

func readVolume(r io.ReaderAt, block, size int64) (Volume, error) {
	if block < 0 || block >= size/BlockSize {
		return Volume{}, fmt.Errorf("verity superblock: no room at block %d of a partition of %d bytes", block, size)
	}
	b := make([]byte, BlockSize)
	if n, err := r.ReadAt(b, block*BlockSize); n < len(b) {
		return Volume{}, fmt.Errorf("reading verity superblock at block %d: %w", block, err)
	}
	s, err := Parse(b)
	if err != nil {
		return Volume{}, err
	}
	if end := block + 1 + s.TreeBlocks(); end > size/BlockSize {
		return Volume{}, fmt.Errorf("verity superblock: the tree ends at block %d of a partition of %d bytes", end, size)
	}
	return Volume{Superblock: s, HashBlock: block}, nil
}

// Target returns the arguments of the kernel's verity target. Devices are "major:minor" or paths; rootHash is hex.
// A block that does not match stops the machine.
func (v Volume) Target(dataDevice, hashDevice, rootHash string) string {
	return v.ReadTarget(dataDevice, hashDevice, rootHash) + " 1 panic_on_corruption"
}

// ReadTarget is Target for what the running system does not stand on: a block that does not match cannot be read.
func (v Volume) ReadTarget(dataDevice, hashDevice, rootHash string) string {
	salt := "-"
	if len(v.Salt) > 0 {
		salt = hex.EncodeToString(v.Salt)
	}
	return fmt.Sprintf("1 %s %s %d %d %d %d sha256 %s %s",
		dataDevice, hashDevice, BlockSize, BlockSize, v.DataBlocks, v.HashBlock+1, rootHash, salt)
}

// Sectors is the size of the mapping in sectors of 512 bytes.
func (v Volume) Sectors() int64 { return v.DataBlocks * (BlockSize / 512) }
