package share

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"spore/agent/format/verity"
	"spore/storage/pieces"
)

// Root is the root that runs, as a source. It is read from its partition and not through the kernel's check, which
// stops the machine at a block that does not match: here that is a piece that the node does not have.
type Root struct {
	// Data and Tree are the partitions of the root and of its hash tree, behind which the index of its pieces stands.
	Data, Tree io.ReadSeeker
	ready      sync.Once
	data       io.ReaderAt
	index      pieces.Index
	find       *pieces.Finder
	problem    error
}

// Get implements Source. A root without an index has nothing.
func (r *Root) Get(sum pieces.Sum) ([]byte, error) {
	r.ready.Do(func() { r.problem = r.read() })
	if r.problem != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, r.problem)
	}
	for _, n := range r.find.Find(sum) {
		p := r.index[n]
		b := make([]byte, p.Size)
		if got, _ := r.data.ReadAt(b, r.find.Offset(int(n))); got == len(b) && p.Same(b) {
			return b, nil
		}
	}
	return nil, fs.ErrNotExist
}

// read reads the index.
func (r *Root) read() error {
	if r.Data == nil || r.Tree == nil {
		return errors.New("the partitions of the root are not there")
	}
	data, ok := r.Data.(io.ReaderAt)
	tree, too := r.Tree.(io.ReaderAt)
	if !ok || !too {
		return errors.New("internal error: a partition that is read in order alone")
	}
	dataSize, err := r.Data.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	treeSize, err := r.Tree.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	v, err := verity.Separate(tree, treeSize, dataSize)
	if err != nil {
		return err
	}
	if r.index, err = pieces.ReadAt(tree, (v.HashBlock+1+v.TreeBlocks())*verity.BlockSize); err != nil {
		return err
	}
	r.data, r.find = data, pieces.NewFinder(r.index)
	return nil
}
