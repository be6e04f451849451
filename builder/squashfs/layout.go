package squashfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"

	"golang.org/x/sync/errgroup"

	"spore/builder/tree"
)

// copyChunk is how many bytes are copied at once.
const copyChunk = 4 << 20

// placement is where the data of a file is in the image.
type placement struct {
	file  *file
	start uint64
	frag  uint32 // invalidFragment where the file has blocks, or nothing
}

// extent is a part of a pack that goes into the image.
type extent struct {
	pack     *Pack
	src, end int64 // in the pack
	dst      int64 // in the image
}

// layout is the data area of an image.
type layout struct {
	extents []extent
	frags   []fragment // with their place in the image
	order   []*file    // whose data is in the image, each once
	end     int64      // of the data
	copied  int64      // bytes from packs
	fresh   int64      // bytes compressed now
}

// place decides what is copied and to where, and sets placed of each regular file. Packs come in the order in which the
// tree names them, each in its own order, with what nobody wants left out; fresh comes last. Files with the same data
// share it.
func place(nodes []*node, fresh *Pack, blockSize uint32, at int64) (*layout, error) {
	packs := packOrder(nodes, fresh)
	users := map[*Pack][]*node{}
	for _, n := range nodes {
		if n.inode.Type != tree.Regular {
			continue
		}
		if n.content.pack.blockSize != blockSize {
			return nil, fmt.Errorf("%s: its pack has blocks of %d bytes and the image of %d: make the pack again", n.path, n.content.pack.blockSize, blockSize)
		}
		users[n.content.pack] = append(users[n.content.pack], n)
	}
	l := &layout{end: at}
	known := map[[sha256.Size]byte]*placement{}
	for _, p := range packs {
		if err := l.placePack(p, users[p], known); err != nil {
			return nil, err
		}
		if p == fresh {
			l.fresh = l.end - at - l.copied
		} else {
			l.copied = l.end - at
		}
	}
	if len(l.frags) > math.MaxInt32 || l.end > math.MaxInt64/2 {
		return nil, errors.New("too much data")
	}
	return l, nil
}

func packOrder(nodes []*node, fresh *Pack) []*Pack {
	var packs []*Pack
	seen := map[*Pack]bool{fresh: true}
	for _, n := range nodes {
		if n.content != nil && !seen[n.content.pack] {
			seen[n.content.pack] = true
			packs = append(packs, n.content.pack)
		}
	}
	return append(packs, fresh)
}

func (l *layout) placePack(p *Pack, users []*node, known map[[sha256.Size]byte]*placement) error {
	var parts []extent
	frags := map[int]uint32{} // of the pack to those of the image
	var mine []*placement
	for _, n := range users {
		f := n.content.file
		if same := known[f.sum]; same != nil {
			if same.file.size != f.size {
				return fmt.Errorf("%s: its pack is damaged: one hash and two sizes", n.path)
			}
			n.placed = same
			continue
		}
		pl := &placement{file: f, frag: invalidFragment}
		n.placed, known[f.sum] = pl, pl
		mine = append(mine, pl)
		l.order = append(l.order, f)
		if f.frag >= 0 {
			frags[f.frag] = 0
		} else if size := f.stored(); size > 0 {
			parts = append(parts, extent{pack: p, src: f.start, end: f.start + size})
		}
	}
	ids := make([]int, 0, len(frags))
	for id := range frags {
		ids = append(ids, id)
		f := p.frags[id]
		parts = append(parts, extent{pack: p, src: f.start, end: f.start + int64(blockBytes(f.size))})
	}
	sort.Ints(ids)
	merged := l.merge(parts)
	for _, id := range ids {
		frags[id] = uint32(len(l.frags))
		l.frags = append(l.frags, fragment{start: find(merged, p.frags[id].start), size: p.frags[id].size})
	}
	for _, pl := range mine {
		if pl.file.frag >= 0 {
			pl.frag = frags[pl.file.frag]
		} else if pl.file.stored() > 0 {
			pl.start = uint64(find(merged, pl.file.start))
		}
	}
	l.extents = append(l.extents, merged...)
	return nil
}

// merge sorts parts of one pack, joins those that touch, and gives each its place at the end of the image.
func (l *layout) merge(parts []extent) []extent {
	sort.Slice(parts, func(i, j int) bool {
		if parts[i].src != parts[j].src {
			return parts[i].src < parts[j].src
		}
		return parts[i].end < parts[j].end
	})
	var out []extent
	for _, e := range parts {
		if n := len(out); n > 0 && e.src <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, e.end)
			continue
		}
		out = append(out, e)
	}
	for i := range out {
		out[i].dst = l.end
		l.end += out[i].end - out[i].src
	}
	return out
}

// find returns where in the image a byte of a pack is.
func find(extents []extent, src int64) int64 {
	i := sort.Search(len(extents), func(i int) bool { return extents[i].end > src })
	return extents[i].dst + src - extents[i].src
}

// copyData copies all extents.
func (l *layout) copyData(w io.WriterAt, concurrency int) error {
	var g errgroup.Group
	buffers := make(chan []byte, concurrency)
	for range concurrency {
		buffers <- make([]byte, min(copyChunk, l.end))
	}
	for _, e := range l.extents {
		for e.src < e.end {
			chunk := e
			chunk.end = min(e.end, e.src+copyChunk)
			buf := <-buffers
			g.Go(func() error {
				defer func() { buffers <- buf }()
				return chunk.copy(w, buf)
			})
			e.dst += chunk.end - chunk.src
			e.src = chunk.end
		}
	}
	return g.Wait()
}

func (e extent) copy(w io.WriterAt, buf []byte) error {
	buf = buf[:e.end-e.src]
	if err := readFull(e.pack.r, buf, e.src); err != nil {
		return fmt.Errorf("copy from a pack: %w", err)
	}
	if _, err := w.WriteAt(buf, e.dst); err != nil {
		return fmt.Errorf("copy from a pack: %w", err)
	}
	return nil
}
