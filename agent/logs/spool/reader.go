package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Reader reads the lines for one consumer. Its methods are called by one at a time.
type Reader struct {
	s       *Spool
	c       *consumer
	at      Position
	decoder *zstd.Decoder
	// open is the segment that is read, number that of open.
	open   *os.File
	view   segment
	number uint64
}

// Batch is some lines, one after the other; each ends with "\n".
type Batch struct {
	Lines []byte
	// Count is how many lines there are, Since when the first of them was written to the spool.
	Count int
	Since time.Time
	// To is where the next batch begins.
	To Position
}

// Reader begins to read for a consumer where it was done. Only one may read for it at a time.
func (s *Spool) Reader(name string) (*Reader, error) {
	decoder, err := newDecoder()
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.consumers[name]
	if c == nil || c.reading {
		return nil, fmt.Errorf("internal error: the queue has no consumer %q, or it is read for already", name)
	}
	c.reading = true
	return &Reader{s: s, c: c, at: c.done, decoder: decoder}, nil
}

// Close lets another one read for the consumer.
func (r *Reader) Close() error {
	r.decoder.Close()
	r.s.mu.Lock()
	r.c.reading = false
	r.s.mu.Unlock()
	if r.open == nil {
		return nil
	}
	return r.open.Close()
}

// Rewind has Next begin again with what is not done.
func (r *Reader) Rewind() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.at = r.c.done
}

// Next waits for lines, and returns some: what is there, at most MaxLines bytes. What cannot be read is left out,
// said and counted. An error is the context's, ErrClosed, or one that may pass; then it is called again a while later.
func (r *Reader) Next(ctx context.Context) (Batch, error) {
	for {
		b, changed, err := r.some()
		if err != nil || b.Count > 0 {
			return b, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		case <-r.s.stop:
			return Batch{}, ErrClosed
		}
	}
}

// Done says that all as far as the end of a batch is taken.
func (r *Reader) Done(b Batch) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.c.done.before(b.To) {
		r.c.done = b.To
		r.s.trim()
	}
	return nil
}

// some reads what is there. Where that is nothing, changed is closed when there is more.
func (r *Reader) some() (b Batch, changed <-chan struct{}, err error) {
	for {
		g, changed, any := r.segment()
		if !any {
			return b, changed, nil
		}
		if r.at.Segment != g.number {
			if b.Count > 0 {
				return b, nil, nil
			}
			r.at = Position{g.number, headSize}
		}
		r.at.Offset = max(r.at.Offset, headSize)
		if err := r.show(g); err != nil {
			if b.Count > 0 {
				return b, nil, nil
			}
			if !errors.Is(err, errTorn) {
				return b, nil, err
			}
			if r.s.has(g) {
				r.skip(g.size)
			}
			continue
		}
		full := r.frames(g, &b)
		b.To = r.at
		if full {
			return b, nil, nil
		}
	}
}

// segment is the first one that has something to read.
func (r *Reader) segment() (g stored, changed <-chan struct{}, any bool) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.at.before(r.c.done) { // The oldest was dropped.
		r.at = r.c.done
	}
	for _, g := range r.s.segments {
		if r.at.before(Position{g.number, g.size}) {
			return g, nil, true
		}
	}
	return stored{}, r.s.changed, false
}

// has tells whether a segment is still there.
func (s *Spool) has(g stored) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.segments, func(h stored) bool { return h.number == g.number })
}

// show opens a segment, as far as it is on disk.
func (r *Reader) show(g stored) error {
	if r.open == nil || r.number != g.number {
		if r.open != nil {
			_ = r.open.Close()
			r.open = nil
		}
		f, err := os.Open(r.s.path(g.number))
		if errors.Is(err, fs.ErrNotExist) {
			return errTorn // It was dropped just now, or somebody has removed it.
		}
		if err != nil {
			return fmt.Errorf("open a segment: %w", err)
		}
		view, err := openSegment(f, g.size)
		if err != nil {
			_ = f.Close()
			return errTorn
		}
		r.open, r.view, r.number = f, view, g.number
	}
	r.view.end = g.size
	return nil
}

// frames reads frames of the open segment to the end of it, or until the batch is full.
func (r *Reader) frames(g stored, b *Batch) (full bool) {
	for r.at.Offset < g.size {
		f, err := r.view.at(r.at.Offset)
		if err != nil {
			r.skipBroken(g)
			continue
		}
		if f.lines == 0 {
			r.at.Offset += f.size()
			continue
		}
		if b.Count > 0 && len(b.Lines)+int(f.raw) > MaxLines {
			return true
		}
		_, packed, err := r.view.payload(r.at.Offset, f)
		var lines []byte
		if err == nil {
			lines, err = unpack(r.decoder, f, packed)
		}
		if err != nil {
			r.skip(r.at.Offset + f.size())
			continue
		}
		if b.Count == 0 {
			b.Lines, b.Since = lines, f.at
		} else {
			b.Lines = append(b.Lines, lines...)
		}
		b.Count += int(f.lines)
		r.at.Offset += f.size()
	}
	return false
}

// skipBroken goes to the next frame after what is none.
func (r *Reader) skipBroken(g stored) {
	next, err := r.view.next(r.at.Offset)
	if err != nil {
		next = g.size
	}
	r.skip(next)
}

// skip goes on behind what cannot be read.
func (r *Reader) skip(to int64) {
	broken := to - r.at.Offset
	r.at.Offset = to
	r.s.mu.Lock()
	r.s.corrupt += broken
	r.s.mu.Unlock()
	r.s.o.Say(fmt.Sprintf("left out %d bytes for %s that cannot be read of segment %x", broken, r.c.Name, r.at.Segment))
}

// Lag is how much a consumer has before it.
type Lag struct {
	// Bytes are those on disk, as they are packed.
	Bytes int64
	// Behind is how long the oldest line has waited.
	Behind time.Duration
	// Dropped are the lines that it has lost since the start because the spool was full.
	Dropped int64
}

// Lag tells how far a consumer is behind.
func (s *Spool) Lag(name string) Lag {
	s.mu.Lock()
	c := s.consumers[name]
	if c == nil {
		s.mu.Unlock()
		return Lag{}
	}
	l := Lag{Dropped: c.dropped}
	var before []stored
	for _, g := range s.segments {
		end := Position{g.number, g.size}
		if !c.done.before(end) {
			continue
		}
		rest := g.size
		if c.done.Segment == g.number {
			rest -= c.done.Offset
		}
		l.Bytes, before = l.Bytes+rest, append(before, g)
	}
	done := c.done
	s.mu.Unlock()
	for _, g := range before {
		from := int64(headSize)
		if done.Segment == g.number {
			from = max(from, done.Offset)
		}
		found := false
		s.each(g, from, func(_ segment, _ int64, f frame) {
			if !found && f.lines > 0 {
				l.Behind, found = max(0, s.o.Now().Sub(f.at)), true
			}
		})
		if found {
			return l
		}
	}
	l.Bytes = 0 // There are marks alone.
	return l
}

// Usage is what the spool has on disk.
type Usage struct {
	// Bytes are there, of Bound.
	Bytes, Bound int64
	// Corrupt are bytes that could not be read since the start.
	Corrupt int64
}

// Usage tells what there is.
func (s *Spool) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Usage{Bytes: s.total, Bound: s.o.Bound, Corrupt: s.corrupt}
}
