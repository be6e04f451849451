package squashfs

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"spore/storage/pieces"
)

// file says where the data of one regular file is, in a pack.
type file struct {
	size   int64
	sum    [sha256.Size]byte
	start  int64          // of the first block
	blocks []uint32       // on-disk size of each block, with storedBlock; 0 is a block of zeros that takes no room
	pieces []pieces.Piece // of the blocks as they are stored, see blocksInPiece
	// frag numbers the fragment block that holds the whole file, or is -1. A file of one block or more has none: its short
	// last block is a block of its own, so that reading a large file never decompresses its neighbours.
	frag    int
	fragOff uint32
}

// stored is how many bytes the blocks of the file take.
func (f *file) stored() int64 {
	var n int64
	for _, b := range f.blocks {
		n += int64(blockBytes(b))
	}
	return n
}

// fragment is one fragment block in a pack.
type fragment struct {
	start int64
	size  uint32     // with storedBlock
	sum   pieces.Sum // of the block as it is stored
}

// blockBytes is the number of bytes that a block takes.
func blockBytes(size uint32) uint32 { return size &^ storedBlock }

// blocksInPiece is how many blocks of a file are a piece at most: those of a mebibyte, counted from the beginning of
// the file, so that a change in its middle leaves the pieces before it and, where nothing moved, those behind it.
func blocksInPiece(blockSize int) int { return max(1, pieces.MaxPiece/blockSize) }

// A dataWriter writes compressed blocks one after the other. Blocks are compressed in parallel and written in the order
// in which they came, so that the bytes do not depend on the number of workers.
type dataWriter struct {
	w         io.Writer
	off       int64 // where the next block will be
	blockSize int
	enc       *zstd.Encoder
	window    int // how many blocks may be under way
	piece     pieceHash

	pending []*block
	free    [][]byte
	// Tails of files that are compressed already share fragment blocks that are stored as they are.
	open  [2]openFragment // by class
	frags []fragment
	small map[[sha256.Size]byte]*file
}

const (
	classPlain = iota
	classStored
)

// openFragment is a fragment block that is not full yet.
type openFragment struct {
	data []byte
	id   int // in frags
}

// block is one block on its way to the output.
type block struct {
	raw     []byte
	scratch []byte
	out     []byte // raw, or compressed into scratch where there is room
	size    uint32
	done    chan struct{}
	place   func(off int64, b *block)
}

// pieceHash hashes the blocks of a piece as they are written. Those of a file come in their order, and nothing between
// them.
type pieceHash struct {
	hash.Hash
	of     *file
	number int
}

// add adds the block of a number to the pieces of a file.
func (p *pieceHash) add(f *file, block, inPiece int, stored []byte) {
	if p.of != f || p.number != block/inPiece {
		p.of, p.number = f, block/inPiece
		p.Reset()
		f.pieces = append(f.pieces, pieces.Piece{})
	}
	p.Write(stored)
	last := &f.pieces[len(f.pieces)-1]
	last.Size += int64(len(stored))
	p.Sum(last.Sum[:0])
}

// newDataWriter writes to w, whose next byte has the offset off.
func newDataWriter(w io.Writer, off int64, enc *zstd.Encoder, o PackOptions) *dataWriter {
	return &dataWriter{
		w: w, off: off, blockSize: int(o.BlockSize), enc: enc, window: 4 * o.Concurrency, piece: pieceHash{Hash: sha256.New()},
		small: map[[sha256.Size]byte]*file{},
	}
}

// add writes the data of one file. The result is complete only after finish.
func (d *dataWriter) add(r io.Reader) (*file, error) {
	buf := d.buffer()
	n, err := io.ReadFull(r, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		f, err := d.addSmall(buf[:n])
		d.free = append(d.free, buf)
		return f, err
	}
	if err != nil {
		return nil, err
	}
	f := &file{frag: -1}
	class := classOf(buf)
	h := sha256.New()
	started := false
	for n > 0 {
		h.Write(buf[:n])
		f.size += int64(n)
		if allZero(buf[:n]) {
			f.blocks = append(f.blocks, 0)
			d.free = append(d.free, buf)
		} else {
			if err := d.addBlock(f, buf[:n], class, !started); err != nil {
				return nil, err
			}
			started = true
		}
		buf = d.buffer()
		if n, err = io.ReadFull(r, buf); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, err
		}
	}
	d.free = append(d.free, buf)
	h.Sum(f.sum[:0])
	return f, nil
}

func classOf(head []byte) int {
	if incompressible(head) {
		return classStored
	}
	return classPlain
}

// addBlock takes the buffer over.
func (d *dataWriter) addBlock(f *file, data []byte, class int, first bool) error {
	i := len(f.blocks)
	f.blocks = append(f.blocks, 0)
	return d.submit(data, class, func(off int64, b *block) {
		if first {
			f.start = off
		}
		f.blocks[i] = b.size
		d.piece.add(f, i, blocksInPiece(d.blockSize), b.out)
	})
}

// addSmall puts a file of less than a block into a fragment block, or finds that the same data is there.
func (d *dataWriter) addSmall(data []byte) (*file, error) {
	sum := sha256.Sum256(data)
	if f := d.small[sum]; f != nil {
		return f, nil
	}
	f := &file{size: int64(len(data)), sum: sum, frag: -1}
	d.small[sum] = f
	if len(data) == 0 {
		return f, nil
	}
	class := classOf(data)
	if o := &d.open[class]; len(o.data)+len(data) > d.blockSize {
		if err := d.closeFragment(class); err != nil {
			return nil, err
		}
	}
	o := &d.open[class]
	if o.data == nil {
		o.data, o.id = d.buffer()[:0], len(d.frags)
		d.frags = append(d.frags, fragment{})
	}
	f.frag, f.fragOff = o.id, uint32(len(o.data))
	o.data = append(o.data, data...)
	return f, nil
}

func (d *dataWriter) closeFragment(class int) error {
	o := d.open[class]
	d.open[class] = openFragment{}
	return d.submit(o.data, class, func(off int64, b *block) {
		d.frags[o.id] = fragment{start: off, size: b.size, sum: sha256.Sum256(b.out)}
	})
}

// finish writes what is left; after it every file has its place.
func (d *dataWriter) finish() error {
	for class := range d.open {
		if d.open[class].data != nil {
			if err := d.closeFragment(class); err != nil {
				return err
			}
		}
	}
	for len(d.pending) > 0 {
		if err := d.writeOldest(); err != nil {
			return err
		}
	}
	return nil
}

// submit starts to compress a block and writes the oldest ones where too many are under way.
func (d *dataWriter) submit(raw []byte, class int, place func(off int64, b *block)) error {
	b := &block{raw: raw, done: make(chan struct{}), place: place}
	d.pending = append(d.pending, b)
	if class == classStored {
		b.out, b.size = raw, uint32(len(raw))|storedBlock
		close(b.done)
	} else {
		b.scratch = d.buffer()
		go func() {
			defer close(b.done)
			b.out, b.size = encodeBlock(d.enc, b.raw, b.scratch[:0])
		}()
	}
	for len(d.pending) > d.window {
		if err := d.writeOldest(); err != nil {
			return err
		}
	}
	return nil
}

// encodeBlock compresses into scratch, and returns the raw data where that is not smaller.
func encodeBlock(enc *zstd.Encoder, raw, scratch []byte) (out []byte, size uint32) {
	out = enc.EncodeAll(raw, scratch)
	if len(out) < len(raw) {
		return out, uint32(len(out))
	}
	return raw, uint32(len(raw)) | storedBlock
}

func (d *dataWriter) writeOldest() error {
	b := d.pending[0]
	d.pending = d.pending[1:]
	<-b.done
	if _, err := d.w.Write(b.out); err != nil {
		return fmt.Errorf("write a block of %d bytes: %w", len(b.out), err)
	}
	b.place(d.off, b)
	d.off += int64(len(b.out))
	d.free = append(d.free, b.raw[:d.blockSize])
	if b.scratch != nil {
		d.free = append(d.free, b.scratch)
	}
	return nil
}

func (d *dataWriter) buffer() []byte {
	if n := len(d.free); n > 0 {
		b := d.free[n-1]
		d.free = d.free[:n-1]
		return b
	}
	return make([]byte, d.blockSize)
}

var zeros [maxBlockSize]byte

func allZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
