package squashfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/klauspost/compress/zstd"

	"spore/builder/tree"
)

// maxIndex bounds the index of a pack in bytes, so that a damaged footer does not take all memory.
const maxIndex = 1 << 30

// A Pack is an opened pack. It may be used from many goroutines at once.
type Pack struct {
	r         io.ReaderAt
	blockSize uint32
	nodes     []packNode
	names     []packName
	frags     []fragment

	mu       sync.Mutex
	dec      *zstd.Decoder
	lastFrag int // the fragment block in lastData; -1 is none
	lastData []byte
}

// OpenPack reads the index of a pack of the given size. The reader must stay usable as long as the pack or any content
// from it is. Anything that is not a whole pack is an error.
func OpenPack(r io.ReaderAt, size int64) (*Pack, error) {
	p, err := openPack(r, size)
	if err != nil {
		return nil, fmt.Errorf("open a pack: %w", err)
	}
	return p, nil
}

func openPack(r io.ReaderAt, size int64) (*Pack, error) {
	if size < packHeader+packFooter {
		return nil, fmt.Errorf("%d bytes are too few", size)
	}
	head, foot := make([]byte, packHeader), make([]byte, packFooter)
	if err := readFull(r, head, 0); err != nil {
		return nil, err
	}
	if err := readFull(r, foot, size-packFooter); err != nil {
		return nil, err
	}
	if string(head[:8]) != packMagic || string(foot[packFooter-8:]) != packMagic {
		return nil, errors.New("no magic: not a pack, or an incomplete one")
	}
	le := binary.LittleEndian
	blockSize := le.Uint32(head[8:])
	if err := checkBlockSize(blockSize); err != nil {
		return nil, err
	}
	at, n := le.Uint64(foot), le.Uint64(foot[8:])
	if n > maxIndex || at < packHeader || at > uint64(size) || at+n+packFooter != uint64(size) {
		return nil, fmt.Errorf("an index of %d bytes at %d does not fit %d bytes", n, at, size)
	}
	index := make([]byte, n)
	if err := readFull(r, index, int64(at)); err != nil {
		return nil, err
	}
	if sha256.Sum256(index) != [sha256.Size]byte(foot[16:48]) {
		return nil, fmt.Errorf("%w: wrong checksum", errIndex)
	}
	d := indexDecoder{b: index, blockSize: blockSize, dataEnd: int64(at)}
	p := &Pack{r: r, blockSize: blockSize, lastFrag: -1}
	var err error
	p.nodes, p.names, p.frags, err = d.decode()
	return p, err
}

// BlockSize is the block size of the images that the pack fits, in bytes.
func (p *Pack) BlockSize() uint32 { return p.blockSize }

// Len is the number of paths.
func (p *Pack) Len() int { return len(p.names) }

// Entries yields every path in the order in which it was added, with a fresh inode; hard links of one call share theirs.
// The Content of a regular file is a *PackedContent.
func (p *Pack) Entries() iter.Seq2[string, *tree.Inode] {
	return func(yield func(string, *tree.Inode) bool) {
		made := make([]*tree.Inode, len(p.nodes))
		for _, name := range p.names {
			n := made[name.node]
			if n == nil {
				c := p.nodes[name.node].inode
				n = &c
				n.Xattrs = append([]tree.Xattr(nil), c.Xattrs...)
				if f := p.nodes[name.node].file; f != nil {
					n.Content = &PackedContent{pack: p, file: f}
				}
				made[name.node] = n
			}
			if !yield(name.path, n) {
				return
			}
		}
	}
}

// PackedContent is the data of a file in a pack. Link copies its blocks as they are.
type PackedContent struct {
	pack *Pack
	file *file
}

// Size implements tree.Content.
func (c *PackedContent) Size() int64 { return c.file.size }

// SHA256 is the hash of the data, known without reading it.
func (c *PackedContent) SHA256() [sha256.Size]byte { return c.file.sum }

// Open implements tree.Content. The reader decompresses block by block and compares the hash at the end.
func (c *PackedContent) Open() (io.ReadCloser, error) {
	return &packReader{pack: c.pack, file: c.file, at: c.file.start, hash: sha256.New()}, nil
}

// block decompresses a block of want bytes.
func (p *Pack) block(at int64, size uint32, want int) ([]byte, error) {
	if size == 0 {
		return make([]byte, want), nil
	}
	raw := make([]byte, blockBytes(size))
	if err := readFull(p.r, raw, at); err != nil {
		return nil, err
	}
	if size&storedBlock == 0 {
		dec, err := p.decoder()
		if err != nil {
			return nil, err
		}
		if raw, err = dec.DecodeAll(raw, make([]byte, 0, want)); err != nil {
			return nil, fmt.Errorf("decompress the block at %d: %w", at, err)
		}
	}
	if len(raw) != want {
		return nil, fmt.Errorf("the block at %d holds %d bytes, want %d", at, len(raw), want)
	}
	return raw, nil
}

func (p *Pack) decoder() (*zstd.Decoder, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dec != nil {
		return p.dec, nil
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(p.blockSize)))
	if err != nil {
		return nil, fmt.Errorf("internal error: make a zstd decoder: %w", err)
	}
	p.dec = dec
	return dec, nil
}

// fragment returns one fragment block. The last one is kept: small files that follow each other share it.
func (p *Pack) fragment(i int) ([]byte, error) {
	p.mu.Lock()
	if p.lastFrag == i {
		defer p.mu.Unlock()
		return p.lastData, nil
	}
	p.mu.Unlock()
	f := p.frags[i]
	data, err := p.fragmentBlock(f)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastFrag, p.lastData = i, data
	return data, nil
}

func (p *Pack) fragmentBlock(f fragment) ([]byte, error) {
	raw := make([]byte, blockBytes(f.size))
	if err := readFull(p.r, raw, f.start); err != nil {
		return nil, err
	}
	if f.size&storedBlock != 0 {
		return raw, nil
	}
	dec, err := p.decoder()
	if err != nil {
		return nil, err
	}
	data, err := dec.DecodeAll(raw, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress the fragment block at %d: %w", f.start, err)
	}
	return data, nil
}

// packReader reads one file.
type packReader struct {
	pack *Pack
	file *file
	next int   // block
	at   int64 // of that block
	done int64 // bytes decompressed
	buf  []byte
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	err error
}

func (r *packReader) Read(b []byte) (int, error) {
	for len(r.buf) == 0 {
		if r.err == nil {
			r.err = r.fill()
		}
		if r.err != nil {
			return 0, r.err
		}
	}
	n := copy(b, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

func (r *packReader) fill() error {
	f := r.file
	left := f.size - r.done
	if left == 0 {
		if !bytes.Equal(r.hash.Sum(nil), f.sum[:]) {
			return errors.New("the data in the pack is damaged: wrong hash; remove the pack from the cache")
		}
		return io.EOF
	}
	if f.frag >= 0 {
		data, err := r.pack.fragment(f.frag)
		if err != nil {
			return err
		}
		if int64(len(data)) < int64(f.fragOff)+f.size {
			return fmt.Errorf("a fragment block of %d bytes, and a file of %d at %d of it", len(data), f.size, f.fragOff)
		}
		r.buf = data[f.fragOff:][:f.size]
	} else {
		size := f.blocks[r.next]
		data, err := r.pack.block(r.at, size, int(min(left, int64(r.pack.blockSize))))
		if err != nil {
			return err
		}
		r.buf = data
		r.at += int64(blockBytes(size))
		r.next++
	}
	r.hash.Write(r.buf)
	r.done += int64(len(r.buf))
	return nil
}

// Close implements io.Closer.
func (r *packReader) Close() error { return nil }

// readFull reads all of b or returns why not.
func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at %d: %w", len(b), at, err)
}
