package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

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

func (s *Spool) segmentsDir() string { return filepath.Join(s.o.Dir, "segments") }

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
		number, ok := s.numberOf(e)
		if !ok {
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
		s.recallFrom(s.path(g.number), g.size)
	}
}

// recallFrom reads the marks of a segment.
func (s *Spool) recallFrom(path string, size int64) {
	eachOf(path, size, headSize, func(view segment, offset int64, f frame) {
		if known, _, err := view.payload(offset, f); err == nil {
			for _, m := range parseMarks(known) {
				s.marks.put(m)
			}
		}
	})
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
	eachOf(s.path(g.number), g.size, from, call)
}

// eachOf is each for a file.
func eachOf(path string, size, from int64, call func(segment, int64, frame)) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	view, err := openSegment(file, size)
	for offset := from; err == nil && offset < size; {
		var f frame
		if f, err = view.at(offset); err == nil {
			call(view, offset, f)
			offset += f.size()
		} else if errors.Is(err, errTorn) {
			offset, err = view.next(offset)
		}
	}
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
			size, dropped = s.dropAside()
		}
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
