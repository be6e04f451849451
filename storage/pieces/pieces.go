// Package pieces is the index of what is copied in pieces: the size and the SHA-256 of each piece of a file, in their
// order. Of a new root, a node copies the pieces that the root which runs has as well, and asks for the others by their
// hashes.
//
// An index is binary:
//
//	"SPOREPX1"  8 bytes
//	count       4 bytes, big-endian
//	sizes       4 bytes each, big-endian
//	hashes      32 bytes each
//
// The pieces follow each other without a gap from the first byte of the file. An index is not trusted for being there:
// who takes a piece from outside compares its hash, and the whole has a hash of its own. Whatever makes pieces decides
// where they end.
package pieces

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Bounds.
const (
	// MaxPiece is the largest piece in bytes.
	MaxPiece = 1 << 20
	// MaxCount is the largest number of pieces of an index. With pieces of 4 KiB it is a root of 1 GiB.
	MaxCount = 1 << 18
	// MaxSize bounds an encoded index, in bytes.
	MaxSize = head + MaxCount*(4+sha256.Size)

	head  = 12
	magic = "SPOREPX1"
)

// ErrForm is an index that is none.
var ErrForm = errors.New("the index of pieces is malformed")

// Sum is the SHA-256 of a piece.
type Sum [sha256.Size]byte

// String is lower-case hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// ParseSum reads what String writes.
func ParseSum(text string) (s Sum, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(s) || hex.EncodeToString(b) != text {
		return s, fmt.Errorf("%.80q is not a SHA-256 in lower-case hexadecimal", text)
	}
	return Sum(b), nil
}

// Piece is one part of a file.
type Piece struct {
	// Size is in bytes, from 1 to MaxPiece.
	Size int64
	Sum  Sum
}

// Index lists all pieces of a file.
type Index []Piece

// Size is the length of the file in bytes.
func (x Index) Size() int64 {
	var n int64
	for _, p := range x {
		n += p.Size
	}
	return n
}

// Encode returns the index as it is kept and sent.
func (x Index) Encode() ([]byte, error) {
	if len(x) > MaxCount {
		return nil, fmt.Errorf("an index of %d pieces, and %d is the most", len(x), MaxCount)
	}
	out := append(make([]byte, 0, head+len(x)*(4+sha256.Size)), magic...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(x)))
	for _, p := range x {
		if p.Size < 1 || p.Size > MaxPiece {
			return nil, fmt.Errorf("a piece of %d bytes, and %d is the most", p.Size, MaxPiece)
		}
		out = binary.BigEndian.AppendUint32(out, uint32(p.Size))
	}
	for _, p := range x {
		out = append(out, p.Sum[:]...)
	}
	return out, nil
}

// Parse reads all of an encoded index.
func Parse(b []byte) (Index, error) {
	x, rest, err := parse(b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes are left over", ErrForm, len(rest))
	}
	return x, err
}

func parse(b []byte) (x Index, rest []byte, err error) {
	if len(b) < head || string(b[:8]) != magic {
		return nil, nil, fmt.Errorf("%w: it does not begin with %s", ErrForm, magic)
	}
	n := int(binary.BigEndian.Uint32(b[8:]))
	b = b[head:]
	if n > MaxCount || n*(4+sha256.Size) > len(b) {
		return nil, nil, fmt.Errorf("%w: it has %d bytes for %d pieces", ErrForm, len(b), n)
	}
	x = make(Index, n)
	for i := range x {
		x[i].Size = int64(binary.BigEndian.Uint32(b[4*i:]))
		if x[i].Size < 1 || x[i].Size > MaxPiece {
			return nil, nil, fmt.Errorf("%w: a piece of %d bytes", ErrForm, x[i].Size)
		}
	}
	b = b[4*n:]
	for i := range x {
		copy(x[i].Sum[:], b[sha256.Size*i:])
	}
	return x, b[sha256.Size*n:], nil
}

// ReadAt reads an index that begins at an offset of r, and which may have something behind it.
func ReadAt(r io.ReaderAt, at int64) (Index, error) {
	h := make([]byte, head)
	if n, err := r.ReadAt(h, at); n < head {
		return nil, fmt.Errorf("read an index of pieces: %w", notEOF(err))
	}
	n := int64(binary.BigEndian.Uint32(h[8:]))
	if string(h[:8]) != magic || n > MaxCount {
		return nil, fmt.Errorf("%w: it does not begin with %s and a number", ErrForm, magic)
	}
	b := make([]byte, head+n*(4+sha256.Size))
	if got, err := r.ReadAt(b, at); got < len(b) {
		return nil, fmt.Errorf("read an index of pieces: %w", notEOF(err))
	}
	return Parse(b)
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Cut makes the index of size bytes of r: a piece ends at each of the offsets, which rise, and a longer one after every
// limit bytes.
func Cut(r io.ReaderAt, size int64, at []int64, limit int64) (Index, error) {
	var x Index
	if err := cut(r, size, at, limit, x.add); err != nil {
		return nil, err
	}
	return x, nil
}

// add adds a piece with this content.
func (x *Index) add(content []byte) error {
	if len(*x) == MaxCount {
		return fmt.Errorf("more than %d pieces", MaxCount)
	}
	*x = append(*x, Piece{int64(len(content)), sha256.Sum256(content)})
	return nil
}

// cut reads the pieces of Cut one after the other.
func cut(r io.ReaderAt, size int64, at []int64, limit int64, each func(content []byte) error) error {
	if limit < 1 || limit > MaxPiece {
		return fmt.Errorf("internal error: pieces of %d bytes", limit)
	}
	buf := make([]byte, limit)
	for from := int64(0); from < size; {
		for len(at) > 0 && at[0] <= from {
			at = at[1:]
		}
		to := min(size, from+limit)
		if len(at) > 0 {
			to = min(to, at[0])
		}
		b := buf[:to-from]
		if n, err := r.ReadAt(b, from); n < len(b) {
			return fmt.Errorf("read %d bytes at %d: %w", len(b), from, notEOF(err))
		}
		if err := each(b); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// Same tells whether content is the piece.
func (p Piece) Same(content []byte) bool {
	sum := sha256.Sum256(content)
	return int64(len(content)) == p.Size && bytes.Equal(sum[:], p.Sum[:])
}

// SumOf is the hash of a piece with this content.
func SumOf(content []byte) Sum { return sha256.Sum256(content) }
