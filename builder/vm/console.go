package vm

import (
	"bytes"
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
	// questionDelay is how long text without a line end stands until it is taken for a question.
	questionDelay = 300 * time.Millisecond
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
	open    string // the line that has not ended
	closed  bool
	changed chan struct{} // closed and replaced at each change
}

func newConsole() *Console { return &Console{changed: make(chan struct{})} }

// Collect is a console of what comes from r, until that ends; r is closed then. stamp tells the times of a line, and raw gets
// every byte as it came.
func Collect(r io.ReadCloser, raw io.Writer, stamp func() (wall, cpu time.Duration)) *Console {
	c := newConsole()
	go func() {
		defer r.Close()
		c.read(r, raw, stamp)
	}()
	return c
}

// controls are ANSI control sequences (ECMA-48, 5.4) and what else firmware and boot loaders send.
var controls = regexp.MustCompile(`\x1b\[[0-9;?=]*[ -/]*[@-~]|\x1b[()][0-9A-B]|\x1b[=>78cM]|[\x00-\x08\x0b-\x1a\x1c-\x1f]`)

// read takes lines from r until it ends; stamp tells the times of a line; raw gets every byte as it came.
func (c *Console) read(r io.Reader, raw io.Writer, stamp func() (wall, cpu time.Duration)) {
	r = io.TeeReader(r, raw)
	var line []byte
	add := func() {
		wall, cpu := stamp()
		c.add(Line{clean(string(line)), wall, cpu})
		line = line[:0]
	}
	for part := make([]byte, 64<<10); ; {
		n, err := r.Read(part)
		for rest := part[:n]; len(rest) > 0; {
			end := bytes.IndexByte(rest, '\n') + 1
			if end == 0 {
				end = len(rest)
			}
			end = min(end, maxLine-len(line))
			line = append(line, rest[:end]...)
			rest = rest[end:]
			if line[len(line)-1] == '\n' || len(line) == maxLine {
				add()
			}
		}
		c.begun(line)
		if err != nil {
			break
		}
	}
	if len(line) > 0 {
		add()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	close(c.changed)
}

// begun keeps the line that has no end yet, such as a question.
func (c *Console) begun(line []byte) {
	text := clean(string(line))
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == c.open {
		return
	}
	c.open = text
	close(c.changed)
	c.changed = make(chan struct{})
}

func clean(s string) string {
	return strings.TrimRight(controls.ReplaceAllString(s, ""), "\r\n ")
}

func (c *Console) add(l Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines, c.open = append(c.lines, l), ""
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open != "" {
		fmt.Fprintf(&b, "           %s\n", c.open)
	}
	return b.String()
}

// Await returns the first line from the mark on that matches, and the mark after it. It fails when the context ends or the
// console does; what is waited for is named in the error, and the console's end is in it.
func (c *Console) Await(ctx context.Context, from int, what string, match func(Line) bool) (Line, int, error) {
	var found Line
	next, err := c.await(ctx, from, what, func(lines []Line, _ string) (int, bool) {
		for i, l := range lines {
			if match(l) {
				found = l
				return i + 1, true
			}
		}
		return len(lines), false
	})
	return found, next, err
}

// AwaitQuestion waits until somebody is asked something that matches: in the line that has not ended, or in one from the
// mark on, where others wrote behind the question. It returns the mark after the lines so far.
func (c *Console) AwaitQuestion(ctx context.Context, from int, re *regexp.Regexp) (int, error) {
	return c.await(ctx, from, "a question that matches "+re.String(), func(lines []Line, open string) (int, bool) {
		asked := re.MatchString(open)
		for _, l := range lines {
			asked = asked || re.MatchString(l.Text)
		}
		return len(lines), asked
	})
}

// await calls seen with the lines that are new to it, and the one that has not ended, until it is content. seen returns how
// many of the lines it has done with.
func (c *Console) await(ctx context.Context, from int, what string, seen func(lines []Line, open string) (int, bool)) (int, error) {
	for i := from; ; {
		c.mu.Lock()
		lines, open, closed, changed := c.lines, c.open, c.closed, c.changed
		c.mu.Unlock()
		n, ok := seen(lines[min(i, len(lines)):], open)
		i += n
		if ok {
			return i, nil
		}
		if closed {
			return i, fmt.Errorf("the machine ended while waiting for %s; its console ends with:\n%s", what, c.Tail())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return i, fmt.Errorf("waiting for %s: %w; the console ends with:\n%s", what, context.Cause(ctx), c.Tail())
		}
	}
}

// Follow writes the console to w as it comes, questions too, until it ends or the context does.
func (c *Console) Follow(ctx context.Context, w io.Writer) error {
	shown := "" // of the line that has not ended
	rest := func(text string) string {
		if after, ok := strings.CutPrefix(text, shown); ok {
			return after
		}
		return "\n" + text
	}
	for i := 0; ; {
		c.mu.Lock()
		lines, open, closed, changed := c.lines, c.open, c.closed, c.changed
		c.mu.Unlock()
		for ; i < len(lines); i++ {
			if _, err := fmt.Fprintln(w, rest(lines[i].Text)); err != nil {
				return err
			}
			shown = ""
		}
		if closed {
			return nil
		}
		var question <-chan time.Time
		if open != shown {
			question = time.After(questionDelay)
		}
		select {
		case <-changed:
		case <-question:
			if _, err := io.WriteString(w, rest(open)); err != nil {
				return err
			}
			shown = open
		case <-ctx.Done():
			return ctx.Err()
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
