// Package progress tells a person what a long command is doing: one line a step with its duration. While a step runs, a
// terminal shows a line that is rewritten, and a log gets a line now and then.
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

// redraw is how often the running line of a terminal may change, and pulse how long a log may be silent while something
// is known of how far the work is.
const (
	redraw = 100 * time.Millisecond
	pulse  = 15 * time.Second
)

// Printer writes progress. The zero value writes nothing.
type Printer struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	mu       sync.Mutex
	// drawn is when the last line was printed or rewritten.
	drawn time.Time
	// columns is the width of the terminal, 0 where nothing is known of it.
	columns func() int
}

// New returns a printer on w; when w is a terminal, steps are drawn while they run.
func New(w io.Writer, now func() time.Time) *Printer {
	p := &Printer{w: w, now: now, drawn: now(), columns: func() int { return 0 }}
	if f, ok := w.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		p.terminal, p.columns = err == nil, func() int { return width(f) }
	}
	return p
}

func width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
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

// Update shows how far the step is: in the running line of a terminal, and in a log where that was silent for a while.
func (s *Step) Update(format string, args ...any) {
	s.p.Live("%s … %s", s.name, fmt.Sprintf(format, args...))
}

// Live rewrites the running line of a terminal, some ten times a second at most. Elsewhere it prints a line, unless there
// was one in the last 15 seconds.
func (p *Printer) Live(format string, args ...any) {
	if p == nil || p.w == nil {
		return
	}
	pause := pulse
	if p.terminal {
		pause = redraw
	}
	if !p.due(pause) {
		return
	}
	text := fmt.Sprintf(format, args...)
	if p.terminal {
		p.line("\r\x1b[K%s", cut(text, p.columns()))
	} else {
		p.line("%s\n", text)
	}
}

// due reports whether the last line is so old.
func (p *Printer) due(pause time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now().Sub(p.drawn) >= pause
}

// cut shortens a line to a terminal's width: of a longer one, the terminal would keep the beginning at each rewriting.
func cut(text string, columns int) string {
	runes := []rune(text)
	if columns < 2 || len(runes) < columns {
		return text
	}
	return string(runes[:columns-2]) + "…"
}

// Bar draws how much of something is done, from 0 to 1, in 22 characters.
func Bar(done float64) string {
	const cells = 20
	full := int(min(1, max(0, done)) * cells)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", cells-full) + "]"
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

// Terminal reports whether a person watches: whether the running line is drawn.
func (p *Printer) Terminal() bool { return p != nil && p.terminal }

func (p *Printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drawn = p.now()
	fmt.Fprintf(p.w, format, args...)
}
