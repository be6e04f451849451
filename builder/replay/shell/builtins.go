package shell

import (
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
)

// builtin is a command that needs the shell itself.
type builtin func(ctx context.Context, l *level, hc interp.HandlerContext, args []string, stdin io.Reader, stdout io.Writer) (int, error)

var builtins map[string]builtin

func init() {
	nothing := func(status int) builtin {
		return func(context.Context, *level, interp.HandlerContext, []string, io.Reader, io.Writer) (int, error) {
			return status, nil
		}
	}
	builtins = map[string]builtin{
		"spore-status": func(_ context.Context, _ *level, _ interp.HandlerContext, args []string, _ io.Reader, _ io.Writer) (int, error) {
			return strconv.Atoi(args[1])
		},
		"command": whereIs, "type": whereIs, "which": whereIs, "echo": echo, "umask": umask,
		"hash": nothing(0), "wait": nothing(0), "times": nothing(0), "ulimit": nothing(0), "jobs": nothing(0),
		"kill": nothing(1), "bg": nothing(1), "fg": nothing(1), "enable": nothing(0), "disown": nothing(0), "suspend": nothing(1),
		"history": nothing(0), "fc": nothing(1),
		"sh": subshell, "dash": subshell, "bash": subshell,
		"/bin/sh": subshell, "/bin/dash": subshell, "/bin/bash": subshell, "/usr/bin/sh": subshell, "/usr/bin/bash": subshell, "/usr/bin/dash": subshell,
		"env": env, "/usr/bin/env": env, "nice": wrapped, "ionice": wrapped, "nohup": wrapped, "setsid": wrapped, "timeout": wrapped, "chronic": wrapped,
		"stdbuf": wrapped, "/usr/bin/nice": wrapped,
	}
}

// known tells whether a name can be called without a file of the tree.
func (l *level) known(name string) bool { return shellBuiltins[name] || l.Questions[name] != nil }

// shellBuiltins are what `command -v` finds in every shell.
var shellBuiltins = map[string]bool{
	"echo": true, "printf": true, "test": true, "[": true, "cd": true, "true": true, "false": true, ":": true, "command": true, "type": true, "read": true,
	"set": true, "shift": true, "unset": true, "export": true, "eval": true, "exec": true, "exit": true, "return": true, "trap": true, "umask": true,
	"local": true, "kill": true, "hash": true, "pwd": true, "getopts": true, "ulimit": true, "wait": true, ".": true,
}

// whereIs is which(1), `command -v` and `type`: what the image has answers, not what this program could do.
func whereIs(_ context.Context, l *level, hc interp.HandlerContext, args []string, _ io.Reader, stdout io.Writer) (int, error) {
	status := 0
	for _, name := range args[1:] {
		switch {
		case strings.HasPrefix(name, "-"):
		case l.known(name) && args[0] != "which":
			fmt.Fprintln(stdout, name)
		default:
			p := l.lookPath(hc, name)
			if p == "" {
				status = 1
				if args[0] == ours+"type" || args[0] == ours+"command" {
					status = 127
				}
				continue
			}
			fmt.Fprintln(stdout, p)
		}
	}
	return status, nil
}

// echo is that of dash, which reads escapes (POSIX echo, XSI).
func echo(_ context.Context, _ *level, _ interp.HandlerContext, args []string, _ io.Reader, stdout io.Writer) (int, error) {
	words, newline := args[1:], "\n"
	if len(words) > 0 && words[0] == "-n" {
		words, newline = words[1:], ""
	}
	text, _, err := expand.Format(&expand.Config{}, "%b", []string{strings.Join(words, " ")})
	if err != nil {
		return 1, nil
	}
	_, err = io.WriteString(stdout, text+newline)
	return 0, err
}

// umaskVariable holds the mask: a variable has the scope that it has in a shell, and no command can change one.
const umaskVariable = "SPORE_UMASK"

// noclobberVariable is set while a redirection writes over no file (set -C), which the interpreter does not know.
const noclobberVariable = "SPORE_NOCLOBBER"

// umask prints the mask. It is set for the whole script: call has put a changed one into the shell's variable.
func umask(_ context.Context, l *level, hc interp.HandlerContext, args []string, _ io.Reader, stdout io.Writer) (int, error) {
	if len(args) == 1 || args[1] == "-S" {
		fmt.Fprintf(stdout, "%04o\n", l.umask(hc))
	}
	return 0, nil
}

func (l *level) umask(hc interp.HandlerContext) uint32 {
	if m, err := strconv.ParseUint(hc.Env.Get(umaskVariable).String(), 8, 32); err == nil {
		return uint32(m) & 0o777
	}
	return 0o022
}

// subshell is sh(1): -c TEXT, or a script.
func subshell(ctx context.Context, l *level, hc interp.HandlerContext, args []string, stdin io.Reader, stdout io.Writer) (int, error) {
	first := "#!/bin/" + path.Base(args[0])
	words := args[1:]
	text := false
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' {
		flags := words[0][1:]
		words = words[1:]
		if flags == "-" {
			break
		}
		if strings.Trim(flags, "celux") != "" {
			return 0, &Unreplayed{args[0] + " -" + flags, "only -c, -e, -l, -u and -x are known"}
		}
		text = text || strings.Contains(flags, "c")
		if strings.Contains(flags, "e") {
			first = "#!/bin/" + path.Base(args[0]) + " -e"
		}
	}
	s := Script{Name: l.name, Env: exported(hc)}
	switch {
	case text && len(words) > 0:
		s.Text = first + "\n" + words[0]
		if len(words) > 1 {
			s.Args = words[2:]
		}
	case text:
		return 2, nil
	case len(words) == 0:
		data, err := io.ReadAll(io.LimitReader(stdin, maxScript+1))
		if err != nil {
			return 0, err
		}
		s.Text = first + "\n" + string(data)
	case path.IsAbs(words[0]) && l.command(words[0]) != nil: // "bash /usr/bin/x" starts what x starts
		return l.run1(ctx, hc, words, stdin, stdout)
	default:
		p := words[0]
		if !path.IsAbs(p) {
			p = path.Join(hc.Dir, p)
		}
		data, err := l.Files.ReadFile(p)
		if err != nil {
			fmt.Fprintf(hc.Stderr, "%s: cannot open %s\n", args[0], words[0])
			return 2, nil
		}
		s.Name, s.Text, s.Args = p, string(data), words[1:]
	}
	return l.script(ctx, s, l.depth+1, stdin, stdout, hc.Stderr)
}

// env is env(1): a command with other variables.
func env(ctx context.Context, l *level, hc interp.HandlerContext, args []string, stdin io.Reader, stdout io.Writer) (int, error) {
	words := args[1:]
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		switch {
		case words[0] == "-i" || words[0] == "-" || words[0] == "--ignore-environment":
		case words[0] == "-u" && len(words) > 1:
			words = words[1:]
		case words[0] == "--":
		default:
			return 0, &Unreplayed{"env " + words[0], "the option is not known"}
		}
		words = words[1:]
	}
	over := map[string]string{}
	for len(words) > 0 {
		name, value, ok := strings.Cut(words[0], "=")
		if !ok {
			break
		}
		over[name] = value
		words = words[1:]
	}
	if len(words) == 0 {
		for _, v := range exported(hc) {
			fmt.Fprintln(stdout, v)
		}
		return 0, nil
	}
	hc.Env = overlay{hc.Env, over}
	return l.run1(ctx, hc, words, stdin, stdout)
}

// overlay is an environment with other values of some variables.
type overlay struct {
	expand.Environ
	over map[string]string
}

// Get implements expand.Environ.
func (o overlay) Get(name string) expand.Variable {
	if v, ok := o.over[name]; ok {
		return expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: v}
	}
	return o.Environ.Get(name)
}

// Each implements expand.Environ.
func (o overlay) Each(fn func(string, expand.Variable) bool) {
	for name := range o.Environ.Each {
		if _, ok := o.over[name]; !ok && !fn(name, o.Environ.Get(name)) {
			return
		}
	}
	for name := range o.over {
		if !fn(name, o.Get(name)) {
			return
		}
	}
}

// wrapped are commands that only change how another runs.
func wrapped(ctx context.Context, l *level, hc interp.HandlerContext, args []string, stdin io.Reader, stdout io.Writer) (int, error) {
	words := args[1:]
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		takesValue := len(words[0]) == 2 && strings.Contains("ncksio", words[0][1:])
		words = words[1:]
		if takesValue && len(words) > 0 {
			words = words[1:]
		}
	}
	if path.Base(args[0]) == "timeout" && len(words) > 0 {
		words = words[1:]
	}
	if len(words) == 0 {
		return 0, nil
	}
	return l.run1(ctx, hc, words, stdin, stdout)
}
