package rotated

import "sync/atomic"

// Counters are what a source of files counts, of all its followers together.
type Counters struct {
	files, bytes, malformed atomic.Int64
}

// Add counts what a follower has lost since was; it returns that, and whether it is anything.
func (c *Counters) Add(f *Follower, was *Lost) (lost Lost, some bool) {
	lost = Lost{Files: f.Lost.Files - was.Files, Bytes: f.Lost.Bytes - was.Bytes}
	*was = f.Lost
	c.files.Add(lost.Files)
	c.bytes.Add(lost.Bytes)
	return lost, lost != Lost{}
}

// Gone counts a file of which nobody knows more than that it went before it was read to its end.
func (c *Counters) Gone() { c.files.Add(1) }

// Malformed counts a line that is left out, since nobody who may write there writes such a line.
func (c *Counters) Malformed() { c.malformed.Add(1) }

// Lost is what was counted (send.Counted).
func (c *Counters) Lost() (files, bytes, lines int64) {
	return c.files.Load(), c.bytes.Load(), c.malformed.Load()
}
