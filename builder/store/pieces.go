package store

import (
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"
)

// pieces sums an object as it is written, in whichever order its pieces come.
type pieces struct {
	w io.WriterAt

	mu   sync.Mutex
	sums []piece
}

type piece struct {
	at int64
	sum
}

// WriteAt implements io.WriterAt.
func (p *pieces) WriteAt(b []byte, off int64) (int, error) {
	n, err := p.w.WriteAt(b, off)
	if err != nil {
		return n, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sums = append(p.sums, piece{off, sumOf(b)})
	return n, nil
}

// sum returns the sum of the whole object. A byte that was not written, or twice, is an error.
func (p *pieces) sum(size int64) (all sum, err error) {
	slices.SortFunc(p.sums, func(a, b piece) int { return int(min(1, max(-1, a.at-b.at))) })
	for _, piece := range p.sums {
		if piece.at != all.size || all.size == size {
			return sum{}, fmt.Errorf("internal error: bytes %d to %d of %d were written, and %d before", piece.at, piece.at+piece.size, size, all.size)
		}
		all = sum{all.size + piece.size, joined(all.crc, piece.crc, piece.size)}
	}
	if all.size != size {
		return sum{}, fmt.Errorf("internal error: %d of %d bytes were written", all.size, size)
	}
	return all, nil
}

// joined returns the CRC of two pieces, one behind the other, from that of each. A CRC is a polynomial modulo that of
// Castagnoli, and to stand before n bytes is to be multiplied by x to the power of 8n.
func joined(before, behind uint32, n int64) uint32 {
	shifted, square := before, uint32(1)<<(31-8) // x^8; bit 31 is the coefficient of x^0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			shifted = times(shifted, square)
		}
		square = times(square, square)
	}
	return shifted ^ behind
}

// times multiplies two polynomials modulo that of Castagnoli.
func times(a, b uint32) (product uint32) {
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
	return product
}
