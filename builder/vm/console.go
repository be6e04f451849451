package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"spore/builder/vm/ecma48"
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
	// drawn is text of a page, which makes no sense as a line.
	drawn bool
}

// Console collects the lines of a serial console.
type Console struct {
	mu      sync.Mutex
	lines   []Line
	open    string // the line that has not ended
	page    page
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

// read takes lines from r until it ends; stamp tells the times of a line; raw gets every byte as it came.
func (c *Console) read(r io.Reader, raw io.Writer, stamp func() (wall, cpu time.Duration)) {
	r = io.TeeReader(r, raw)
	var t taker
	var line []byte
	add := func(drawn bool) {
		wall, cpu := stamp()
		c.add(Line{Text: clean(line), Wall: wall, CPU: cpu, drawn: drawn})
		line = line[:0]
	}
	for part := make([]byte, 64<<10); ; {
		n, err := r.Read(part)
		for _, b := range part[:n] {
			line = append(line, b)
			turned := t.next(b)
			switch ended := b == '\n' || len(line) == maxLine; {
			case ended, turned && clean(line) != "":
				add(t.taken != turned) // It is of before the turn.
			case turned:
				line = line[:0]
			}
			if turned {
				c.turn(t.taken)
			}
		}
		c.draw(&t)
		c.begun(line)
		if err != nil {
			break
		}
	}
	if clean(line) != "" {
		add(t.taken)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	close(c.changed)
}

// begun keeps the line that has no end yet, such as a question.
func (c *Console) begun(line []byte) {
	text := clean(line)
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == c.open {
		return
	}
	c.open = text
	c.tell()
}

// tell wakes who waits for news. The lock is held.
func (c *Console) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func clean(line []byte) string { return strings.TrimRight(ecma48.Strip(line), " ") }

func (c *Console) add(l Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines, c.open = append(c.lines, l), ""
	c.tell()
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
func (c *Console) Follow(ctx context.Context, w io.Writer) error { return c.follow(ctx, w, nil) }

// FollowPages does what Follow does for w that is a terminal: it shows pages as well, each instead of the lines that are
// there, which come back when the page is closed. fits tells whether the terminal has PageColumns and PageLines; nil is
// one that has. What comes from the guest moves the cursor and nothing else (package ecma48).
func (c *Console) FollowPages(ctx context.Context, w io.Writer, fits func() bool) error {
	v := view{w: w, fits: fits}
	return errors.Join(c.follow(ctx, w, &v), v.leave())
}

// follow is both; without a view there are no pages.
func (c *Console) follow(ctx context.Context, w io.Writer, v *view) error {
	shown := "" // of the line that has not ended
	rest := func(text string) string {
		if after, ok := strings.CutPrefix(text, shown); ok {
			return after
		}
		return "\n" + text
	}
	for i := 0; ; {
		c.mu.Lock()
		lines, open, page, closed, changed := c.lines, c.open, c.page, c.closed, c.changed
		c.mu.Unlock()
		if err := v.gone(page); err != nil {
			return err
		}
		for ; i < len(lines); i++ {
			if v != nil && lines[i].drawn {
				continue
			}
			if _, err := fmt.Fprintln(w, rest(lines[i].Text)); err != nil {
				return err
			}
			shown = ""
		}
		if err := v.draw(page); err != nil {
			return err
		}
		if closed {
			return nil
		}
		if v != nil && page.open {
			open = shown // It is the page.
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
