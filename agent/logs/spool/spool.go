// Package spool keeps lines on disk between those who bring them and those who take them on: what Append has taken is
// there after a loss of power, and stays until every consumer is past it.
//
// The lines are in segments, files of bounded size (frame.go says how they look), the oldest of which is removed when
// all consumers are past it. Each consumer has a position on disk. Beside the lines there are marks, which say how far
// each source of lines has come; they are written with the lines, so that both are there or neither.
//
// It does not look into the lines.
package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Why Append takes nothing.
var (
	// ErrFull: the spool has as much as it may have, and a consumer that loses nothing has not taken it.
	ErrFull = errors.New("the queue is full")
	// ErrNoSpace: the disk is full, or as full as it may be.
	ErrNoSpace = errors.New("the disk of the queue is full")
	// ErrClosed: the spool was closed.
	ErrClosed = errors.New("the queue is closed")
	// ErrTooLarge: more lines at once than the spool ever has room for, or a line that is longer than MaxLines.
	ErrTooLarge = errors.New("that is more than the queue takes at once")
)

// MaxAppend is how many bytes of lines one Append takes.
const MaxAppend = 32 << 20

const (
	// usualSegment is how large a segment becomes, in bytes; a spool has room for leastSegments at least.
	usualSegment  = 16 << 20
	leastSegments = 8
	// maxGroup is how many bytes of lines share a sync.
	maxGroup = 8 << 20
	// keepEvery is how often positions are written. What a consumer has done since comes again after a loss of power.
	keepEvery = time.Second
)

// Options are what a spool is given.
type Options struct {
	// Dir is the spool's own folder. It is made where it is missing.
	Dir string
	// Bound is how many bytes the segments have together on disk, as they are packed.
	Bound int64
	// Floor is how many bytes of the disk stay free.
	Floor int64
	// Consumers are all that the lines are kept for. What others have left here is removed.
	Consumers []Consumer
	// Say is told what goes wrong.
	Say func(string)
	// Now is time.Now but in tests.
	Now func() time.Time
	// Segment is how large a segment becomes in bytes; 0 is the usual.
	Segment int64
}

// Spool is an open spool. Its methods may be called at the same time.
type Spool struct {
	o        Options
	requests chan *request
	stop     chan struct{}
	running  sync.WaitGroup
	close    func() error

	// Only the writer has these.
	encoder *zstd.Encoder
	active  target
	salt    uint32
	next    uint64
	// bare tells that nothing was taken into the last segment since it was begun: it has marks alone.
	bare bool
	// aside are the numbers of segments of other formats, the oldest first.
	aside  []uint64
	create func(path string) (target, error)
	free   func(dir string) (int64, error)

	mu        sync.Mutex
	segments  []stored
	consumers map[string]*consumer
	marks     marks
	total     int64
	corrupt   int64
	// changed is closed when there is more to read.
	changed chan struct{}
}

// Open opens the spool of a folder: it cuts off what a loss of power left half, and removes what all have taken.
func Open(o Options) (*Spool, error) {
	if o.Bound <= 0 {
		return nil, errors.New("a spool needs a bound; give one of more than 0 bytes")
	}
	if o.Segment <= 0 {
		o.Segment = min(usualSegment, o.Bound/leastSegments)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	encoder, err := newEncoder()
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	s := &Spool{
		o: o, requests: make(chan *request), stop: make(chan struct{}), encoder: encoder, changed: make(chan struct{}),
		consumers: map[string]*consumer{}, create: createFile, free: freeSpace,
	}
	s.close = sync.OnceValue(s.end)
	for _, dir := range []string{s.segmentsDir(), s.positionsDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of the queue: %w", err)
		}
	}
	if err := s.putAside(); err != nil {
		return nil, fmt.Errorf("open the queue: %w", err)
	}
	if err := s.find(); err != nil {
		return nil, fmt.Errorf("open the queue: %w", err)
	}
	s.recall()
	if err := s.place(); err != nil {
		return nil, fmt.Errorf("open the queue: %w", err)
	}
	if err := s.takeBack(); err != nil {
		return nil, fmt.Errorf("open the queue: %w", err)
	}
	s.mu.Lock()
	s.trim()
	s.mu.Unlock()
	s.running.Go(s.write)
	s.running.Go(s.keep)
	return s, nil
}

// Append writes lines, each of which ends with "\n", and returns when they are on disk for good. With an error nothing
// of them counts: ErrFull, ErrNoSpace, ErrTooLarge, ErrClosed, the context's, or one of the disk.
func (s *Spool) Append(ctx context.Context, lines []byte) error {
	return s.AppendMarked(ctx, lines, nil)
}

// AppendMarked is Append, and has marks known from then on.
func (s *Spool) AppendMarked(ctx context.Context, lines []byte, of []Mark) error {
	if len(lines) > MaxAppend {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, len(lines))
	}
	if len(lines) > 0 && lines[len(lines)-1] != '\n' {
		return errors.New("internal error: the last line has no end")
	}
	if err := checkMarks(of); err != nil {
		return err
	}
	if len(lines) == 0 && len(of) == 0 {
		return nil
	}
	r := &request{lines: lines, marks: of, done: make(chan error, 1)}
	select {
	case s.requests <- r:
		return <-r.done // The writer has the lines: it is not left before it has said what became of them.
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		return ErrClosed
	}
}

// Mark is the highest value of a source that is on disk; 0 where none is known.
func (s *Spool) Mark(group, id string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks.get(group, id)
}

// Close writes the positions, and ends. It does not wait for readers.
func (s *Spool) Close() error { return s.close() }

func (s *Spool) end() error {
	close(s.stop)
	s.running.Wait()
	err := s.keepPositions()
	if s.active != nil {
		err = errors.Join(err, s.active.Close())
	}
	return errors.Join(err, s.encoder.Close())
}
