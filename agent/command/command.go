// Package command reads what a program of a node was called with. A program is a table of commands; each declares its
// options and words, and gets them checked. Help is asked for by --help, of the program and of each command, and is not
// an error. Wrong usage is a Wrong, which names what was wrong and how the command is written.
//
// It stands on package flag of the standard library, and adds the table, words before options, and what follows "--".
// Programs for people have a larger library in builder; here each package that is linked costs memory on every node.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Run does what the arguments said.
type Run func(ctx context.Context) error

// Command is a row of the table.
type Command struct {
	// Name is one word, or two where a command has several of its kind.
	Name string
	// About says what it does.
	About string
	// Read declares the options and words, and returns what runs when they were read.
	Read func(a *Args) Run
	// Example is a command line; without one it is the name alone.
	Example string
}

// Table is a program and its commands.
type Table struct {
	// Program is how people call it.
	Program  string
	Commands []Command
	// Example is a command line of the program.
	Example string
}

// Wrong is wrong usage.
type Wrong struct {
	// Problem is what was wrong.
	Problem string
	// Usage is how it is written.
	Usage string
}

func (w Wrong) Error() string {
	if w.Usage == "" {
		return w.Problem
	}
	return w.Problem + "\n" + w.Usage
}

// Wrongly is the error of a command whose arguments do not fit together; the table adds how it is written.
func Wrongly(format string, a ...any) error { return Wrong{Problem: fmt.Sprintf(format, a...)} }

// Status is the exit status of a program that ended with an error.
func Status(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(Wrong)):
		return 2
	}
	return 1
}

// Dispatch runs the command that the arguments name; help goes to out.
func (t Table) Dispatch(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return Wrong{Problem: "a command is missing", Usage: t.usage(t.Commands)}
	}
	if args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
		_, err := io.WriteString(out, t.usage(t.Commands))
		return err
	}
	c, rest, ok := t.find(args)
	if !ok {
		return t.unknown(args, out)
	}
	a := newArgs()
	run := c.Read(a)
	err := a.parse(rest)
	if errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(out, t.help(c, a))
		return err
	}
	if err == nil {
		err = run(ctx)
	}
	var w Wrong
	if errors.As(err, &w) && w.Usage == "" {
		w.Problem, w.Usage = c.Name+": "+w.Problem, "usage: "+t.line(c, a)
		return w
	}
	return err
}

// find returns the command with the longest name that the arguments begin with.
func (t Table) find(args []string) (c Command, rest []string, ok bool) {
	for n := min(2, len(args)); n > 0; n-- {
		name := strings.Join(args[:n], " ")
		if i := slices.IndexFunc(t.Commands, func(c Command) bool { return c.Name == name }); i >= 0 {
			return t.Commands[i], args[n:], true
		}
	}
	return c, nil, false
}

// unknown answers for a name that the table does not have: it may be the first word of several.
func (t Table) unknown(args []string, out io.Writer) error {
	var kind []Command
	for _, c := range t.Commands {
		if strings.HasPrefix(c.Name, args[0]+" ") {
			kind = append(kind, c)
		}
	}
	switch {
	case len(kind) == 0:
		return Wrong{Problem: fmt.Sprintf("unknown command %q", args[0]), Usage: t.usage(t.Commands)}
	case len(args) > 1 && (args[1] == "--help" || args[1] == "-h"):
		_, err := io.WriteString(out, t.usage(kind))
		return err
	case len(args) > 1:
		return Wrong{Problem: fmt.Sprintf("unknown command %q", args[0]+" "+args[1]), Usage: t.usage(kind)}
	}
	return Wrong{Problem: fmt.Sprintf("%s wants one more word", args[0]), Usage: t.usage(kind)}
}

// usage lists commands.
func (t Table) usage(commands []Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s COMMAND, and %s COMMAND --help\n\n", t.Program, t.Program)
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-20s %s\n", c.Name, c.About)
	}
	fmt.Fprintf(&b, "\nExample: %s\n", t.Example)
	return b.String()
}

// help says all of one command.
func (t Table) help(c Command, a *Args) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n\n%s\n", t.line(c, a), strings.ToUpper(c.About[:1])+c.About[1:]+".")
	for i, o := range a.options {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "  %-24s %s\n", o.text(), o.about)
	}
	example := c.Example
	if example == "" {
		example = t.Program + " " + c.Name
	}
	fmt.Fprintf(&b, "\nExample: %s\n", example)
	return b.String()
}

// line is how a command is written.
func (t Table) line(c Command, a *Args) string {
	parts := []string{t.Program, c.Name}
	for _, o := range a.options {
		if o.needed {
			parts = append(parts, o.text())
		} else {
			parts = append(parts, "["+o.text()+"]")
		}
	}
	if a.words != "" {
		parts = append(parts, a.words)
	}
	if a.tail != "" {
		parts = append(parts, "[-- "+a.tail+"]")
	}
	return strings.Join(parts, " ")
}
