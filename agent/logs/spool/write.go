package spool

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"spore/storage/atomicfile"
)

// request is one Append.
type request struct {
	lines []byte
	marks []Mark
	done  chan error
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
