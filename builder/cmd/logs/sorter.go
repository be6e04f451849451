package logs

import (
	"slices"
	"time"
)

// maxWaiting bounds how many followed lines wait for earlier ones.
const maxWaiting = 20_000

// sorter brings lines of several nodes into the order of time: each waits a while for earlier ones.
type sorter struct {
	settle time.Duration
	// waiting are sorted by at.
	waiting []waiting
	// last is the time of the last line of each node.
	last map[string]time.Time
}

type waiting struct {
	line
	// at is what it is sorted by, and came when this machine got it.
	at, came time.Time
}

// add takes a line that came at a time. A node's own lines stay in its order.
func (s *sorter) add(l line, now time.Time) {
	if s.last == nil {
		s.last = map[string]time.Time{}
	}
	at := l.entry.Time
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
}

// due are the lines that have waited long enough, and those before them.
func (s *sorter) due(now time.Time) []line {
	n := max(0, len(s.waiting)-maxWaiting)
	for i, w := range s.waiting {
		if now.Sub(w.came) >= s.settle {
			n = max(n, i+1)
		}
	}
	return s.take(n)
}

// rest are all lines that wait.
func (s *sorter) rest() []line { return s.take(len(s.waiting)) }

func (s *sorter) take(n int) []line {
	var out []line
	for _, w := range s.waiting[:n] {
		out = append(out, w.line)
	}
	s.waiting = slices.Delete(s.waiting, 0, n)
	return out
}
