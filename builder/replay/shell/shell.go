// Package shell runs a maintainer script with the interpreter of mvdan.cc/sh on a filesystem in memory. Every command
// that the script calls is a function of a table, or a shell script of the tree. No process is started; no file,
// variable, account or clock of the machine that builds is read; the same script on the same tree does the same each
// time. Steps, depth, output, memory and time have bounds.
//
// Of the shells in Go, mvdan.cc/sh (BSD, kept for ten years) parses what dash and bash do and lets its caller serve
// every file and command. u-root's gosh is the same interpreter with a terminal, and the others that exist are toys or
// run processes.
//
// What the interpreter itself would read from the host is closed in two places: prepare changes or refuses syntax
// before a script runs, and call replaces builtins that look for programs on the host.
package shell

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
)

// Bounds of one script, with all the scripts that it calls.
const (
	maxSteps    = 100_000           // simple commands
	maxFrames   = 20_000            // frames of the interpreter's stack, of which one call of a function takes about 20
	maxParallel = 500               // ends of pipes
	maxDepth    = 16                // scripts that call scripts
	maxOutput   = 1 << 20           // bytes that it prints
	maxHeap     = 1 << 30           // bytes of memory above what was there before
	maxScript   = 4 << 20           // bytes of its text; that of keyboard-configuration has 2 MiB
	maxTime     = 120 * time.Second // for what no other bound ends
)

// searchPath is PATH of maintainer scripts under dpkg.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ErrBound is wrapped by errors that tell of a bound that was reached.
var ErrBound = errors.New("more than a maintainer script may do")

// Unreplayed is a command or a construct that cannot be replayed.
type Unreplayed struct {
	// What names it, Why says why not.
	What, Why string
}

// Error implements error.
func (u *Unreplayed) Error() string { return fmt.Sprintf("%s is not replayed: %s", u.What, u.Why) }

// Failed is the exit status of a script that was not 0.
type Failed struct {
	Status int
	// Said is the end of what the script printed to standard error.
	Said string
}

// Error implements error.
func (f *Failed) Error() string {
	if f.Said == "" {
		return fmt.Sprintf("it exits with status %d", f.Status)
	}
	return fmt.Sprintf("it exits with status %d and says %q", f.Status, f.Said)
}

// Question is a command that answers in a variable of the shell, as those of debconf do in RET.
type Question func(args []string) (variable, value string, status int, err error)

// Shell is what scripts run in. It is for one script at a time.
type Shell struct {
	Files    *files.Files
	Commands command.Table
	// Questions are commands that answer in a variable, by name.
	Questions map[string]Question
	// Sourced replaces files that scripts source, by path. May be nil.
	Sourced map[string]string
	// User returns a user of the image; nil knows none.
	User func(name string) (User, bool)
	// Time bounds a script that no other bound ends; 0 is two minutes.
	Time time.Duration
}

// User is an account as scripts see it.
type User struct {
	UID, GID uint32
	Home     string
}

// Script is one script.
type Script struct {
	// Path is $0; empty for Name.
	Path string
	// Name is used in errors, such as "nginx.postinst". Text is the script itself with its first line.
	Name, Text string
	Args       []string
	// Env holds further exported variables, NAME=VALUE.
	Env []string
}

// run is one run of a script with all that it calls.
type run struct {
	*Shell
	env []string

	mu       sync.Mutex
	steps    int
	printed  int64
	ended    error // what ended it, once
	virtual  map[string]string
	routines int
}

// Run runs a script. The error is *Failed for an exit status other than 0, and wraps *Unreplayed, ErrBound,
// files.ErrBound or files.ErrRefused for what ended it before; the line of the script is in its text.
func (s *Shell) Run(ctx context.Context, script Script) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Time, maxTime))
	defer cancel()
	r := &run{Shell: s, virtual: map[string]string{}, routines: runtime.NumGoroutine()}
	r.env = append([]string{
		"PATH=" + searchPath, "HOME=/root", "UID=0", "EUID=0", "GID=0", "LC_ALL=C", "LANG=C", "TZ=UTC", "USER=root", "LOGNAME=root",
		"SHELL=/bin/sh", "TERM=dumb", "TMPDIR=/tmp", "SPORE_PID=100", "SPORE_PPID=1",
	}, script.Env...)
	stop := r.watchMemory(cancel)
	defer stop()
	var said tail
	status, err := r.script(ctx, script, 0, strings.NewReader(""), r.bounded(io.Discard), r.bounded(&said))
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	switch {
	case ended != nil:
		return ended
	case err != nil:
		return err
	case status != 0:
		return &Failed{Status: status, Said: strings.TrimSpace(said.String())}
	}
	return nil
}

// script runs one script to its end and returns its exit status.
func (r *run) script(ctx context.Context, s Script, depth int, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if depth > maxDepth {
		return 0, r.end(fmt.Errorf("%s: scripts call scripts over %d levels: %w", s.Name, maxDepth, ErrBound))
	}
	file, err := prepare(s.Name, s.Text)
	if err != nil {
		return 0, r.end(err)
	}
	file.Name = cmp.Or(s.Path, s.Name)
	level := &level{run: r, name: s.Name, depth: depth, dash: !strings.Contains(firstLine(s.Text), "bash"), stdin: stdin, opened: map[*closing]bool{}}
	i, err := interp.New(
		interp.Env(homes{expand.ListEnviron(append(r.env, s.Env...)...), r.User}),
		interp.Interactive(level.dash), // dash reads aliases in scripts, bash does not
		interp.Dir("/"),
		interp.Params(append([]string{"--"}, s.Args...)...),
		interp.StdIO(stdin, stdout, stderr),
		interp.CallHandler(level.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return level.exec }),
		interp.OpenHandler(level.open),
		interp.ReadDirHandler2(level.readDir),
		interp.StatHandler(level.stat),
		interp.AccessHandler(level.access),
	)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.Name, err)
	}
	if options := shebangOptions(s.Text); options != "" {
		if err := interp.Params(options)(i); err != nil {
			return 0, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	err = i.Run(ctx, file)
	if e := level.closeAll(); e != nil {
		return 0, r.end(fmt.Errorf("%s: %w", s.Name, e))
	}
	var status interp.ExitStatus
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &status):
		return int(status), nil
	case ctx.Err() != nil:
		return 0, r.end(fmt.Errorf("%s: it does not end: %w", s.Name, ErrBound))
	}
	return 0, r.end(fmt.Errorf("%s: %w", s.Name, err))
}

// end keeps the first error that ends a run: the interpreter loses those of pipes and subshells.
func (r *run) end(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = err
	}
	return r.ended
}

// step counts a simple command and checks the bounds that only grow with such steps.
func (r *run) step() error {
	r.mu.Lock()
	r.steps++
	steps, ended := r.steps, r.ended
	r.mu.Unlock()
	switch {
	case ended != nil:
		return ended
	case steps > maxSteps:
		return fmt.Errorf("over %d commands: %w", maxSteps, ErrBound)
	case runtime.NumGoroutine() > r.routines+maxParallel:
		return fmt.Errorf("over %d pipes at a time: %w", maxParallel, ErrBound)
	case steps%16 == 0 && runtime.Callers(maxFrames, make([]uintptr, 1)) > 0:
		return fmt.Errorf("functions that call each other without end: %w", ErrBound)
	}
	return nil
}

// writer counts what is printed.
type writer struct {
	run *run
	w   io.Writer
}

func (r *run) bounded(w io.Writer) io.Writer { return &writer{r, w} }

// Write implements io.Writer.
func (w *writer) Write(b []byte) (int, error) {
	w.run.mu.Lock()
	w.run.printed += int64(len(b))
	over := w.run.printed > maxOutput
	w.run.mu.Unlock()
	if over {
		return 0, w.run.end(fmt.Errorf("over %d bytes of output: %w", maxOutput, ErrBound))
	}
	return w.w.Write(b)
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	data []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, b...)
	if over := len(t.data) - 1000; over > 0 {
		t.data = bytes.Clone(t.data[over:])
	}
	return len(b), nil
}

// String returns the end.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// shebangOptions are those of the first line that a shell takes: "#!/bin/sh -e".
func shebangOptions(text string) string {
	line, ok := strings.CutPrefix(firstLine(text), "#!")
	f := strings.Fields(line)
	if !ok || len(f) < 2 || !strings.HasPrefix(f[1], "-") || strings.Trim(f[1], "-eux") != "" {
		return ""
	}
	return f[1]
}

// Interpreter returns what the first line of a program names, without its directory: "sh", "perl", "" for none.
func Interpreter(head []byte) string {
	line, ok := strings.CutPrefix(firstLine(string(head)), "#!")
	f := strings.Fields(line)
	if !ok || len(f) == 0 {
		return ""
	}
	if path.Base(f[0]) == "env" && len(f) > 1 {
		return path.Base(f[1])
	}
	return path.Base(f[0])
}

// isShell tells whether an interpreter is one that this package stands for.
func isShell(name string) bool { return name == "sh" || name == "dash" || name == "bash" }

// Check parses a script as Run does, without running it.
func Check(name, text string) error {
	_, err := prepare(name, text)
	return err
}
