// Package progress tells a person what a long command is doing: one line a step with its duration, and on a terminal a
// line that is rewritten while the step runs.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// redraw is how often the running line of a terminal may change.
const redraw = 100 * time.Millisecond

// Printer writes progress. The zero value writes nothing.
type Printer struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	mu       sync.Mutex
	drawn    time.Time
}

// New returns a printer on w; when w is a terminal, steps are drawn while they run.
func New(w io.Writer, now func() time.Time) *Printer {
	return &Printer{w: w, terminal: isTerminal(w), now: now}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Step is one running step.
type Step struct {
	p     *Printer
	name  string
	start time.Time
	note  string
}

// Step begins a step.
func (p *Printer) Step(name string) *Step {
	s := &Step{p: p, name: name}
	if p == nil || p.w == nil {
		return s
	}
	s.start = p.now()
	if p.terminal {
		p.line("\r\x1b[K%s …", name)
	}
	return s
}

// Update shows how far the step is, on terminals only.
func (s *Step) Update(format string, args ...any) {
	s.p.Live("%s … %s", s.name, fmt.Sprintf(format, args...))
}

// Live rewrites the running line of a terminal, some ten times a second at most; elsewhere it prints nothing.
func (p *Printer) Live(format string, args ...any) {
	if p == nil || p.w == nil || !p.terminal {
		return
	}
	p.mu.Lock()
	now := p.now()
	due := now.Sub(p.drawn) >= redraw
	if due {
		p.drawn = now
	}
	p.mu.Unlock()
	if due {
		p.line("\r\x1b[K"+format, args...)
	}
}

// Note is printed behind the step's name when it is done, such as "cached" or a size.
func (s *Step) Note(format string, args ...any) { s.note = fmt.Sprintf(format, args...) }

// Done ends the step and prints its line.
func (s *Step) Done() {
	p := s.p
	if p == nil || p.w == nil {
		return
	}
	clear := ""
	if p.terminal {
		clear = "\r\x1b[K"
	}
	p.line("%s%s\n", clear, strings.TrimRight(fmt.Sprintf("%7.2f s  %-12s %s", p.now().Sub(s.start).Seconds(), s.name, s.note), " "))
}

// Printf prints a line of its own.
func (p *Printer) Printf(format string, args ...any) {
	if p != nil && p.w != nil {
		p.line(format+"\n", args...)
	}
}

func (p *Printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format, args...)
}
