package verity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Tree holds the hashes of all data blocks, each of them trusted: it was followed down from the root hash.
type Tree struct {
	salt   []byte
	leaves []byte
}

// ReadTree reads the tree behind the superblock of a volume whose hash device is r, and holds all of it to the root
// hash, in hex. The kernel does the same block by block; whoever downloads wants to know before there is anything to
// map.
func (v Volume) ReadTree(r io.ReaderAt, rootHash string) (*Tree, error) {
	above, err := hex.DecodeString(rootHash)
	if err != nil || len(above) != hashSize {
		return nil, fmt.Errorf("internal error: root hash %q", rootHash)
	}
	block := v.HashBlock + 1
	// On the disk the top level, of one block, comes first.
	for _, n := range levels(v.DataBlocks) {
		level := make([]byte, n*BlockSize)
		if got, err := r.ReadAt(level, block*BlockSize); got < len(level) {
			return nil, fmt.Errorf("reading verity tree at block %d: %w", block, err)
		}
		t := Tree{salt: v.Salt, leaves: above}
		for i := range n {
			if !t.Good(i, level[i*BlockSize:(i+1)*BlockSize]) {
				return nil, fmt.Errorf("block %d of the verity tree does not lead to the root hash %s", block+i, rootHash)
			}
		}
		above = level
		block += n
	}
	return &Tree{salt: v.Salt, leaves: above}, nil
}

// levels are the numbers of hash blocks of each level, the top first.
func levels(dataBlocks int64) []int64 {
	var up []int64
	for n := dataBlocks; n > 1; {
		n = (n + hashesPerBlock - 1) / hashesPerBlock
		up = append([]int64{n}, up...)
	}
	return up
}

// Good tells whether block is the content of data block n, BlockSize bytes. Without a salt, or with one, it is hashed
// first (hash type 1).
func (t *Tree) Good(n int64, block []byte) bool {
	if n < 0 || (n+1)*hashSize > int64(len(t.leaves)) {
		return false
	}
	h := sha256.New()
	h.Write(t.salt)
	h.Write(block)
	return [hashSize]byte(h.Sum(nil)) == [hashSize]byte(t.leaves[n*hashSize:])
}

// ErrBlock is data that is not what the root hash stands for.
var ErrBlock = errors.New("it is not what the root hash of this kernel stands for")

// CheckData holds all data blocks of r, from its start, to the tree.
func (v Volume) CheckData(r io.ReaderAt, t *Tree) error {
	block := make([]byte, BlockSize)
	for n := range v.DataBlocks {
		if got, err := r.ReadAt(block, n*BlockSize); got < len(block) {
			return fmt.Errorf("reading block %d: %w", n, err)
		}
		if !t.Good(n, block) {
			return fmt.Errorf("block %d: %w", n, ErrBlock)
		}
	}
	return nil
}
