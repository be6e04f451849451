package vm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine bounds a line of the console in bytes; what is longer is cut into several.
	maxLine = 1 << 20
	// tailLines is how much of the console goes into an error.
	tailLines = 40
)

// Line is one line of the console, without control sequences.
type Line struct {
	Text string
	// Wall is the time since QEMU was started, CPU what QEMU had used by then.
	Wall, CPU time.Duration
}

// Console collects the lines of a serial console.
type Console struct {
	mu      sync.Mutex
	lines   []Line
	closed  bool
	changed chan struct{} // closed and replaced at each change
}

func newConsole() *Console { return &Console{changed: make(chan struct{})} }

// controls are ANSI control sequences (ECMA-48, 5.4) and what else firmware and boot loaders send.
var controls = regexp.MustCompile(`\x1b\[[0-9;?=]*[ -/]*[@-~]|\x1b[()][0-9A-B]|\x1b[=>78cM]|[\x00-\x08\x0b-\x1a\x1c-\x1f]`)

// read takes lines from r until it ends; stamp tells the times of a line; raw gets every byte as it came.
func (c *Console) read(r io.Reader, raw io.Writer, stamp func() (wall, cpu time.Duration)) {
	br := bufio.NewReaderSize(io.TeeReader(r, raw), 64<<10)
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if err == bufio.ErrBufferFull && len(line) < maxLine {
			continue
		}
		if len(line) > 0 {
			wall, cpu := stamp()
			c.add(Line{clean(string(line)), wall, cpu})
			line = line[:0]
		}
		if err != nil && err != bufio.ErrBufferFull {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	close(c.changed)
}

func clean(s string) string {
	return strings.TrimRight(controls.ReplaceAllString(s, ""), "\r\n ")
}

func (c *Console) add(l Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, l)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Mark is the number of lines so far; Await with it sees only later ones.
func (c *Console) Mark() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// Lines returns a copy of the lines from a mark on.
func (c *Console) Lines(from int) []Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from > len(c.lines) {
		return nil
	}
	return append([]Line(nil), c.lines[from:]...)
}

// Tail is the end of the console, for messages.
func (c *Console) Tail() string {
	lines := c.Lines(0)
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "  %7.2f  %s\n", l.Wall.Seconds(), l.Text)
	}
	return b.String()
}

// Await returns the first line from the mark on that matches, and the mark after it. It fails when the context ends or the
// console does; what is waited for is named in the error, and the console's end is in it.
func (c *Console) Await(ctx context.Context, from int, what string, match func(Line) bool) (Line, int, error) {
	for i := from; ; {
		c.mu.Lock()
		lines, closed, changed := c.lines, c.closed, c.changed
		c.mu.Unlock()
		for ; i < len(lines); i++ {
			if match(lines[i]) {
				return lines[i], i + 1, nil
			}
		}
		if closed {
			return Line{}, i, fmt.Errorf("the machine ended while waiting for %s; its console ends with:\n%s", what, c.Tail())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Line{}, i, fmt.Errorf("waiting for %s: %w; the console ends with:\n%s", what, context.Cause(ctx), c.Tail())
		}
	}
}

// AwaitMatch is Await for a regular expression.
func (c *Console) AwaitMatch(ctx context.Context, from int, re *regexp.Regexp) (Line, int, error) {
	return c.Await(ctx, from, "a line that matches "+re.String(), func(l Line) bool { return re.MatchString(l.Text) })
}

// Find returns the first line from the mark on that matches, without waiting.
func (c *Console) Find(from int, re *regexp.Regexp) (Line, bool) {
	for _, l := range c.Lines(from) {
		if re.MatchString(l.Text) {
			return l, true
		}
	}
	return Line{}, false
}
