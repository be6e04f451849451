package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Args are the arguments of one command, as it declares them.
type Args struct {
	flags   *flag.FlagSet
	options []option
	// words is how the words are written; there are at least least and at most most of them.
	words       string
	least, most int
	given       []string
	// tail is how what follows "--" is written; empty when nothing may.
	tail  string
	after []string
	// through says that options are words, too.
	through bool
}

// option is a declared option.
type option struct {
	name, value, about string
	needed             bool
}

func (o option) text() string {
	if o.value == "" {
		return "--" + o.name
	}
	return "--" + o.name + " " + o.value
}

func newArgs() *Args {
	a := &Args{flags: flag.NewFlagSet("", flag.ContinueOnError)}
	a.flags.SetOutput(io.Discard)
	return a
}

// Bool declares an option that is there or not.
func (a *Args) Bool(name, about string) *bool {
	a.options = append(a.options, option{name: name, about: about})
	return a.flags.Bool(name, false, "")
}

// String declares an option with a value, which help calls value.
func (a *Args) String(name, value, about string) *string {
	a.options = append(a.options, option{name: name, value: value, about: about})
	return a.flags.String(name, "", "")
}

// Needed declares an option with a value that has to be there.
func (a *Args) Needed(name, value, about string) *string {
	s := a.String(name, value, about)
	a.options[len(a.options)-1].needed = true
	return s
}

// Words declares what is there besides options, at least least and at most most, which help writes as text.
func (a *Args) Words(text string, least, most int) *[]string {
	a.words, a.least, a.most = text, least, most
	return &a.given
}

// Tail declares that "--" and something may follow, which is left as it is.
func (a *Args) Tail(text string) *[]string {
	a.tail = text
	return &a.after
}

// Through declares that all arguments are words, options among them, since another program reads them. Where none is
// needed, that program has the help, too.
func (a *Args) Through(text string, least int) *[]string {
	a.through, a.words, a.least = true, text, least
	return &a.given
}

// parse reads the arguments; flag.ErrHelp is help that was asked for.
func (a *Args) parse(args []string) error {
	if a.through {
		a.given = args
		if a.least > 0 && len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
			return flag.ErrHelp
		}
		if len(args) < a.least {
			return a.few()
		}
		return nil
	}
	if i := slices.Index(args, "--"); i >= 0 && a.tail != "" {
		if a.after = args[i+1:]; len(a.after) == 0 {
			return Wrongly("nothing follows --")
		}
		args = args[:i]
	}
	for len(args) > 0 {
		if err := a.flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return err
		} else if err != nil {
			return Wrongly("%s", spoken(err))
		}
		if args = a.flags.Args(); len(args) > 0 { // Options may come after words.
			a.given, args = append(a.given, args[0]), args[1:]
		}
	}
	switch {
	case len(a.given) < a.least:
		return a.few()
	case len(a.given) > a.most:
		return Wrongly("%q is one word too many", a.given[a.most])
	}
	given := map[string]bool{}
	a.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, o := range a.options {
		if o.needed && !given[o.name] {
			return Wrongly("--%s is missing", o.name)
		}
		if given[o.name] && a.flags.Lookup(o.name).Value.String() == "" { // As of a variable of a shell that is not set.
			return Wrongly("--%s is empty", o.name)
		}
	}
	return nil
}

func (a *Args) few() error {
	return Wrongly("%s is missing", strings.Join(strings.Fields(a.words)[len(a.given):], " "))
}

// spoken is an error of package flag in the words of the usage, whose options have two dashes.
func spoken(err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return fmt.Sprintf("unknown option --%s", name)
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Sprintf("--%s wants a value", name)
	}
	return text
}
