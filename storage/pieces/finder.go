package pieces

import (
	"bytes"
	"slices"
	"sort"
)

// Finder finds the pieces of an index by their hashes. Besides the index it takes 12 bytes of memory for each piece.
type Finder struct {
	index   Index
	offsets []int64
	// order are the numbers of the pieces, sorted by their hashes; of those with one hash, in their order.
	order []uint32
}

// NewFinder makes the finder of an index.
func NewFinder(x Index) *Finder {
	f := &Finder{index: x, offsets: make([]int64, len(x)), order: make([]uint32, len(x))}
	at := int64(0)
	for i, p := range x {
		f.offsets[i], f.order[i] = at, uint32(i)
		at += p.Size
	}
	slices.SortFunc(f.order, func(a, b uint32) int {
		if c := bytes.Compare(x[a].Sum[:], x[b].Sum[:]); c != 0 {
			return c
		}
		return int(a) - int(b)
	})
	return f
}

// Offset is where a piece begins in the file, by its number.
func (f *Finder) Offset(piece int) int64 { return f.offsets[piece] }

// Find returns the numbers of all pieces with a hash, in their order; none when there is no such piece.
func (f *Finder) Find(sum Sum) []uint32 {
	at := func(i int) []byte { return f.index[f.order[i]].Sum[:] }
	from := sort.Search(len(f.order), func(i int) bool { return bytes.Compare(at(i), sum[:]) >= 0 })
	to := from
	for to < len(f.order) && bytes.Equal(at(to), sum[:]) {
		to++
	}
	return f.order[from:to]
}
