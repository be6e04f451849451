package squashfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"

	"spore/builder/tree"
	"spore/storage/pieces"
)

// placement is where the data of a file is in the image.
type placement struct {
	pack  *Pack
	file  *file
	done  bool
	start uint64
	frag  uint32 // invalidFragment where the file has blocks, or nothing
	off   uint32 // in the fragment
}

// extent is a part of a pack, or of what is made now, that goes into the image.
type extent struct {
	from     io.ReaderAt
	src, end int64 // in what it is from
	dst      int64 // in the image
}

// packFragment names a compressed fragment block of a pack.
type packFragment struct {
	pack *Pack
	id   int
}

// layout is the data area of an image.
type layout struct {
	extents []extent
	last    *Pack      // that the last extent is from
	frags   []fragment // with their place in the image
	pieces  pieces.Index
	order   []*file // whose data is in the image, each once
	end     int64   // of the data
	fresh   *Pack
	copied  int64 // bytes from packs
	written int64 // bytes compressed now
	shared  int64 // bytes of files whose data another file has already, before compression

	blockSize  uint32
	compressed map[packFragment]uint32 // those of packs to those of the image
	open       *fragment               // of files that are stored as they are, in frags once it is closed; nil is none
}

// place decides what is copied and to where, and sets placed of each regular file. The files of first come first, in
// that order; what has no data, or shares a block that is there already, takes no place. All others come by pack, in
// the order in which the tree names those, each in its own order, with what nobody wants left out; fresh comes last.
// Files with the same data share it.
func place(nodes []*node, first []string, fresh *Pack, blockSize uint32, at int64) (*layout, error) {
	packs := packOrder(nodes, fresh)
	users := map[*Pack][]*node{}
	byPath := map[string]*node{}
	for _, n := range nodes {
		if n.inode.Type != tree.Regular {
			continue
		}
		if n.content.pack.blockSize != blockSize {
			return nil, fmt.Errorf("%s: its pack has blocks of %d bytes and the image of %d: make the pack again", n.path, n.content.pack.blockSize, blockSize)
		}
		users[n.content.pack] = append(users[n.content.pack], n)
		byPath[n.path] = n
	}
	l := &layout{end: at, fresh: fresh, blockSize: blockSize, compressed: map[packFragment]uint32{}}
	known := map[[sha256.Size]byte]*placement{}
	var all []*placement
	for _, p := range packs {
		mine, err := l.share(p, users[p], known)
		if err != nil {
			return nil, err
		}
		all = append(all, mine...)
	}
	for _, name := range first {
		if n := byPath[name]; n != nil {
			l.put(n.placed)
		}
	}
	for _, pl := range all {
		l.put(pl)
	}
	l.close()
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

// share finds what is to be placed of a pack, in the order of the pack, and gives each of its files a placement: its
// own, or that of a file with the same data.
func (l *layout) share(p *Pack, users []*node, known map[[sha256.Size]byte]*placement) ([]*placement, error) {
	var mine []*placement
	for _, n := range users {
		f := n.content.file
		same := known[f.sum]
		if same == nil {
			same = &placement{pack: p, file: f, frag: invalidFragment}
			known[f.sum] = same
			mine = append(mine, same)
			l.order = append(l.order, f)
		} else if same.file.size != f.size {
			return nil, fmt.Errorf("%s: its pack is damaged: one hash and two sizes", n.path)
		} else {
			l.shared += f.size
		}
		n.placed = same
	}
	sort.SliceStable(mine, func(i, j int) bool { return mine[i].before(mine[j]) })
	return mine, nil
}

// before orders the files of a pack by where their data is; those that repack takes come last, as they would only make
// each other's fragments shorter between others.
func (pl *placement) before(other *placement) bool {
	if a, b := pl.repacked(), other.repacked(); a != b {
		return b
	}
	a, aoff := pl.source()
	b, boff := other.source()
	return a < b || a == b && aoff < boff
}

// source is where the data begins in the pack: the block and the byte in it.
func (pl *placement) source() (int64, uint32) {
	if pl.file.frag >= 0 {
		return pl.pack.frags[pl.file.frag].start, pl.file.fragOff
	}
	return pl.file.start, 0
}

// repacked tells whether the file is in a fragment that is stored as it is.
func (pl *placement) repacked() bool {
	return pl.file.frag >= 0 && pl.pack.frags[pl.file.frag].size&storedBlock != 0
}

// put gives the data of a file its place at the end of what is there, unless it has one.
func (l *layout) put(pl *placement) {
	if pl.done {
		return
	}
	pl.done = true
	f := pl.file
	switch {
	case pl.repacked():
		l.repack(pl)
	case f.frag >= 0:
		key := packFragment{pl.pack, f.frag}
		id, ok := l.compressed[key]
		if !ok {
			l.close()
			of := pl.pack.frags[f.frag]
			id = uint32(len(l.frags))
			l.compressed[key] = id
			piece := pieces.Piece{Size: int64(blockBytes(of.size)), Sum: of.sum}
			l.frags = append(l.frags, fragment{start: l.copy(pl.pack, of.start, piece), size: of.size})
		}
		pl.frag, pl.off = id, f.fragOff
	case f.stored() > 0:
		l.close()
		pl.start = uint64(l.copy(pl.pack, f.start, f.pieces...))
	}
}

// repack puts a small file that is stored as it is into a fragment of the image's own: as such data needs no
// compressor, what the tree has of a pack's fragment takes no more than its own bytes. It is a piece, too, whose hash
// is that of the file.
func (l *layout) repack(pl *placement) {
	if l.open != nil && int64(l.open.size)+pl.file.size > int64(l.blockSize) {
		l.close()
	}
	if l.open == nil {
		l.open = &fragment{start: l.end}
	}
	pl.frag, pl.off = uint32(len(l.frags)), l.open.size
	block, off := pl.source()
	l.copy(pl.pack, block+int64(off), pieces.Piece{Size: pl.file.size, Sum: pl.file.sum})
	l.open.size += uint32(pl.file.size)
}

// close ends the open fragment.
func (l *layout) close() {
	if l.open != nil {
		l.frags = append(l.frags, fragment{start: l.open.start, size: l.open.size | storedBlock})
		l.open = nil
	}
}

// copy adds pieces of a pack at the end of the image, and returns where they are.
func (l *layout) copy(p *Pack, src int64, of ...pieces.Piece) (at int64) {
	at = l.end
	size := pieces.Index(of).Size()
	l.pieces = append(l.pieces, of...)
	l.end += size
	if p == l.fresh {
		l.written += size
	} else {
		l.copied += size
	}
	if n := len(l.extents); n > 0 && l.last == p && l.extents[n-1].end == src {
		l.extents[n-1].end += size
	} else {
		l.extents = append(l.extents, extent{from: p.r, src: src, end: src + size, dst: at})
	}
	l.last = p
	return at
}
