package squashfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"spore/builder/directio"
	"spore/storage/pieces"
)

// writePiece is how many bytes are written at once: what is put together and hashed in the cache of a processor.
const writePiece = 1 << 20

// An Image is linked and not yet written: all is known of it but the bytes of its data.
type Image struct {
	Result
	extents     []extent // all of the image, one after the other
	concurrency int
}

// assemble puts the parts of an image behind each other. The tables are pieces of the largest size: with any file that
// is longer than before, nearly all of their blocks are others.
func assemble(res Result, l *layout, head, tables []byte, concurrency int) *Image {
	img := &Image{Result: res, concurrency: concurrency}
	tables = append(tables, make([]byte, res.Size-res.Used)...)
	img.add(head)
	img.extents = append(img.extents, l.extents...)
	img.add(tables)
	img.Pieces = append(pieces.Index{pieceOf(head)}, l.pieces...)
	for piece := range slices.Chunk(tables, pieces.MaxPiece) {
		img.Pieces = append(img.Pieces, pieceOf(piece))
	}
	return img
}

func pieceOf(b []byte) pieces.Piece { return pieces.Piece{Size: int64(len(b)), Sum: sha256.Sum256(b)} }

// add adds bytes at the end of what is there.
func (img *Image) add(b []byte) {
	at := int64(0)
	if n := len(img.extents); n > 0 {
		last := img.extents[n-1]
		at = last.dst + last.end - last.src
	}
	img.extents = append(img.extents, extent{from: bytes.NewReader(b), end: int64(len(b)), dst: at})
}

// Write writes the image: each byte once, in pieces whose offset, length and memory are multiples of 4096, several at a
// time and in no order.
func (img *Image) Write(w io.WriterAt) error {
	g, ctx := errgroup.WithContext(context.Background())
	buffers := make(chan []byte, img.concurrency)
	for range img.concurrency {
		buffers <- directio.Buffer(int(min(writePiece, img.Size)))
	}
	for at := int64(0); at < img.Size && ctx.Err() == nil; at += writePiece {
		buf := <-buffers
		g.Go(func() error {
			defer func() { buffers <- buf }()
			piece := buf[:min(writePiece, img.Size-at)]
			if err := img.read(piece, at); err != nil {
				return fmt.Errorf("copy into a squashfs image: %w", err)
			}
			if _, err := w.WriteAt(piece, at); err != nil {
				return fmt.Errorf("write a squashfs image: %w", err)
			}
			return nil
		})
	}
	return g.Wait()
}

// read puts a piece of the image together.
func (img *Image) read(b []byte, at int64) error {
	first := sort.Search(len(img.extents), func(i int) bool {
		e := img.extents[i]
		return e.dst+e.end-e.src > at
	})
	for _, e := range img.extents[first:] {
		if len(b) == 0 {
			break
		}
		src := e.src + at - e.dst
		part := b[:min(int64(len(b)), e.end-src)]
		if err := readFull(e.from, part, src); err != nil {
			return err
		}
		b, at = b[len(part):], at+int64(len(part))
	}
	if len(b) > 0 {
		return fmt.Errorf("internal error: nothing is at byte %d", at)
	}
	return nil
}
