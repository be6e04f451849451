package size

import (
	"slices"

	"spore/builder/unsquash"
)

// end is a piece of a fragment block, decompressed.
type end struct {
	fragment     int
	offset, size int64
}

// ends divides fragment blocks between the files that end in them.
type ends struct {
	share map[end]int64
	taken map[end]bool
}

func endOf(e *unsquash.Entry, blockSize uint32) (end, bool) {
	size := e.Size % int64(blockSize)
	return end{e.Fragment, e.FragmentOffset, size}, e.Fragment >= 0 && size > 0
}

func newEnds(img *unsquash.Image) *ends {
	out := &ends{share: map[end]int64{}, taken: map[end]bool{}}
	inFragment := make([][]end, len(img.Fragments))
	for i := range img.Entries {
		p, ok := endOf(&img.Entries[i], img.Super.BlockSize)
		if _, known := out.share[p]; ok && !known {
			out.share[p] = 0
			inFragment[p.fragment] = append(inFragment[p.fragment], p)
		}
	}
	for n, list := range inFragment {
		slices.SortFunc(list, func(a, b end) int { return int(a.offset - b.offset) })
		out.divide(img.Fragments[n].Size, list)
	}
	return out
}

// divide gives each piece its part of a block's stored bytes, by its length. What rounding takes from one, the next gets.
func (e *ends) divide(stored int64, pieces []end) {
	var total, seen, given int64
	for _, p := range pieces {
		total += p.size
	}
	for _, p := range pieces {
		seen += p.size
		upTo := stored * seen / total
		e.share[p] = upTo - given
		given = upTo
	}
}

// take returns the share of a file's end, and whether it is the first that has it.
func (e *ends) take(entry *unsquash.Entry, blockSize uint32) (share int64, first bool) {
	p, ok := endOf(entry, blockSize)
	if !ok {
		return 0, true
	}
	first = !e.taken[p]
	e.taken[p] = true
	return e.share[p], first
}
