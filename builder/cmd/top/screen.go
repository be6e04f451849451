package top

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// Sequences of ECMA-48 and xterm: the other screen and back, the cursor hidden and shown, home, the rest of a line and
// of the screen.
const (
	enter     = "\x1b[?1049h\x1b[?25l"
	leave     = "\x1b[?25h\x1b[?1049l"
	home      = "\x1b[H"
	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
)

// screen draws whole pages on a terminal.
type screen struct {
	out     io.Writer
	size    func() (width, height int)
	restore func()
	once    sync.Once
	mu      sync.Mutex
	over    bool
}

// openScreen takes over the terminal; stop is called when somebody presses q or Ctrl-C. Where standard input is not a
// terminal, the page is drawn all the same, and a signal ends it.
func openScreen(out, in *os.File, stop func()) (*screen, error) {
	s := &screen{out: out, restore: func() {}, size: func() (int, int) {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil || width < 1 || height < 1 {
			return 80, 24
		}
		return width, height
	}}
	if fd := int(in.Fd()); term.IsTerminal(fd) {
		before, err := term.MakeRaw(fd)
		if err != nil {
			return nil, fmt.Errorf("take over the terminal: %w", err)
		}
		s.restore = func() { _ = term.Restore(fd, before) }
		go keys(in, stop)
	}
	fmt.Fprint(out, enter)
	return s, nil
}

// keys calls stop for q, Ctrl-C and Ctrl-D, and when nothing can be typed any more.
func keys(in io.Reader, stop func()) {
	var b [1]byte
	for {
		n, err := in.Read(b[:])
		if err != nil || n == 1 && strings.IndexByte("qQ\x03\x04", b[0]) >= 0 {
			stop()
			return
		}
	}
}

// draw draws a page from the top; what is beyond the screen is cut off.
func (s *screen) draw(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	width, height := s.size()
	var b strings.Builder
	b.WriteString(home)
	for i, line := range lines[:min(len(lines), height)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(cut(line, width) + clearLine)
	}
	b.WriteString(clearRest)
	_, _ = io.WriteString(s.out, b.String()) // A terminal that has gone has nobody to be told.
}

// cut is the beginning of a line that fits.
func cut(line string, width int) string {
	for n := 0; n < len(line); {
		_, size := utf8.DecodeRuneInString(line[n:])
		if width--; width < 0 {
			return line[:n]
		}
		n += size
	}
	return line
}

// close gives the terminal back.
func (s *screen) close() {
	s.once.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over = true
		fmt.Fprint(s.out, leave)
		s.restore()
	})
}
