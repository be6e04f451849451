package powercut

import (
	"fmt"
	"io"
	"math/rand/v2"
)

// pieceSize is what the disk writes whole, in bytes: the physical sector of today's disks, and a page of the kernel.
const pieceSize = 4096

// Cut is a power cut: what of the log has reached the medium.
type Cut struct {
	// Write is the number of the last write that was sent to the disk, from 1; Seed chose among the unflushed ones.
	Write int
	Seed  uint64
	// Flushed is the number of writes up to the last flush; all of them are there.
	Flushed int
	// Kept and Dropped count pieces of the writes after it.
	Kept, Dropped int

	whole  int // entries that are replayed whole
	pieces []piece
}

// piece is a part of an entry that was kept.
type piece struct {
	entry          int
	offset, length int64 // within the entry
}

// String says what happened, in one line.
func (c Cut) String() string {
	return fmt.Sprintf("cut at write %d (seed %d): %d writes flushed, of %d later ones %d pieces kept and %d lost",
		c.Write, c.Seed, c.Flushed, c.Write-c.Flushed, c.Kept, c.Dropped)
}

// Cut cuts the power right after the nth write was sent to the disk, n from 1 to Writes. The same seed gives the same cut.
func (l *Log) Cut(n int, seed uint64) (Cut, error) {
	if n < 1 || n > l.Writes() {
		return Cut{}, fmt.Errorf("cut at write %d: there are %d", n, l.Writes())
	}
	end := 0
	for seen := 0; seen < n; end++ {
		if l.Entries[end].writes() {
			seen++
		}
	}
	return l.cut(end, seed), nil
}

// CutAtEnd cuts the power when the machine was turned off. A flush after the last write counts, unlike with Cut: whoever was
// told that it is done may rely on it. (QEMU counts its log's entries at each flush and every 4096 of them, so most of what came
// after the last flush is not in the log: that is lost.)
func (l *Log) CutAtEnd(seed uint64) Cut { return l.cut(len(l.Entries), seed) }

// cut cuts the power after the first end entries.
func (l *Log) cut(end int, seed uint64) Cut {
	c := Cut{Seed: seed}
	for i, e := range l.Entries[:end] {
		if e.Flush { // a write with this flag flushes what was before it, not itself
			c.whole, c.Flushed = i, c.Write
		}
		if e.writes() {
			c.Write++
		}
	}
	rng := rand.New(rand.NewPCG(seed, uint64(c.Write)))
	// Between a cache that had nothing written and one that had nearly everything.
	keep := rng.Float64()
	for i := c.whole; i < end; i++ {
		e := l.Entries[i]
		if e.Discard {
			continue
		}
		for pos := int64(0); pos < e.Length; {
			length := min(pieceSize-(e.Offset+pos)%pieceSize, e.Length-pos)
			// The last entry was sent, not done: FUA promises nothing for it.
			if (e.FUA && i != end-1) || rng.Float64() < keep {
				c.pieces = append(c.pieces, piece{i, pos, length})
				c.Kept++
			} else {
				c.Dropped++
			}
			pos += length
		}
	}
	return c
}

// Replay puts what the cut left onto dst, which holds what was on the disk before the first entry.
func (l *Log) Replay(dst io.WriterAt, c Cut) error {
	for i, e := range l.Entries[:c.whole] {
		if err := l.apply(dst, i, 0, e.Length); err != nil {
			return err
		}
	}
	for _, p := range c.pieces {
		if err := l.apply(dst, p.entry, p.offset, p.length); err != nil {
			return err
		}
	}
	return nil
}

// apply writes a part of an entry. A discard changes nothing: that is what QEMU's disks do unless told otherwise, and what
// any disk may do.
func (l *Log) apply(dst io.WriterAt, i int, offset, length int64) error {
	e := l.Entries[i]
	if length == 0 || e.Discard {
		return nil
	}
	n, err := io.Copy(io.NewOffsetWriter(dst, e.Offset+offset), io.NewSectionReader(l.r, e.data+offset, length))
	if err == nil && n != length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("replay entry %d of the write log: %w", i, err)
	}
	return nil
}
