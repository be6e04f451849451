package pieces

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"
)

// Finder finds the pieces of an index by their hashes. Besides the index it takes at most 20 bytes of memory for each
// piece.
type Finder struct {
	index   Index
	offsets []int64
	// order are the numbers of the pieces, sorted by their hashes; of those with one hash, in their order.
	order []uint32
	// starts say where in order the hashes with so many first bits begin, of all values of these bits, and its end.
	starts []uint32
	shift  int
}

// manyInOne is a number of hashes with the same first bits that chance does not make.
const manyInOne = 32

// NewFinder makes the finder of an index. Hashes are spread evenly, so that their first bits nearly sort them.
func NewFinder(x Index) *Finder {
	width := bits.Len(uint(len(x)))
	f := &Finder{
		index: x, offsets: make([]int64, len(x)), order: make([]uint32, len(x)),
		starts: make([]uint32, 1<<width+1), shift: 32 - width,
	}
	at := int64(0)
	for i, p := range x {
		f.offsets[i] = at
		at += p.Size
		f.starts[f.first(p.Sum)+1]++
	}
	for i := range len(f.starts) - 1 {
		f.starts[i+1] += f.starts[i]
	}
	for i, p := range x {
		bucket := f.first(p.Sum)
		f.order[f.starts[bucket]] = uint32(i)
		f.starts[bucket]++
	}
	// Each has gone on to where the next one begins.
	copy(f.starts[1:], f.starts)
	f.starts[0] = 0
	for i := range len(f.starts) - 1 {
		f.sort(f.order[f.starts[i]:f.starts[i+1]])
	}
	return f
}

// first are the first bits of a hash.
func (f *Finder) first(sum Sum) uint32 {
	return uint32(uint64(binary.BigEndian.Uint32(sum[:])) >> f.shift)
}

// sort sorts the numbers of pieces, which are in their order, by their hashes, and keeps the order of those with one
// hash.
func (f *Finder) sort(list []uint32) {
	if len(list) > manyInOne {
		slices.SortStableFunc(list, f.compare)
		return
	}
	for i := range list {
		for ; i > 0 && f.compare(list[i-1], list[i]) > 0; i-- {
			list[i-1], list[i] = list[i], list[i-1]
		}
	}
}

func (f *Finder) compare(a, b uint32) int { return bytes.Compare(f.index[a].Sum[:], f.index[b].Sum[:]) }

// Offset is where a piece begins in the file, by its number.
func (f *Finder) Offset(piece int) int64 { return f.offsets[piece] }

// Find returns the numbers of all pieces with a hash, in their order; none when there is no such piece.
func (f *Finder) Find(sum Sum) []uint32 {
	bucket := f.first(sum)
	list := f.order[f.starts[bucket]:f.starts[bucket+1]]
	at := func(i int) []byte { return f.index[list[i]].Sum[:] }
	from := sort.Search(len(list), func(i int) bool { return bytes.Compare(at(i), sum[:]) >= 0 })
	to := from
	for to < len(list) && bytes.Equal(at(to), sum[:]) {
		to++
	}
	return list[from:to]
}
