// Package awk has the command awk: programs run in github.com/benhoyt/goawk, a POSIX awk in Go that has a context and
// switches for what leaves the program. (github.com/spakin/awk is for programs in Go that work as awk does; it does not
// read the language.)
//
// Programs start nothing and open nothing. The library reads only standard input; files of the arguments are handed to
// it as one standard input after the other, so that NR and FNR are right, and FILENAME is a function here. Output to
// /dev/stderr and /dev/stdout is printed where it belongs. What is left out is an error: system(), pipes, getline from
// files, print to other files, srand() by the clock, ARGV, nextfile, and ENVIRON without an index.
//
// The library walks an array at random; here for (k in a) goes by numbers and then by bytes.
//
// The library has no bound of memory of its own: input and output have one, a loop has the context, the variables of a
// program have none.
package awk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/benhoyt/goawk/interp"
	"github.com/benhoyt/goawk/parser"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/stream"
)

// maxProgram is the size of the longest program, in bytes.
const maxProgram = 1 << 20

// statusFailed is the exit status of an awk that cannot go on.
const statusFailed = 2

type invocation struct {
	vars     []string
	program  string
	operands []string
}

// Command is the command awk, mawk, gawk or nawk.
func Command() command.Func {
	return stream.Buffered(func(ctx context.Context, c *command.Call) (int, error) {
		in, status, err := read(c)
		if err != nil || status != 0 {
			return status, err
		}
		return run(ctx, c, in)
	})
}

func read(c *command.Call) (in invocation, status int, err error) {
	args := c.Args
	fromFile := false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		letter, value := arg[:2], arg[2:]
		if letter != "-F" && letter != "-v" && letter != "-f" {
			_, err := c.Unknown(arg)
			return in, 0, err
		}
		if value == "" {
			if len(args) == 0 {
				status, _ := c.Fail(statusFailed, "option requires an argument -- %s", letter[1:])
				return in, status, nil
			}
			value, args = args[0], args[1:]
		}
		switch letter {
		case "-F":
			in.vars = append(in.vars, "FS", unescape(value))
		case "-v":
			name, v, ok := strings.Cut(value, "=")
			if !ok {
				status, _ := c.Fail(statusFailed, "improper assignment: -v %s", value)
				return in, status, nil
			}
			in.vars = append(in.vars, name, unescape(v))
		case "-f":
			data, err := stream.Read(c, value)
			if errors.Is(err, files.ErrBound) {
				return in, 0, err
			}
			if err != nil {
				status, _ := c.Fail(statusFailed, "cannot open %q (%s)", value, stream.Message(err))
				return in, status, nil
			}
			in.program += string(data) + "\n"
			fromFile = true
		}
	}
	if !fromFile {
		if len(args) == 0 {
			status, _ := c.Fail(statusFailed,
				"no program; usage: awk [-F value] [-v var=value] 'program text' [file ...]")
			return in, status, nil
		}
		in.program, args = args[0], args[1:]
	}
	in.operands = args
	if len(in.program) > maxProgram {
		return in, 0, fmt.Errorf("%s: a program of %d bytes, over %d: %w", c.Name, len(in.program), maxProgram,
			files.ErrBound)
	}
	return in, 0, nil
}

// unescape reads the escapes of an assignment as those of a string.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if k := strings.IndexByte(`ntrfvab\"/`, s[i]); k >= 0 {
			b.WriteByte("\n\t\r\f\v\a\b\\\"/"[k])
		} else {
			b.WriteString(s[i-1 : i+1])
		}
	}
	return b.String()
}

func run(ctx context.Context, c *command.Call, in invocation) (int, error) {
	program, names, err := rewrite(in.program)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.Name, err)
	}
	source := &source{c: c}
	out := &switched{out: c.Stdout, err: c.Stderr}
	funcs := map[string]any{
		filenameFunc: func() string { return source.name },
		environFunc:  c.Env,
		stderrFunc:   func(on int) { out.toErr = on != 0 },
	}
	maps.Copy(funcs, new(indexes).functions())
	parsed, err := parser.ParseProgram([]byte(program), &parser.ParserConfig{Funcs: funcs})
	if err != nil {
		return c.Fail(statusFailed, "%v", err)
	}
	environ := []string{}
	for _, name := range names {
		if v := c.Env(name); v != "" {
			environ = append(environ, name, v)
		}
	}
	i, err := interp.New(parsed)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.Name, err)
	}
	status, err := i.ExecuteContext(ctx, &interp.Config{
		Stdin: source, Output: out, Error: c.Stderr, Argv0: c.Name, Args: source.arguments(in.operands), Vars: in.vars,
		NoExec: true, NoFileWrites: true, NoFileReads: true, Environ: environ, Funcs: funcs,
	})
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("%s: %w", c.Name, ctx.Err())
	case source.failed != nil && errors.Is(source.failed, files.ErrBound):
		return 0, fmt.Errorf("%s: %w", c.Name, source.failed)
	case source.failed != nil:
		return c.Fail(statusFailed, "cannot open %q (%s)", source.name, stream.Message(source.failed))
	case out.failed != nil:
		return 0, nil // the buffer below keeps the reason
	case err != nil:
		return 0, fmt.Errorf("%s: %w", c.Name, err)
	}
	return status, nil
}

// source is the standard input of a program: its files one after the other. Each ends with io.EOF; the library then
// goes on with its next argument, which is "-" again.
type source struct {
	c      *command.Call
	names  []string
	name   string
	data   *bytes.Reader
	failed error
}

// arguments answers the arguments for the library: assignments as they are, "-" for each file.
func (s *source) arguments(operands []string) (out []string) {
	for _, o := range operands {
		if name, _, ok := strings.Cut(o, "="); ok && isName(name) {
			out = append(out, o)
			continue
		}
		if o == "" {
			continue
		}
		s.names = append(s.names, o)
		out = append(out, "-")
	}
	if len(s.names) == 0 {
		s.names = []string{"-"}
	}
	return out
}

func isName(s string) bool {
	for i := range len(s) {
		if !wordByte(s[i]) || i == 0 && s[i] >= '0' && s[i] <= '9' {
			return false
		}
	}
	return s != ""
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|32 >= 'a' && c|32 <= 'z'
}

// Read implements io.Reader.
func (s *source) Read(b []byte) (int, error) {
	if s.data == nil {
		if len(s.names) == 0 {
			return 0, io.EOF
		}
		name := s.names[0]
		s.names = s.names[1:]
		if s.name = name; name == "-" {
			s.name = ""
		}
		data, err := stream.Read(s.c, name)
		if err != nil {
			s.failed, s.name = err, name
			return 0, err
		}
		s.data = bytes.NewReader(data)
	}
	n, err := s.data.Read(b)
	if err == io.EOF {
		s.data = nil
	}
	return n, err
}

// switched is the output of a program: standard output, or standard error while a print to it runs.
type switched struct {
	out, err io.Writer
	toErr    bool
	failed   error
}

// Write implements io.Writer.
func (s *switched) Write(b []byte) (int, error) {
	if s.toErr {
		return s.err.Write(b)
	}
	n, err := s.out.Write(b)
	if err != nil {
		s.failed = err
	}
	return n, err
}
