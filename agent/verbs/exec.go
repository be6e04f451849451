package verbs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Bounds of what a program says: of one line and of what is kept of its last words, in bytes.
const (
	maxLine  = 4 << 10
	maxWords = 400
)

// maxOutput is how much of a program's output is taken as a result, in bytes.
const maxOutput = 8 << 20

// Programs run programs; they are those of the machine but in tests.
type Programs func(ctx context.Context, name string, args ...string) *exec.Cmd

// Machine runs a program of the machine, with an environment that has nothing of the caller's.
func Machine(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	// Python looks for a home, and finds none that it may read.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOMEMLIMIT=") // That of this process is too small for one that restores a database.
	}), "HOME=/nonexistent")
	// It may have something to put back.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	// Where the call has run out of time, what the program started has no more of it, either.
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// Output runs a program and returns what it printed. The error has its last words.
func Output(cmd *exec.Cmd) ([]byte, error) {
	out, _, err := OutputAndWords(cmd)
	return out, err
}

// OutputAndWords is Output, with the last words of a program that may have failed without an error, too.
func OutputAndWords(cmd *exec.Cmd) (printed []byte, words string, err error) {
	var out, said limited
	out.most, said.most = maxOutput, 64<<10
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	words = lastWords(said.String())
	switch {
	case err != nil:
		return out.Bytes(), words, failed(cmd, err, words)
	case out.cut:
		return nil, words, fmt.Errorf("%s: its output has more than %d bytes", cmd.Path, maxOutput)
	}
	return out.Bytes(), words, nil
}

// Follow runs a program and tells the caller each line that it prints or says, as it comes. It returns the last lines
// of what it printed; the error has its last words.
func (r *Run) Follow(cmd *exec.Cmd) (string, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		return "", fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	var printed, words string
	var both sync.WaitGroup
	both.Go(func() { printed = r.lines(out) })
	both.Go(func() { words = r.lines(said) })
	both.Wait()
	if err := cmd.Wait(); err != nil {
		return printed, failed(cmd, err, lastWords(words))
	}
	return printed, nil
}

// lines tells each line, and returns the last ones. A line that is too long comes in parts.
func (r *Run) lines(from io.Reader) string {
	in := bufio.NewReaderSize(from, maxLine)
	var last []string
	for {
		line, _, err := in.ReadLine()
		if err != nil {
			return strings.Join(last, "\n")
		}
		if text := strings.ToValidUTF8(string(line), "\ufffd"); text != "" {
			_ = r.Say("%s", text) // The program goes on when nobody listens; a look ends by its context.
			if last = append(last, text); len(last) > 4 {
				last = last[1:]
			}
		}
	}
}

// failed is why a program failed, with its last words.
func failed(cmd *exec.Cmd, err error, words string) error {
	if words == "" || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", cmd.Path, err)
	}
	return fmt.Errorf("%s: %w: %s", cmd.Path, err, words)
}

// lastWords are the last lines that a program said, in one line.
func lastWords(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines[max(0, len(lines)-4):], "; ")
	if len(text) > maxWords {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxWords:], "")
	}
	return text
}

// limited keeps the first bytes that are written to it.
type limited struct {
	bytes.Buffer
	most int
	cut  bool
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), max(0, l.most-l.Len()))
	l.cut = l.cut || n < len(p)
	_, _ = l.Buffer.Write(p[:n])
	return len(p), nil
}
