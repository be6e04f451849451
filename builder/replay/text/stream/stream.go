// Package stream reads and writes the texts of commands with bounds: files and standard input as a whole, standard
// output through a buffer.
package stream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
)

// MaxInput is how many bytes a command reads in all and how many it holds, MaxOutput how many it prints.
const (
	MaxInput  = 64 << 20
	MaxOutput = 64 << 20
)

// statusPipe is the exit status of a process that SIGPIPE ended.
const statusPipe = 128 + 13

// Read reads a file, or standard input for "-". An error that wraps files.ErrBound must end the replay; any other one
// is for Message.
func Read(c *command.Call, name string) ([]byte, error) {
	if name == "-" || name == "/dev/stdin" {
		return readStdin(c)
	}
	p := c.Path(name)
	if c.Files.IsDir(p) {
		return nil, syscall.EISDIR
	}
	return c.Files.ReadFile(p)
}

func readStdin(c *command.Call) ([]byte, error) {
	if c.Stdin == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(c.Stdin, MaxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read standard input of %s: %w", c.Name, err)
	}
	if len(data) > MaxInput {
		return nil, fmt.Errorf("%s: standard input has over %d bytes: %w", c.Name, MaxInput, files.ErrBound)
	}
	return data, nil
}

// Message is what libc's strerror says of an error.
func Message(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory"
	case errors.Is(err, syscall.EISDIR):
		return "Is a directory"
	}
	return err.Error()
}

// Input is one of the texts that a command reads.
type Input struct {
	// Name is the argument, "-" for standard input.
	Name string
	Data []byte
}

// ReadAll reads the files of the arguments, standard input without any. For a file that cannot be read it prints the
// message of the command and leaves it out; failed tells so.
func ReadAll(c *command.Call, names []string) (inputs []Input, failed bool, err error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	total := 0
	for _, name := range names {
		data, err := Read(c, name)
		if errors.Is(err, files.ErrBound) {
			return nil, false, err
		}
		if err != nil {
			fmt.Fprintf(c.Stderr, "%s: %s: %s\n", c.Name, name, Message(err))
			failed = true
			continue
		}
		if total += len(data); total > MaxInput {
			return nil, false, fmt.Errorf("%s: over %d bytes of input: %w", c.Name, MaxInput, files.ErrBound)
		}
		inputs = append(inputs, Input{Name: name, Data: data})
	}
	return inputs, failed, nil
}

// Lines splits a text after each newline. The last line may have none.
func Lines(data []byte) [][]byte {
	var out [][]byte
	for len(data) > 0 {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return append(out, data)
		}
		out = append(out, data[:i+1])
		data = data[i+1:]
	}
	return out
}

// Bare splits a text at its newlines and leaves them out.
func Bare(data []byte) []string {
	lines := Lines(data)
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = string(bytes.TrimSuffix(l, []byte("\n")))
	}
	return out
}

// Buffered gives a command a standard output with a buffer and a bound. A reader that went away ends the command with
// the status of SIGPIPE.
func Buffered(fn command.Func) command.Func {
	return func(ctx context.Context, c *command.Call) (int, error) {
		call := *c
		out := &bounded{w: c.Stdout}
		buf := bufio.NewWriterSize(out, 32<<10)
		call.Stdout = buf
		status, err := fn(ctx, &call)
		flushed := buf.Flush()
		switch {
		case errors.Is(flushed, files.ErrBound):
			return 0, fmt.Errorf("%s: %w", c.Name, flushed)
		case errors.Is(flushed, syscall.EPIPE), errors.Is(flushed, io.ErrClosedPipe), errors.Is(flushed, os.ErrClosed):
			return statusPipe, nil
		case err != nil:
			return status, err
		case flushed != nil:
			return 0, fmt.Errorf("write standard output of %s: %w", c.Name, flushed)
		}
		return status, nil
	}
}

// bounded counts what is printed.
type bounded struct {
	w io.Writer
	n int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.n += len(p); b.n > MaxOutput {
		return 0, fmt.Errorf("over %d bytes of output: %w", MaxOutput, files.ErrBound)
	}
	return b.w.Write(p)
}
