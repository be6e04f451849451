package repart

import (
	"sort"

	"spore/storage/gpt"
)

// Gap is free space, in bytes.
type Gap struct{ Start, End int64 }

// reserve is what is kept free at both ends of a disk for the partition table.
const reserve = 1 << 20

// Gaps lists the free spaces between the partitions, aligned to 1 MiB.
func Gaps(t gpt.Table, size int64) []Gap {
	parts := append([]gpt.Partition{}, t.Partitions...)
	sort.Slice(parts, func(i, j int) bool { return parts[i].Start < parts[j].Start })
	var out []Gap
	pos := int64(reserve)
	add := func(end int64) {
		start, end := (pos+reserve-1)/reserve*reserve, end/reserve*reserve
		if end > start {
			out = append(out, Gap{start, end})
		}
	}
	for _, p := range parts {
		add(p.Start)
		pos = max(pos, p.Start+p.Size)
	}
	add(size - reserve)
	return out
}

// Largest is the size of the largest gap.
func Largest(free []Gap) int64 {
	var n int64
	for _, g := range free {
		n = max(n, g.End-g.Start)
	}
	return n
}

// Grows tells whether there is free space worth having right behind the partition.
func Grows(t gpt.Table, want gpt.GUID, size int64) bool {
	p, ok := t.ByGUID(want)
	if !ok {
		return false
	}
	for _, g := range Gaps(t, size) {
		if g.Start-(p.Start+p.Size) < reserve && g.Start >= p.Start+p.Size && g.End-g.Start >= 8<<20 {
			return true
		}
	}
	return false
}
