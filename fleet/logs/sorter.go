package logs

import (
	"slices"
	"time"
)

// maxWaiting bounds how many followed lines wait for earlier ones, and maxWaitingSize how many bytes they have together.
const (
	maxWaiting     = 20_000
	maxWaitingSize = 32 << 20
)

// sorter brings lines of several nodes into the order of time: each waits a while for earlier ones.
type sorter struct {
	settle time.Duration
	// waiting are sorted by at.
	waiting []waiting
	// size is that of all that wait, in bytes.
	size int
	// last is the time of the last line of each node.
	last map[string]time.Time
}

type waiting struct {
	line
	// at is what it is sorted by, and came when this machine got it.
	at, came time.Time
}

// add takes a line that came at a time. A node's own lines stay in its order. A time that is yet to come is not
// believed: it would be behind the lines of all others.
func (s *sorter) add(l line, now time.Time) {
	if s.last == nil {
		s.last = map[string]time.Time{}
	}
	at := l.entry.Time
	if at.After(now) {
		at = now
	}
	if before := s.last[l.node]; at.Before(before) {
		at = before
	}
	s.last[l.node] = at
	i, _ := slices.BinarySearchFunc(s.waiting, at, func(w waiting, at time.Time) int {
		if w.at.After(at) {
			return 1
		}
		return -1 // Behind those of the same time.
	})
	s.waiting = slices.Insert(s.waiting, i, waiting{l, at, now})
	s.size += len(l.raw)
}

// full tells whether far more waits than may: due is to be called at once.
func (s *sorter) full() bool { return len(s.waiting) > 2*maxWaiting || s.size > 2*maxWaitingSize }

// due are the lines that have waited long enough, those before them, and those that have no room.
func (s *sorter) due(now time.Time) []line {
	n, size := 0, s.size
	for i, w := range s.waiting {
		if len(s.waiting)-i > maxWaiting || size > maxWaitingSize || now.Sub(w.came) >= s.settle {
			n = i + 1
		}
		size -= len(w.raw)
	}
	return s.take(n)
}

// rest are all lines that wait.
func (s *sorter) rest() []line { return s.take(len(s.waiting)) }

func (s *sorter) take(n int) []line {
	var out []line
	for _, w := range s.waiting[:n] {
		out = append(out, w.line)
		s.size -= len(w.raw)
	}
	s.waiting = slices.Delete(s.waiting, 0, n)
	return out
}
