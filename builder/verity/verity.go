// Package verity makes the hash trees of dm-verity (Linux: Documentation/admin-guide/device-mapper/verity.rst; on disk:
// the veritysetup format, hash type 1, version 1): SHA-256, data and hash blocks of 4096 bytes, a superblock before the tree.
//
// It leaves out every other hash, block size and hash type, forward error correction and signatures, and does not set up
// a mapping: the machine does that.
package verity

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"

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
// to hash: HashSize(dataSize) bytes, a multiple of BlockSize. They may stand on a device of their own or behind the data on
// the same one; nothing in them depends on where. It returns the root hash.
func Format(data io.ReaderAt, dataSize int64, hash io.Writer, o Options) (root [sha256.Size]byte, hashSize int64, err error) {
	fail := func(err error) ([sha256.Size]byte, int64, error) {
		return [sha256.Size]byte{}, 0, fmt.Errorf("make a verity tree: %w", err)
	}
	if dataSize <= 0 || dataSize%BlockSize != 0 {
		return fail(fmt.Errorf("%d bytes of data are not a positive multiple of %d", dataSize, BlockSize))
	}
	if len(o.Salt) > MaxSalt {
		return fail(fmt.Errorf("a salt of %d bytes, and %d is the most", len(o.Salt), MaxSalt))
	}
	if o.Concurrency <= 0 {
		o.Concurrency = runtime.GOMAXPROCS(0)
	}
	tree, root, err := buildTree(data, dataSize/BlockSize, o)
	if err != nil {
		return fail(err)
	}
	if err := write(hash, superblock(dataSize/BlockSize, o)); err != nil {
		return fail(err)
	}
	for i := len(tree) - 1; i >= 0; i-- { // the top comes first
		if err := write(hash, tree[i]); err != nil {
			return fail(err)
		}
	}
	return root, HashSize(dataSize), nil
}

// buildTree returns the levels from the lowest to the top.
func buildTree(data io.ReaderAt, blocks int64, o Options) (tree [][]byte, root [sha256.Size]byte, err error) {
	sizes := levels(blocks)
	if len(sizes) > maxLevels {
		return nil, root, errors.New("too many levels")
	}
	src, n := data, blocks
	for _, size := range sizes {
		level := make([]byte, size*BlockSize)
		if err := hashBlocks(src, n, level, o); err != nil {
			return nil, root, err
		}
		tree = append(tree, level)
		src, n = readerAt(level), size
	}
	err = hashBlocks(src, 1, root[:], o)
	return tree, root, err
}

// hashBlocks writes the hashes of n blocks one after the other to out.
func hashBlocks(src io.ReaderAt, n int64, out []byte, o Options) error {
	var g errgroup.Group
	g.SetLimit(o.Concurrency)
	for first := int64(0); first < n; first += perBlock {
		count := min(perBlock, n-first)
		g.Go(func() error {
			return hashRun(src, first, out[first*sha256.Size:][:count*sha256.Size], o.Salt)
		})
	}
	return g.Wait()
}

// hashRun hashes the blocks from first on until out is full.
func hashRun(src io.ReaderAt, first int64, out, salt []byte) error {
	buf := make([]byte, len(out)/sha256.Size*BlockSize)
	if n, err := src.ReadAt(buf, first*BlockSize); n < len(buf) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read %d bytes at %d: %w", len(buf), first*BlockSize, err)
	}
	h := sha256.New()
	for i := 0; i < len(out); i += sha256.Size {
		h.Reset()
		h.Write(salt)
		h.Write(buf[i/sha256.Size*BlockSize:][:BlockSize])
		h.Sum(out[:i])
	}
	return nil
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

// readerAt is a level that the next one is made of.
type readerAt []byte

func (r readerAt) ReadAt(b []byte, at int64) (int, error) {
	n := copy(b, r[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
