package logs

import (
	"cmp"
	"crypto/sha256"
	"time"
)

// maxSame bounds how many lines of the same time are known.
const maxSame = 10_000

// place is how far the journal of a node was read. Lines that a program writes together have the same time, so that a
// time alone does not say which of them are still to come.
type place struct {
	// at is the time of the last line; zero where no line has had one that a question can have.
	at time.Time
	// seen are the lines of that time.
	seen map[[sha256.Size]byte]bool
}

// pass tells whether a line is new, and goes on to it. A time that is a day ahead of this machine's is no place: the
// node's clock may be set right until it is asked again.
func (p *place) pass(l line, now time.Time) bool {
	at := l.entry.Time
	if at.Unix() <= 0 || at.After(now.Add(24*time.Hour)) {
		return true
	}
	name := sha256.Sum256([]byte(cmp.Or(l.entry.Cursor, string(l.raw))))
	if at.Equal(p.at) && p.seen[name] {
		return false
	}
	if !at.Equal(p.at) {
		p.at, p.seen = at, map[[sha256.Size]byte]bool{}
	}
	if len(p.seen) < maxSame {
		p.seen[name] = true
	}
	return true
}
