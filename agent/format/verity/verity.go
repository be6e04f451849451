// Package verity finds dm-verity's superblock and tree on a partition, reads the tree, and writes the line of arguments
// of the kernel's verity target (Documentation/admin-guide/device-mapper/verity.rst). The superblock itself is read by
// storage/verity, which also says what of the format is left out.
package verity

import (
	"encoding/hex"
	"fmt"
	"io"

	"spore/storage/verity"
)

const (
	// BlockSize is the size of data and hash blocks in bytes.
	BlockSize = verity.BlockSize

	hashSize       = 32
	hashesPerBlock = BlockSize / hashSize
)

// Volume is where data and tree are: the argument of a mapping.
type Volume struct {
	verity.Superblock
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

// Appended reads a volume whose superblock follows dataSize bytes of data, rounded up to BlockSize, in the same
// partition of size bytes.
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
	s, err := verity.Parse(b)
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
