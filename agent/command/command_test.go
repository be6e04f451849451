package command_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/command"
)

// got is what a command was run with.
type got struct {
	name, disk  string
	yes         bool
	words, tail []string
}

// table is a program that notes in g what runs.
func table(g *got) command.Table {
	note := func(set func()) command.Run {
		return func(context.Context) error { set(); return nil }
	}
	return command.Table{Program: "spore-x", Example: "spore-x plain", Commands: []command.Command{
		{Name: "plain", About: "do it", Read: func(*command.Args) command.Run { return note(func() { g.name = "plain" }) }},
		{Name: "show one", About: "show one", Read: func(*command.Args) command.Run { return note(func() { g.name = "show one" }) }},
		{Name: "show", About: "show all", Read: func(*command.Args) command.Run { return note(func() { g.name = "show" }) }},
		{Name: "group a", About: "first", Read: func(*command.Args) command.Run { return note(func() { g.name = "group a" }) }},
		{Name: "take", About: "take it", Example: "spore-x take --disk S1 a", Read: func(a *command.Args) command.Run {
			disk, yes, words := a.Needed("disk", "SERIAL", "which one"), a.Bool("yes", "do not ask"), a.Words("NAME [VERB]", 1, 2)
			return note(func() { *g = got{name: "take", disk: *disk, yes: *yes, words: *words} })
		}},
		{Name: "become", About: "become it", Read: func(a *command.Args) command.Run {
			words, tail := a.Words("NAME", 1, 1), a.Tail("PROGRAM [ARGUMENT...]")
			return note(func() { *g = got{name: "become", words: *words, tail: *tail} })
		}},
		{Name: "pass", About: "pass on", Read: func(a *command.Args) command.Run {
			words := a.Through("COMMAND", 0)
			return note(func() { *g = got{name: "pass", words: *words} })
		}},
		{Name: "mount", About: "mount", Read: func(a *command.Args) command.Run {
			words := a.Through("SOURCE DIRECTORY", 2)
			return note(func() { *g = got{name: "mount", words: *words} })
		}},
		{Name: "fail", About: "fail", Read: func(*command.Args) command.Run {
			return func(context.Context) error { return errors.New("the work failed") }
		}},
		{Name: "clash", About: "clash", Read: func(*command.Args) command.Run {
			return func(context.Context) error { return command.Wrongly("a and b do not go together") }
		}},
	}}
}

func TestACommandGetsItsArguments(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want got
	}{
		"none":                   {[]string{"plain"}, got{name: "plain"}},
		"two words":              {[]string{"show", "one"}, got{name: "show one"}},
		"one of two words":       {[]string{"show"}, got{name: "show"}},
		"options first":          {[]string{"take", "--yes", "--disk", "S1", "a"}, got{name: "take", disk: "S1", yes: true, words: []string{"a"}}},
		"options last":           {[]string{"take", "a", "b", "--disk=S1"}, got{name: "take", disk: "S1", words: []string{"a", "b"}}},
		"options between":        {[]string{"take", "a", "--disk", "S1", "b"}, got{name: "take", disk: "S1", words: []string{"a", "b"}}},
		"a program follows":      {[]string{"become", "etcd", "--", "/x", "--help", "--"}, got{name: "become", words: []string{"etcd"}, tail: []string{"/x", "--help", "--"}}},
		"no program follows":     {[]string{"become", "etcd"}, got{name: "become", words: []string{"etcd"}}},
		"all goes to another":    {[]string{"pass", "show", "--help"}, got{name: "pass", words: []string{"show", "--help"}}},
		"options of another":     {[]string{"mount", "a", "/var", "-o", "ro"}, got{name: "mount", words: []string{"a", "/var", "-o", "ro"}}},
		"help goes to the other": {[]string{"pass", "--help"}, got{name: "pass", words: []string{"--help"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var g got
			require.NoError(t, table(&g).Dispatch(t.Context(), tt.args, new(bytes.Buffer)))
			require.Equal(t, tt.want, g)
		})
	}
}

func TestWrongUsageSaysWhatToWrite(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no command":               {nil, "a command is missing\nUsage: spore-x COMMAND"},
		"an unknown one":           {[]string{"frob"}, "unknown command \"frob\"\nUsage: spore-x COMMAND"},
		"a word too many":          {[]string{"plain", "x"}, "plain: \"x\" is one word too many\nusage: spore-x plain"},
		"a second word is missing": {[]string{"group"}, "group wants one more word\nUsage: spore-x COMMAND, and spore-x COMMAND --help\n\n  group a "},
		"a second word is unknown": {[]string{"group", "b"}, "unknown command \"group b\"\n"},
		"a word is missing":        {[]string{"take", "--disk", "S1"}, "take: NAME [VERB] is missing\nusage: spore-x take --disk SERIAL [--yes] NAME [VERB]"},
		"an option is missing":     {[]string{"take", "a"}, "take: --disk is missing\nusage: "},
		"an option is empty":       {[]string{"take", "a", "--disk", ""}, "take: --disk is empty\n"},
		"an option without value":  {[]string{"take", "a", "--disk"}, "take: --disk wants a value\n"},
		"an unknown option":        {[]string{"take", "-x"}, "take: unknown option --x\n"},
		"a value for none":         {[]string{"take", "--yes=7"}, "invalid boolean value"},
		"nothing to become":        {[]string{"become", "etcd", "--"}, "become: nothing follows --\nusage: spore-x become NAME [-- PROGRAM [ARGUMENT...]]"},
		"a tail that none wants":   {[]string{"plain", "--", "x"}, "plain: \"x\" is one word too many"},
		"nothing to pass on":       {[]string{"mount", "a"}, "mount: DIRECTORY is missing\nusage: spore-x mount SOURCE DIRECTORY"},
		"what does not fit":        {[]string{"clash"}, "clash: a and b do not go together\nusage: spore-x clash"},
	} {
		t.Run(name, func(t *testing.T) {
			var g got
			err := table(&g).Dispatch(t.Context(), tt.args, new(bytes.Buffer))
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, 2, command.Status(err))
			require.Empty(t, g.name, "nothing runs")
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"of the program":          {[]string{"--help"}, "Usage: spore-x COMMAND, and spore-x COMMAND --help\n\n  plain                do it\n"},
		"by its name":             {[]string{"help"}, "Example: spore-x plain\n"},
		"of a command":            {[]string{"take", "--help"}, "Usage: spore-x take --disk SERIAL [--yes] NAME [VERB]\n\nTake it.\n\n  --disk SERIAL            which one\n  --yes                    do not ask\n\nExample: spore-x take --disk S1 a\n"},
		"behind other things":     {[]string{"take", "a", "-h"}, "Take it."},
		"of one without any":      {[]string{"plain", "--help"}, "Usage: spore-x plain\n\nDo it.\n\nExample: spore-x plain\n"},
		"of several of a kind":    {[]string{"group", "--help"}, "  group a              first\n"},
		"before a program":        {[]string{"become", "--help", "--", "/x"}, "Become it."},
		"of one that others call": {[]string{"mount", "--help"}, "Usage: spore-x mount SOURCE DIRECTORY\n"},
		"of one with two words":   {[]string{"show", "one", "--help"}, "Usage: spore-x show one\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var g got
			var out bytes.Buffer
			err := table(&g).Dispatch(t.Context(), tt.args, &out)
			require.NoError(t, err)
			require.Equal(t, 0, command.Status(err))
			require.Contains(t, out.String(), tt.want)
			require.Empty(t, g.name, "nothing runs")
		})
	}
}

func TestWorkThatFailsIsNoWrongUsage(t *testing.T) {
	err := table(new(got)).Dispatch(t.Context(), []string{"fail"}, new(bytes.Buffer))
	require.EqualError(t, err, "the work failed")
	require.Equal(t, 1, command.Status(err))
}

func FuzzDispatch(f *testing.F) {
	for _, seed := range []string{"take\n--disk\nS1\na", "become\nx\n--\n/y", "group\n-h", "pass\n--help", "\n", "take\n--yes=x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var g got
		var out bytes.Buffer
		err := table(&g).Dispatch(t.Context(), splitLines(text), &out)
		if s := command.Status(err); s == 2 && (g.name != "" || !bytes.Contains([]byte(err.Error()), []byte("sage: spore-x"))) {
			t.Fatalf("%q: ran %q, %v", text, g.name, err)
		}
	})
}

func splitLines(text string) (out []string) {
	for _, line := range bytes.Split([]byte(text), []byte("\n")) {
		out = append(out, string(line))
	}
	return out
}
