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
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
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

// Consumer is who takes lines.
type Consumer struct {
	// Name has lower-case letters, digits and hyphens.
	Name string
	// Keeps says that it loses nothing: the spool refuses lines rather than to drop what it has not taken. The oldest
	// lines of others go when the spool is full.
	Keeps bool
}

// consumerForm is a name that may be one of a file.
var consumerForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// Position is a place in the spool. The zero position is before everything.
type Position struct {
	Segment uint64 `json:"segment"`
	Offset  int64  `json:"offset"`
}

// before tells which of two places comes first.
func (p Position) before(q Position) bool {
	return p.Segment < q.Segment || p.Segment == q.Segment && p.Offset < q.Offset
}

// consumer is how far one is.
type consumer struct {
	Consumer
	done, kept Position
	reading    bool
	dropped    int64 // lines
}

// stored is a segment on disk: the bytes of it that were synced.
type stored struct {
	number uint64
	size   int64
}

// target is the segment that is written.
type target interface {
	io.Writer
	Sync() error
	Truncate(int64) error
	Close() error
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
	bare   bool
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

// request is one Append.
type request struct {
	lines []byte
	marks []Mark
	done  chan error
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
	if err := s.find(); err != nil {
		return nil, fmt.Errorf("open the queue: %w", err)
	}
	s.recall()
	if err := s.place(); err != nil {
		return nil, fmt.Errorf("open the queue: %w", err)
	}
	s.mu.Lock()
	s.trim()
	s.mu.Unlock()
	s.running.Go(s.write)
	s.running.Go(s.keep)
	return s, nil
}

func (s *Spool) segmentsDir() string  { return filepath.Join(s.o.Dir, "segments") }
func (s *Spool) positionsDir() string { return filepath.Join(s.o.Dir, "positions") }

// path is the file of a segment.
func (s *Spool) path(number uint64) string {
	return filepath.Join(s.segmentsDir(), fmt.Sprintf("%016x.log", number))
}

// find looks which segments there are.
func (s *Spool) find() error {
	entries, err := os.ReadDir(s.segmentsDir()) // sorted, and so are the numbers
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, err := strconv.ParseUint(strings.TrimSuffix(e.Name(), ".log"), 16, 64)
		if err != nil || filepath.Base(s.path(number)) != e.Name() || !e.Type().IsRegular() {
			s.o.Say(fmt.Sprintf("%.100q in %s is no segment; it stays", e.Name(), s.segmentsDir()))
			continue
		}
		s.next = max(s.next, number+1)
		info, err := e.Info()
		if err != nil {
			return err
		}
		s.segments = append(s.segments, stored{number, info.Size()})
		s.total += info.Size()
	}
	if len(s.segments) == 0 {
		return nil
	}
	return s.cutTail()
}

// cutTail cuts off what was written last and not whole: nobody was told that it is there.
func (s *Spool) cutTail() error {
	last := &s.segments[len(s.segments)-1]
	f, err := os.OpenFile(s.path(last.number), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	good := int64(0)
	view, err := openSegment(f, last.size)
	if err == nil {
		good, err = view.sound()
	}
	if err != nil && !errors.Is(err, errTorn) {
		return err
	}
	if good == last.size && good > headSize {
		return nil
	}
	s.o.Say(fmt.Sprintf("cut %d bytes that were not written to their end off %s", last.size-good, f.Name()))
	s.total -= last.size - good
	if good > headSize {
		last.size = good
		if err := f.Truncate(good); err != nil {
			return err
		}
		return f.Sync()
	}
	s.total -= good
	s.segments = s.segments[:len(s.segments)-1]
	return os.Remove(f.Name())
}

// recall reads the marks. Each segment begins with all that were known by then.
func (s *Spool) recall() {
	from := len(s.segments)
	for from > 0 {
		from--
		if s.beginsWithMarks(s.segments[from]) {
			break
		}
	}
	for _, g := range s.segments[from:] {
		s.each(g, headSize, func(view segment, offset int64, f frame) {
			if known, _, err := view.payload(offset, f); err == nil {
				for _, m := range parseMarks(known) {
					s.marks.put(m)
				}
			}
		})
	}
}

func (s *Spool) beginsWithMarks(g stored) bool {
	whole := false
	s.each(stored{g.number, g.size}, headSize, func(view segment, offset int64, f frame) {
		if offset == headSize {
			_, _, err := view.payload(offset, f)
			whole = err == nil
		}
	})
	return whole
}

// each calls what is given for the frames of a segment from a place on, as far as they can be read.
func (s *Spool) each(g stored, from int64, call func(segment, int64, frame)) {
	file, err := os.Open(s.path(g.number))
	if err != nil {
		return
	}
	defer file.Close()
	view, err := openSegment(file, g.size)
	for offset := from; err == nil && offset < g.size; {
		var f frame
		if f, err = view.at(offset); err == nil {
			call(view, offset, f)
			offset += f.size()
		} else if errors.Is(err, errTorn) {
			offset, err = view.next(offset)
		}
	}
}

// place finds out how far the consumers are.
func (s *Spool) place() error {
	for _, c := range s.o.Consumers {
		if !consumerForm.MatchString(c.Name) || s.consumers[c.Name] != nil {
			return fmt.Errorf("%.64q is no name of a consumer, or there are two of it", c.Name)
		}
		at, err := s.positionOf(c)
		if err != nil {
			return err
		}
		// It is written at once: one that has one is not new at the next start.
		s.consumers[c.Name] = &consumer{Consumer: c, done: at, kept: Position{Offset: -1}}
	}
	if err := s.keepPositions(); err != nil {
		if !errors.Is(diskError(err), ErrNoSpace) {
			return err
		}
		s.o.Say(err.Error()) // keep tries again; until then the position on disk does, or none.
	}
	for _, dir := range []string{s.positionsDir(), s.o.Dir, filepath.Dir(s.o.Dir)} {
		if err := atomicfile.SyncDir(dir); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(s.positionsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if s.consumers[e.Name()] == nil {
			if err := os.Remove(filepath.Join(s.positionsDir(), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// positionOf is where a consumer goes on. One that is new begins with what comes from now on, unless it keeps.
func (s *Spool) positionOf(c Consumer) (Position, error) {
	var at Position
	data, err := atomicfile.ReadLimited(filepath.Join(s.positionsDir(), c.Name), 4<<10)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if n := len(s.segments); n > 0 && !c.Keeps {
			at = Position{s.segments[n-1].number, s.segments[n-1].size}
		}
		return at, nil
	case err != nil:
		return at, err
	}
	if err := json.Unmarshal(data, &at); err != nil || at.Offset < 0 {
		s.o.Say(fmt.Sprintf("the position of %s cannot be read: it begins with the oldest line again", c.Name))
		return Position{}, nil
	}
	s.next = max(s.next, at.Segment+1)
	return at, nil
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

// write writes what Append is given, until the end.
func (s *Spool) write() {
	for {
		select {
		case r := <-s.requests:
			s.commit(s.gather(r))
		case <-s.stop:
			return
		}
	}
}

// gather takes those that wait already: they share a sync.
func (s *Spool) gather(first *request) []*request {
	group, size := []*request{first}, len(first.lines)
	for size < maxGroup {
		select {
		case r := <-s.requests:
			group, size = append(group, r), size+len(r.lines)
		default:
			return group
		}
	}
	return group
}

// commit writes a group, and tells each what became of it.
func (s *Spool) commit(group []*request) {
	at := s.o.Now()
	if s.active == nil || s.activeSize() > s.o.Segment {
		if err := s.roll(at); err != nil {
			tellAll(group, err)
			return
		}
	}
	var data []byte
	var taken []*request
	for _, r := range group {
		packed, err := s.pack(r, at)
		if err == nil {
			err = s.makeRoom(int64(len(data) + len(packed)))
		}
		if err != nil {
			r.done <- err
			continue
		}
		data, taken = append(data, packed...), append(taken, r)
	}
	if len(taken) == 0 {
		return
	}
	err := s.persist(data)
	if err == nil {
		s.publish(int64(len(data)), taken)
	}
	tellAll(taken, err)
}

func tellAll(group []*request, err error) {
	for _, r := range group {
		r.done <- err
	}
}

// activeSize is how much of the segment that is written is on disk.
func (s *Spool) activeSize() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.segments[len(s.segments)-1].size
}

// pack makes frames of lines; the marks are in the last one.
func (s *Spool) pack(r *request, at time.Time) ([]byte, error) {
	var out []byte
	for rest := r.lines; ; {
		part, err := split(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[len(part):]
		var known []byte
		if len(rest) == 0 {
			if known = appendMarks(nil, r.marks); len(known) > maxMarks {
				return nil, fmt.Errorf("%w: the marks have %d bytes", ErrTooLarge, len(known))
			}
		}
		var packed []byte
		if len(part) > 0 {
			packed = s.encoder.EncodeAll(part, nil)
		}
		out = appendFrame(out, s.salt, at, known, packed, len(part), bytes.Count(part, []byte("\n")))
		if len(rest) == 0 {
			break
		}
	}
	if int64(len(out)) > s.o.Bound/2 {
		return nil, fmt.Errorf("%w: %d bytes, and the queue has %d", ErrTooLarge, len(out), s.o.Bound)
	}
	return out, nil
}

// split returns as many whole lines as go into a frame.
func split(lines []byte) ([]byte, error) {
	if len(lines) <= MaxLines {
		return lines, nil
	}
	n := bytes.LastIndexByte(lines[:MaxLines], '\n')
	if n < 0 {
		return nil, fmt.Errorf("%w: a line has more than %d bytes", ErrTooLarge, MaxLines)
	}
	return lines[:n+1], nil
}

// roll begins a segment with all marks that are known. It counts when it is on disk; the one before stays until then.
func (s *Spool) roll(at time.Time) error {
	if s.active != nil {
		_ = s.active.Close() // All of it was synced.
		s.active = nil
	}
	head := append(make([]byte, 0, headSize), segmentMagic...)
	head = append(head, make([]byte, headSize-len(segmentMagic))...)
	_, _ = rand.Read(head[len(segmentMagic):]) // It does not fail (crypto/rand).
	salt := saltOf(head[len(segmentMagic):])
	s.mu.Lock()
	known := s.marks.all()
	s.mu.Unlock()
	all := appendMarks(nil, known)
	for len(all) > maxMarks { // Those that changed first.
		known = known[len(known)/4+1:]
		all = appendMarks(nil, known)
	}
	data := appendFrame(head, salt, at, all, nil, 0, 0)
	if err := s.makeRoom(int64(len(data))); err != nil {
		return err
	}
	number := s.next
	s.next++
	f, err := s.create(s.path(number))
	if err != nil {
		return diskError(err)
	}
	if _, err = f.Write(data); err == nil {
		if err = f.Sync(); err == nil {
			err = atomicfile.SyncDir(s.segmentsDir())
		}
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(s.path(number))
		return diskError(err)
	}
	s.active, s.salt = f, salt
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.segments) - 1; s.bare && os.Remove(s.path(s.segments[last].number)) == nil {
		// A disk that fails for a day leaves no segment for each that was tried.
		s.total -= s.segments[last].size
		s.segments = s.segments[:last]
	}
	s.bare = true
	s.segments = append(s.segments, stored{number, int64(len(data))})
	s.total += int64(len(data))
	s.trim()
	return nil
}

// persist writes frames behind the others, and syncs them. When that fails the segment is left for another one: after
// an error of a sync nobody knows what of it is on disk.
func (s *Spool) persist(data []byte) error {
	_, err := s.active.Write(data)
	if err == nil {
		err = s.active.Sync()
	}
	if err == nil {
		return nil
	}
	_ = s.active.Truncate(s.activeSize())
	_ = s.active.Close()
	s.active = nil
	return diskError(err)
}

// publish has readers see what was written.
func (s *Spool) publish(size int64, group []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bare = false
	s.segments[len(s.segments)-1].size += size
	s.total += size
	for _, r := range group {
		for _, m := range r.marks {
			s.marks.put(m)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// makeRoom drops the oldest segments of those who do not keep, until there is room, in the spool and on the disk.
func (s *Spool) makeRoom(need int64) error {
	free, err := s.free(s.o.Dir)
	if err != nil {
		return fmt.Errorf("see how full the disk of the queue is: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.total+need > s.o.Bound {
		if _, dropped := s.dropOldest(); !dropped {
			return ErrFull
		}
	}
	// The file system frees what is removed a while later.
	for lack := need + s.o.Floor - free; lack > 0; {
		size, dropped := s.dropOldest()
		if !dropped {
			return fmt.Errorf("%w: %d bytes are free, and %d stay so", ErrNoSpace, free, s.o.Floor)
		}
		lack -= size
	}
	return nil
}

// dropOldest removes the oldest segment, and counts who loses by it; it does not where one that keeps would.
func (s *Spool) dropOldest() (size int64, dropped bool) {
	if len(s.segments) < 2 {
		return 0, false
	}
	g := s.segments[0]
	var losers []*consumer
	for _, c := range s.consumers {
		if !s.past(c, g) {
			if c.Keeps {
				return 0, false
			}
			losers = append(losers, c)
		}
	}
	for _, c := range losers {
		from, lines := int64(headSize), int64(0)
		if c.done.Segment == g.number {
			from = max(from, c.done.Offset)
		}
		s.each(g, from, func(_ segment, _ int64, f frame) { lines += int64(f.lines) })
		c.dropped += lines
		c.done = Position{g.number, g.size}
	}
	return g.size, s.remove()
}

// past tells whether a consumer has taken a whole segment.
func (s *Spool) past(c *consumer, g stored) bool { return !c.done.before(Position{g.number, g.size}) }

// trim removes segments that all have taken. The newest stays: the marks are in it.
func (s *Spool) trim() {
	for len(s.segments) > 1 {
		for _, c := range s.consumers {
			if !s.past(c, s.segments[0]) {
				return
			}
		}
		if !s.remove() {
			return
		}
	}
}

// remove removes the oldest segment.
func (s *Spool) remove() bool {
	g := s.segments[0]
	if err := os.Remove(s.path(g.number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.o.Say("remove a segment: " + err.Error())
		return false
	}
	s.segments = slices.Delete(s.segments, 0, 1)
	s.total -= g.size
	return true
}

// keep writes the positions now and then, until the end.
func (s *Spool) keep() {
	beat := time.NewTicker(keepEvery)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			if err := s.keepPositions(); err != nil {
				s.o.Say(err.Error())
			}
		case <-s.stop:
			return
		}
	}
}

// keepPositions writes the positions that are others than those on disk.
func (s *Spool) keepPositions() error {
	s.mu.Lock()
	moved := map[string]Position{}
	for name, c := range s.consumers {
		if c.done != c.kept {
			moved[name] = c.done
		}
	}
	s.mu.Unlock()
	var problems []error
	for name, at := range moved {
		data, err := json.Marshal(at)
		if err == nil {
			// The folder need not be synced: after a loss of power an older position does, too.
			err = atomicfile.Replace(filepath.Join(s.positionsDir(), name), append(data, '\n'), 0o600, atomicfile.Whole)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("keep the position of %s: %w", name, err))
			continue
		}
		s.mu.Lock()
		s.consumers[name].kept = at
		s.mu.Unlock()
	}
	return errors.Join(problems...)
}

// diskError names an error of the disk.
func diskError(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return fmt.Errorf("write the queue: %w", err)
}

// createFile makes a segment.
func createFile(path string) (target, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

// freeSpace is how many bytes the disk of a folder has for this program.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}
