package cri

import (
	"bytes"
	"time"
)

// MaxMessage bounds a joined message in bytes; a container that writes no newline fills no memory.
const MaxMessage = 64 << 10

// Budget is the memory in bytes that the unfinished messages of several containers have together. What has no room is
// cut.
type Budget struct{ left int }

// NewBudget has room for so many bytes.
func NewBudget(bytes int) *Budget { return &Budget{left: bytes} }

// Message is what a container wrote as one line.
type Message struct {
	// Time is when its first part was written.
	Time   time.Time
	Stream string
	// Text is valid until the next call.
	Text []byte
	// Cut is how many bytes at its end are missing.
	Cut int64
}

// Joiner joins the parts of messages of one container. P is a place in its files.
type Joiner[P any] struct {
	budget *Budget
	open   [2]pending[P]
	count  uint64
}

// pending is a message of a stream whose end was not read yet.
type pending[P any] struct {
	begun bool
	// order is older where it is less.
	order uint64
	start P
	time  time.Time
	text  []byte
	cut   int64
}

// NewJoiner takes the memory from a budget.
func NewJoiner[P any](b *Budget) *Joiner[P] { return &Joiner[P]{budget: b} }

func index(stream string) int { return number(stream == Stderr) }

// Add takes the next line, which begins at start, and returns the message that it ends, with the place where that one
// begins.
func (j *Joiner[P]) Add(l Line, start P) (m Message, begin P, whole bool) {
	p := &j.open[index(l.Stream)]
	if !p.begun && !l.Partial {
		text := l.Message[:min(len(l.Message), MaxMessage)]
		return Message{Time: l.Time, Stream: l.Stream, Text: text, Cut: int64(len(l.Message) - len(text))}, start, true
	}
	if !p.begun {
		j.count++
		*p = pending[P]{begun: true, order: j.count, start: start, time: l.Time}
	}
	take := min(len(l.Message), MaxMessage-len(p.text), j.budget.left)
	p.text = append(p.text, l.Message[:take]...)
	p.cut += int64(len(l.Message) - take)
	j.budget.left -= take
	if l.Partial {
		return Message{}, start, false
	}
	m, begin = j.end(index(l.Stream))
	return m, begin, true
}

// end takes a message out.
func (j *Joiner[P]) end(i int) (Message, P) {
	p := j.open[i]
	j.open[i] = pending[P]{}
	j.budget.left += len(p.text)
	return Message{Time: p.time, Stream: [2]string{Stdout, Stderr}[i], Text: p.text, Cut: p.cut}, p.start
}

// Oldest is where the oldest message begins whose end was not read yet.
func (j *Joiner[P]) Oldest() (start P, some bool) {
	a, b := j.open[0], j.open[1]
	switch {
	case a.begun && (!b.begun || a.order < b.order):
		return a.start, true
	case b.begun:
		return b.start, true
	}
	return start, false
}

// Flush takes out the oldest message whose end will not come, for its container has ended.
func (j *Joiner[P]) Flush() (m Message, begin P, some bool) {
	a, b := j.open[0], j.open[1]
	switch {
	case a.begun && (!b.begun || a.order < b.order):
		m, begin = j.end(0)
	case b.begun:
		m, begin = j.end(1)
	default:
		return m, begin, false
	}
	return m, begin, true
}

// Drop forgets what was begun, and gives its memory back.
func (j *Joiner[P]) Drop() {
	for i := range j.open {
		if j.open[i].begun {
			j.end(i)
		}
	}
}

// Trim is a message without the carriage return of a terminal at its end.
func Trim(text []byte) []byte { return bytes.TrimSuffix(text, []byte{'\r'}) }
