// Package xz reads .xz files (The .xz File Format, version 1.2.1), with its own decoder of LZMA2: what Debian's packages,
// kernel modules and indexes are compressed with, and what a build that has no cache yet spends its time on.
//
// A stream whose blocks go through other filters than LZMA2 (BCJ, delta), or whose check this package does not know, is read
// by github.com/mikelolasagasti/xz. Sizes in headers, the index, the footer and the checks (CRC32, CRC64, SHA-256) are all
// verified. There is no random access, and no block is decoded beside another: independent files are, by the caller.
package xz

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	fallback "github.com/mikelolasagasti/xz"
)

// Errors of a Reader. An input that ends too early is io.ErrUnexpectedEOF.
var (
	// ErrFormat means that the data is no .xz file.
	ErrFormat = errors.New("not an .xz file")
	// ErrCorrupt means that the data is damaged.
	ErrCorrupt = errors.New("the .xz data is damaged")
	// ErrMemory means that the file asks for a larger dictionary than is allowed.
	ErrMemory = errors.New("the .xz file needs a larger dictionary than is allowed")
	// ErrUnsupported means that the file is valid and uses what this package does not know.
	ErrUnsupported = errors.New("the .xz file uses an option that is not supported")
)

// DefaultMaxDict is the dictionary of xz -9, in bytes.
const DefaultMaxDict = 64 << 20

// Options are the bounds of a Reader; the zero value is right.
type Options struct {
	// MaxDict is the largest dictionary in bytes that a file may ask for; 0 means DefaultMaxDict, and more than 1 GiB means
	// 1 GiB. A Reader takes at most half as much again and 2 MiB for its window, and for less data about twice its size.
	MaxDict uint32
}

// Reader reads the content of all streams of an .xz file.
type Reader struct {
	opts  Options
	in    input
	dec   lzma2
	flags [2]byte // of the stream
	check check
	block blockHeader
	// index hashes the sizes of the blocks, to be compared with what the index says.
	index   hash.Hash
	blocks  uint64
	started int64 // where the block began
	data    int64 // where its data began
	size    int64 // what was decoded of it
	inBlock bool
	other   io.Reader // reads the rest
	err     error
}

// NewReader reads the header of a file and returns a Reader of its content. It reads on behind the end of the file when r
// does not end there.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	if o.MaxDict == 0 {
		o.MaxDict = DefaultMaxDict
	}
	o.MaxDict = min(o.MaxDict, 1<<30)
	z := &Reader{opts: o, index: sha256.New()}
	return z, z.Reset(r)
}

// Reset makes z read another file, with the memory that it has.
func (z *Reader) Reset(r io.Reader) error {
	z.in.reset(r)
	z.other, z.inBlock = nil, false
	z.dec.win.pos, z.dec.win.read = 0, 0
	z.err = z.streamHeader()
	return z.err
}

// Read reads decompressed data. io.EOF comes after all checks have held.
func (z *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	w := &z.dec.win
	for w.read == w.pos {
		if z.err != nil {
			return 0, z.err
		}
		if z.other != nil {
			return z.readOther(p)
		}
		z.err = z.advance()
	}
	n := copy(p, w.buf[w.read:w.pos])
	w.read += n
	return n, nil
}

// readOther reads from the fallback and gives its errors our names.
func (z *Reader) readOther(p []byte) (int, error) {
	n, err := z.other.Read(p)
	z.err = fallbackError(err)
	return n, z.err
}

func fallbackError(err error) error {
	for from, to := range map[error]error{
		fallback.ErrUnsupportedCheck: ErrUnsupported, fallback.ErrOptions: ErrUnsupported, fallback.ErrMemlimit: ErrMemory,
		fallback.ErrFormat: ErrFormat, fallback.ErrData: ErrCorrupt, fallback.ErrBuf: io.ErrUnexpectedEOF,
	} {
		if errors.Is(err, from) {
			return to
		}
	}
	return err
}

// fallBack hands the rest of the input to the other decoder, from the header of this stream on: back bytes ago.
func (z *Reader) fallBack(back int) error {
	r, err := fallback.NewReader(z.in.rest(back), z.opts.MaxDict)
	if err != nil {
		return fallbackError(err)
	}
	z.other = r
	return nil
}

// advance decodes a chunk, or what is between the chunks of two blocks.
func (z *Reader) advance() error {
	if z.inBlock {
		return z.advanceBlock()
	}
	b, err := z.in.need(1)
	if err != nil {
		return err
	}
	if b[0] == 0 {
		if err := z.readIndex(); err != nil {
			return err
		}
		return z.nextStream()
	}
	return z.startBlock()
}

// Stream header and footer (sections 2.1.1 and 2.1.2).
const (
	headerMagic = "\xfd7zXZ\x00"
	footerMagic = "YZ"
	frameSize   = 12
)

func (z *Reader) streamHeader() error {
	b, err := z.in.need(frameSize)
	if err != nil {
		if b, err := z.in.need(1); err == nil && b[0] != headerMagic[0] {
			return ErrFormat
		}
		return err
	}
	if string(b[:6]) != headerMagic {
		return ErrFormat
	}
	if crc32.ChecksumIEEE(b[6:8]) != binary.LittleEndian.Uint32(b[8:]) {
		return corrupt("the checksum of the stream header")
	}
	z.flags = [2]byte(b[6:8])
	if b[6] != 0 || b[7] > 15 {
		return fmt.Errorf("%w: stream flags %x", ErrUnsupported, z.flags)
	}
	z.check = newCheck(b[7])
	z.index.Reset()
	z.blocks = 0
	z.in.skip(frameSize)
	if !z.check.known {
		return z.fallBack(frameSize)
	}
	return nil
}

func (z *Reader) startBlock() error {
	z.started = z.in.offset()
	b, err := z.in.need(1)
	if err != nil {
		return err
	}
	size := headerSize(b[0])
	if b, err = z.in.need(size); err != nil {
		return err
	}
	if z.block, err = parseBlockHeader(b[:size]); err != nil {
		return err
	}
	if !z.block.plain {
		// The stream header is still in the buffer only before the first block. Filters that change within a stream are
		// what xz makes when it is asked for just that.
		if z.blocks > 0 {
			return fmt.Errorf("%w: filters that change within a stream", ErrUnsupported)
		}
		return z.fallBackBlock()
	}
	if z.block.dict > z.opts.MaxDict {
		return fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrMemory, z.block.dict, z.opts.MaxDict)
	}
	z.in.skip(size)
	z.data, z.size, z.inBlock = z.in.offset(), 0, true
	z.check.reset()
	z.dec.start(z.block.dict, z.block.unpacked)
	return nil
}

// fallBackBlock hands over before the first block. Its header may have moved the stream's out of the buffer, so that is
// written anew.
func (z *Reader) fallBackBlock() error {
	head := append([]byte(headerMagic), z.flags[:]...)
	head = binary.LittleEndian.AppendUint32(head, crc32.ChecksumIEEE(z.flags[:]))
	r, err := fallback.NewReader(io.MultiReader(bytes.NewReader(head), z.in.rest(0)), z.opts.MaxDict)
	if err != nil {
		return fallbackError(err)
	}
	z.other = r
	return nil
}

func (z *Reader) advanceBlock() error {
	left := int64(1<<62) - z.size
	if z.block.unpacked >= 0 {
		left = z.block.unpacked - z.size
	}
	done, err := z.dec.chunk(&z.in, left)
	if err != nil {
		return err
	}
	packed := z.in.offset() - z.data
	if z.block.packed >= 0 && packed > z.block.packed {
		return corrupt("a block has more compressed bytes than its header says")
	}
	if !done {
		fresh := z.dec.win.buf[z.dec.win.read:z.dec.win.pos]
		z.check.write(fresh)
		z.size += int64(len(fresh))
		return nil
	}
	if z.block.unpacked >= 0 && z.size != z.block.unpacked || z.block.packed >= 0 && packed != z.block.packed {
		return corrupt("a block has not the size that its header says")
	}
	return z.endBlock(packed)
}

// endBlock reads padding and check of a block (sections 3.3 and 3.4).
func (z *Reader) endBlock(packed int64) error {
	pad := int(-packed & 3)
	b, err := z.in.need(pad + z.check.size)
	if err != nil {
		return err
	}
	if !allZero(b[:pad]) {
		return corrupt("the padding of a block")
	}
	if !z.check.matches(b[pad : pad+z.check.size]) {
		return corrupt("the content does not have the checksum that it should have")
	}
	z.in.skip(pad + z.check.size)
	z.addRecord(z.index, uint64(z.in.offset()-z.started-int64(pad)), uint64(z.size))
	z.blocks++
	z.inBlock = false
	return nil
}

func (z *Reader) addRecord(h hash.Hash, unpadded, unpacked uint64) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], unpadded)
	binary.LittleEndian.PutUint64(b[8:], unpacked)
	h.Write(b[:])
}

// nextStream goes over stream padding (section 2.2); io.EOF when no stream follows.
func (z *Reader) nextStream() error {
	for {
		if z.in.atEnd() {
			return io.EOF
		}
		b, err := z.in.need(4)
		if err != nil {
			return err
		}
		if !allZero(b[:4]) {
			return z.streamHeader()
		}
		z.in.skip(4)
	}
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
