// Package sed has the command sed, as GNU sed 4.9 does it in the locale C. Left out: the command e and the flag e of s,
// which run programs, and --posix and --debug.
package sed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/getopt"
	"spore/builder/replay/text/stream"
)

// Exit statuses of sed.
const (
	statusUsage = 1
	statusInput = 2
	statusPanic = 4
)

type settings struct {
	quiet, extended, separate, inPlace, zero bool
	suffix                                   string
	script                                   []string
	given                                    bool
}

// Command is the command sed.
func Command() command.Func {
	return stream.Buffered(func(ctx context.Context, c *command.Call) (int, error) {
		s, operands, status, err := read(c)
		if err != nil || status != 0 {
			return status, err
		}
		program, err := parse(strings.Join(s.script, "\n"), s.extended)
		var unknown *unknownError
		if errors.Is(err, files.ErrBound) || errors.As(err, &unknown) {
			return 0, fmt.Errorf("%s: %w", c.Name, err)
		}
		var label *labelError
		if errors.As(err, &label) {
			return c.Fail(statusPanic, "%v", err)
		}
		if err != nil {
			return c.Fail(statusUsage, "%v", err)
		}
		return run(ctx, c, s, program, operands)
	})
}

func read(c *command.Call) (s *settings, operands []string, status int, err error) {
	s = &settings{}
	options, operands, err := getopt.Parse(c, getopt.Spec{Short: "ne:f:Ersi::zul:", Long: map[string]rune{
		"quiet": 'n', "silent": 'n', "expression": 'e', "file": 'f', "regexp-extended": 'E', "separate": 's',
		"in-place":  'i',
		"null-data": 'z', "zero-terminated": 'z', "unbuffered": 'u', "line-length": 'l',
	}})
	if err != nil {
		return nil, nil, 0, err
	}
	for _, o := range options {
		switch o.Letter {
		case 'n':
			s.quiet = true
		case 'e':
			s.script, s.given = append(s.script, o.Value), true
		case 'f':
			data, err := stream.Read(c, o.Value)
			if errors.Is(err, files.ErrBound) {
				return nil, nil, 0, err
			}
			if err != nil {
				status, _ := c.Fail(statusUsage, "couldn't open file %s: %s", o.Value, stream.Message(err))
				return nil, nil, status, nil
			}
			s.script, s.given = append(s.script, strings.TrimSuffix(string(data), "\n")), true
		case 'E', 'r':
			s.extended = true
		case 's':
			s.separate = true
		case 'i':
			s.inPlace, s.separate, s.suffix = true, true, o.Value
		case 'z':
			s.zero = true
		case 'l':
			_, err := c.Unknown("-l")
			return nil, nil, 0, err
		}
	}
	if !s.given {
		if len(operands) == 0 {
			status, _ := c.Fail(statusUsage,
				"no script; usage: sed [OPTION]... {script-only-if-no-other-script} [input-file]...")
			return nil, nil, status, nil
		}
		s.script, operands = operands[:1], operands[1:]
	}
	return s, operands, 0, nil
}

// run applies the script to all files.
func run(ctx context.Context, c *command.Call, s *settings, program *script, names []string) (int, error) {
	inputs, status, err := open(c, s, names)
	if err != nil {
		return 0, err
	}
	e := &editor{ctx: ctx, c: c, s: s, script: program, quiet: s.quiet || program.quiet, newline: '\n'}
	if s.zero {
		e.newline = 0
	}
	e.out = &output{w: c.Stdout}
	if err := e.openWrites(); err != nil {
		return 0, err
	}
	if s.separate {
		for _, in := range inputs {
			if err := e.one(in); err != nil {
				return 0, fmt.Errorf("%s: %w", c.Name, err)
			}
			if e.quit {
				break
			}
		}
	} else if err := e.edit(inputs); err != nil {
		return 0, fmt.Errorf("%s: %w", c.Name, err)
	}
	if err := e.closeWrites(); err != nil {
		return 0, err
	}
	if e.status != 0 {
		status = e.status
	}
	return status, nil
}

// open reads the files; those that cannot be read are left out with the message of sed.
func open(c *command.Call, s *settings, names []string) (inputs []stream.Input, status int, err error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	total := 0
	for _, name := range names {
		if s.inPlace && c.Files.IsDir(c.Path(name)) {
			status, _ = c.Fail(statusPanic, "couldn't edit %s: not a regular file", name)
			continue
		}
		data, err := stream.Read(c, name)
		switch {
		case errors.Is(err, files.ErrBound):
			return nil, 0, err
		case err != nil && c.Files.IsDir(c.Path(name)):
			status, _ = c.Fail(statusInput, "couldn't read %s: Is a directory", name)
			continue
		case err != nil:
			status, _ = c.Fail(statusInput, "can't read %s: %s", name, stream.Message(err))
			continue
		}
		if total += len(data); total > stream.MaxInput {
			return nil, 0, fmt.Errorf("%s: over %d bytes of input: %w", c.Name, stream.MaxInput, files.ErrBound)
		}
		inputs = append(inputs, stream.Input{Name: name, Data: data})
	}
	return inputs, status, nil
}

// one edits one file of its own, in place if so asked.
func (e *editor) one(in stream.Input) error {
	if !e.s.inPlace || in.Name == "-" {
		return e.edit([]stream.Input{in})
	}
	var b bytes.Buffer
	stdout := e.out
	e.out = &output{w: &b, limit: stream.MaxOutput}
	err := e.edit([]stream.Input{in})
	e.out = stdout
	if err != nil {
		return err
	}
	return e.replace(in.Name, b.Bytes())
}

// replace puts a new file at the place of the old one, with its owner and mode. As sed does, it leaves other names of
// the old file alone, and puts a file where a symbolic link was.
func (e *editor) replace(name string, data []byte) error {
	p := e.c.Path(name)
	old, err := e.c.Files.Stat(p)
	if err != nil {
		return fmt.Errorf("edit %s: %w", name, err)
	}
	if e.s.suffix != "" {
		backup := path.Base(p) + e.s.suffix
		if strings.Contains(e.s.suffix, "*") {
			backup = strings.ReplaceAll(e.s.suffix, "*", path.Base(p))
		}
		if !strings.Contains(backup, "/") {
			backup = path.Join(path.Dir(p), backup)
		}
		if err := e.c.Files.Copy(old, e.c.Path(backup)); err != nil {
			return fmt.Errorf("keep %s as %s: %w", name, backup, err)
		}
	}
	if err := e.c.Files.Copy(old, p); err != nil {
		return fmt.Errorf("edit %s: %w", name, err)
	}
	if err := e.c.Files.WriteFile(p, data, old.Mode); err != nil {
		return fmt.Errorf("edit %s: %w", name, err)
	}
	return nil
}
