// Package verity makes the hash trees of dm-verity (Linux: Documentation/admin-guide/device-mapper/verity.rst; on disk:
// the veritysetup format, hash type 1, version 1): SHA-256, data and hash blocks of 4096 bytes, a superblock before the
// tree.
//
// It reads their superblocks, too. It leaves out every other hash, block size and hash type, forward error correction
// and signatures, and does not set up a mapping: the machine does that.
//
// veritysetup makes the same trees, and the tests compare with it; it is a program, and a build needs none on its
// host but Go.
package verity

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

const (
	// BlockSize is that of data and hash blocks in bytes.
	BlockSize = 4096
	// MaxSalt is the most bytes of salt that this package writes. (The format has room for 256.)
	MaxSalt = 32

	perBlock  = BlockSize / sha256.Size
	maxLevels = 63 // DM_VERITY_MAX_LEVELS
)

// Options are the parameters of a tree.
type Options struct {
	// Salt is hashed before each block: at most MaxSalt bytes. Derive makes one.
	Salt []byte
	// UUID goes into the superblock. Derive makes one.
	UUID [16]byte
	// Concurrency is how many blocks are hashed at once; 0 means GOMAXPROCS. The bytes do not depend on it.
	Concurrency int
}

// Derive makes a salt and a UUID (version 8, RFC 9562 section 5.8) from an id of the content, for example
// squashfs.Result.ContentID: same content, same tree, and the data need not be read once more to find a salt. The id
// only has to differ when the content does; the security of the tree does not rest on it.
func Derive(contentID []byte) Options {
	salt := sha256.Sum256(append([]byte("spore verity salt\n"), contentID...))
	sum := sha256.Sum256(append([]byte("spore verity uuid\n"), contentID...))
	o := Options{Salt: salt[:]}
	copy(o.UUID[:], sum[:])
	o.UUID[6] = o.UUID[6]&0x0f | 0x80
	o.UUID[8] = o.UUID[8]&0x3f | 0x80
	return o
}

// HashSize is how many bytes Format writes for dataSize bytes of data: one block for the superblock, and the tree.
func HashSize(dataSize int64) int64 {
	n := int64(1)
	for _, l := range levels(dataSize / BlockSize) {
		n += l
	}
	return n * BlockSize
}

// levels returns how many hash blocks each level has, from the one above the data to the top, which has one. A single
// data block has no levels: its hash is the root hash. A level is as many blocks as its hashes fill, no more.
func levels(blocks int64) []int64 {
	var out []int64
	for blocks > 1 {
		blocks = (blocks + perBlock - 1) / perBlock
		out = append(out, blocks)
	}
	return out
}

// Format hashes dataSize bytes of data, a multiple of BlockSize and at least one block, and writes superblock and tree
// to hash: HashSize(dataSize) bytes, a multiple of BlockSize. They may stand on a device of their own or behind the
// data on the same one; nothing in them depends on where. It returns the root hash.
func Format(data io.ReaderAt, dataSize int64, hash io.Writer, o Options) (root [sha256.Size]byte, hashSize int64, err error) {
	h, err := NewHasher(dataSize, o)
	if err != nil {
		return root, 0, err
	}
	if err := h.readFrom(data); err != nil {
		return root, 0, fmt.Errorf("make a verity tree: %w", err)
	}
	return h.Finish(hash)
}

// A Hasher makes the tree of data that is handed to it as it is written, so that it need not be read again.
type Hasher struct {
	o      Options
	blocks int64
	leaves []byte // the lowest level, or the root hash where a single block has none
	// made are the levels from the lowest to the top, and root their hash, once Finish was called.
	finished bool
	made     [][]byte
	root     [sha256.Size]byte
}

// NewHasher begins the tree of dataSize bytes, a multiple of BlockSize and at least one block.
func NewHasher(dataSize int64, o Options) (*Hasher, error) {
	if dataSize <= 0 || dataSize%BlockSize != 0 {
		return nil, fmt.Errorf("make a verity tree: %d bytes of data are not a positive multiple of %d", dataSize, BlockSize)
	}
	if len(o.Salt) > MaxSalt {
		return nil, fmt.Errorf("make a verity tree: a salt of %d bytes, and %d is the most", len(o.Salt), MaxSalt)
	}
	if o.Concurrency <= 0 {
		o.Concurrency = runtime.GOMAXPROCS(0)
	}
	h := &Hasher{o: o, blocks: dataSize / BlockSize, leaves: make([]byte, sha256.Size)}
	if sizes := levels(h.blocks); len(sizes) > maxLevels {
		return nil, errors.New("make a verity tree: too many levels")
	} else if len(sizes) > 0 {
		h.leaves = make([]byte, sizes[0]*BlockSize)
	}
	return h, nil
}

// WriteAt takes whole blocks of the data, in any order and from many goroutines.
func (h *Hasher) WriteAt(b []byte, off int64) (int, error) {
	if off%BlockSize != 0 || len(b)%BlockSize != 0 || off < 0 || int64(len(b)) > h.blocks*BlockSize-off {
		return 0, fmt.Errorf("hash %d bytes at %d: they are not whole blocks of %d", len(b), off, h.blocks*BlockSize)
	}
	hashBlocks(b, h.leaves[off/BlockSize*sha256.Size:], h.o.Salt)
	return len(b), nil
}

// readFrom takes all of the data from a reader.
func (h *Hasher) readFrom(data io.ReaderAt) error {
	var g errgroup.Group
	g.SetLimit(h.o.Concurrency)
	for first := int64(0); first < h.blocks; first += perBlock {
		count := min(perBlock, h.blocks-first)
		g.Go(func() error {
			buf := make([]byte, count*BlockSize)
			if n, err := data.ReadAt(buf, first*BlockSize); n < len(buf) {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return fmt.Errorf("read %d bytes at %d: %w", len(buf), first*BlockSize, err)
			}
			_, err := h.WriteAt(buf, first*BlockSize)
			return err
		})
	}
	return g.Wait()
}

// Finish writes superblock and tree as Format does, once all blocks were handed over; that one was not is an error. It
// can be called again, and nothing is handed over after it.
func (h *Hasher) Finish(hash io.Writer) (root [sha256.Size]byte, hashSize int64, err error) {
	fail := func(err error) ([sha256.Size]byte, int64, error) {
		return [sha256.Size]byte{}, 0, fmt.Errorf("make a verity tree: %w", err)
	}
	for i := range h.blocks {
		if [sha256.Size]byte(h.leaves[i*sha256.Size:]) == [sha256.Size]byte{} { // which is the hash of nothing
			return fail(fmt.Errorf("internal error: block %d of %d was not hashed", i, h.blocks))
		}
	}
	if !h.finished {
		h.made, h.root = h.tree()
		h.finished = true
	}
	if err := write(hash, superblock(h.blocks, h.o)); err != nil {
		return fail(err)
	}
	for _, level := range slices.Backward(h.made) { // the top comes first
		if err := write(hash, level); err != nil {
			return fail(err)
		}
	}
	return h.root, HashSize(h.blocks * BlockSize), nil
}

// tree returns the levels from the lowest to the top.
func (h *Hasher) tree() (tree [][]byte, root [sha256.Size]byte) {
	below := h.leaves
	for _, size := range levels(h.blocks) {
		if len(tree) > 0 {
			level := make([]byte, size*BlockSize)
			hashBlocks(below, level, h.o.Salt)
			below = level
		}
		tree = append(tree, below)
	}
	if len(tree) == 0 {
		return nil, [sha256.Size]byte(h.leaves)
	}
	hashBlocks(below, root[:], h.o.Salt)
	return tree, root
}

// hashBlocks writes the hashes of blocks one after the other to out.
func hashBlocks(blocks, out, salt []byte) {
	h := sha256.New()
	for ; len(blocks) > 0; blocks, out = blocks[BlockSize:], out[sha256.Size:] {
		h.Reset()
		h.Write(salt)
		h.Write(blocks[:BlockSize])
		h.Sum(out[:0])
	}
}

// superblock is struct verity_sb of cryptsetup's lib/verity/verity.c, padded to a block.
func superblock(blocks int64, o Options) []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, BlockSize), "verity\x00\x00"...)
	b = le.AppendUint32(b, 1) // version
	b = le.AppendUint32(b, 1) // hash type
	b = append(b, o.UUID[:]...)
	b = append(b, "sha256"...)
	b = append(b, make([]byte, 32-len("sha256"))...)
	b = le.AppendUint32(b, BlockSize) // data
	b = le.AppendUint32(b, BlockSize) // hash
	b = le.AppendUint64(b, uint64(blocks))
	b = le.AppendUint16(b, uint16(len(o.Salt)))
	b = append(b, make([]byte, 6)...)
	b = append(b, o.Salt...)
	return b[:BlockSize]
}

func write(w io.Writer, b []byte) error {
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write %d bytes: %w", len(b), err)
	}
	return nil
}
