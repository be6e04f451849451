package packages

import (
	"fmt"
	"slices"
)

// batchSize is how many packages of the list share a reference: few enough that a difference is found among them, many
// enough that mmdebstrap, which takes most of a minute for the base alone, runs a dozen times and not 200.
const batchSize = 16

// Batch are packages that live beside each other.
type Batch struct {
	Packages []string
	// Instead are packages of every image that they take the place of.
	Instead []string
}

// add is the batch with one more.
func (b Batch) add(e Entry) Batch {
	instead := append(slices.Clone(b.Instead), e.Instead...)
	slices.Sort(instead)
	return Batch{Packages: append(slices.Clone(b.Packages), e.Name), Instead: slices.Compact(instead)}
}

// Batches puts each package into the first batch that has room and that it fits into; fits says why one does not.
func Batches(entries []Entry, fits func(Batch) error) ([]Batch, error) {
	var out []Batch
next:
	for _, e := range entries {
		for i, b := range out {
			if wider := b.add(e); len(b.Packages) < batchSize && fits(wider) == nil {
				out[i] = wider
				continue next
			}
		}
		alone := Batch{}.add(e)
		if err := fits(alone); err != nil {
			return nil, fmt.Errorf("package %s: %w", e.Name, err)
		}
		out = append(out, alone)
	}
	return out, nil
}
