package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"spore/builder/replay/command"
	"spore/builder/tree"
)

// ours is before the names of commands that stand for builtins of the interpreter; no program has a NUL in its name.
const ours = "\x00"

// virtualDir is where text to be sourced is served from.
const virtualDir = "/.spore-sourced/"

// replaced are builtins that the interpreter would answer from the host, or does not have.
var replaced = map[string]bool{
	"type": true, "hash": true, "kill": true, "umask": true, "times": true, "ulimit": true, "jobs": true, "wait": true, "bg": true, "fg": true,
	"enable": true, "suspend": true, "disown": true, "history": true, "fc": true,
}

// level is one script of a run.
type level struct {
	*run
	name  string
	depth int
	// dash tells that echo reads escapes, as that of dash does.
	dash  bool
	stdin io.Reader
	// opened are the files that the script writes and that nobody has closed: a redirection of exec lasts to its end.
	opened map[*closing]bool
}

// call sees every simple command before the interpreter does.
func (l *level) call(ctx context.Context, args []string) ([]string, error) {
	if err := l.step(); err != nil {
		return nil, l.at(ctx, err)
	}
	name := args[0]
	if name == inBackground {
		return nil, l.at(ctx, &Unreplayed{"a command in the background", "nothing runs beside a script at build"})
	}
	if l.Questions[name] != nil {
		return l.ask(ctx, args)
	}
	switch {
	case name == "umask" && len(args) > 1 && args[1] != "-S":
		if strings.Trim(args[1], "01234567") != "" {
			return nil, l.at(ctx, &Unreplayed{"umask " + args[1], "only octal masks are known"})
		}
		return []string{"eval", umaskVariable + "=" + args[1]}, nil
	case name == "set" && len(args) == 2 && (args[1] == "-C" || args[1] == "+C"):
		return []string{"eval", noclobberVariable + "=" + strings.TrimPrefix(args[1], "+C")}, nil
	case name == "echo" && l.dash, replaced[name]:
		return append([]string{ours + name}, args[1:]...), nil
	case name == "command" && len(args) > 1 && (args[1] == "-v" || args[1] == "-V"):
		return append([]string{ours + "command"}, args[1:]...), nil
	case name == "command" && len(args) > 2 && args[1] == "-p":
		return append([]string{"command"}, args[2:]...), nil
	case name == "printf" && len(args) > 1 && strings.Contains(args[1], "%("):
		return nil, l.at(ctx, &Unreplayed{"printf of the time", "a build gives the same each time"})
	case name == "test" || name == "[":
		return l.owned(interp.HandlerCtx(ctx), args), nil
	case name == "read" && readsHere(args):
		return l.read(ctx, args)
	case name == "trap":
		return trapArguments(args), nil
	case name == "eval":
		text, err := prepareText(l.name, strings.Join(args[1:], " "))
		if err != nil {
			return nil, l.at(ctx, err)
		}
		return []string{"eval", text}, nil
	case (name == "." || name == "source") && len(args) > 1:
		return l.source(ctx, args)
	}
	return args, nil
}

// owned answers the questions whether a file belongs to who asks: the interpreter would ask for the user who builds.
// Who asks is root, or the user of su(1), which sets USER.
func (l *level) owned(hc interp.HandlerContext, args []string) []string {
	out := slices.Clone(args)
	for i := 1; i+1 < len(out); i++ {
		if out[i] != "-O" && out[i] != "-G" {
			continue
		}
		var u User
		if l.User != nil {
			if user, ok := l.User(hc.Env.Get("USER").String()); ok {
				u = user
			}
		}
		p := out[i+1]
		if !path.IsAbs(p) {
			p = path.Join(hc.Dir, p)
		}
		n, err := l.Files.Stat(p)
		if is := err == nil && (out[i] == "-O" && n.UID == u.UID || out[i] == "-G" && n.GID == u.GID); is {
			out[i], out[i+1] = "-n", "yes"
		} else {
			out[i], out[i+1] = "-n", ""
		}
	}
	return out
}

// trapArguments leaves the signals that end a process away: none comes.
func trapArguments(args []string) []string {
	if len(args) < 3 || strings.HasPrefix(args[1], "-") && args[1] != "-" {
		return args
	}
	out := slices.Clone(args[:2])
	for _, signal := range args[2:] {
		switch strings.TrimPrefix(strings.ToUpper(signal), "SIG") {
		case "EXIT", "0":
			out = append(out, "EXIT")
		case "ERR":
			out = append(out, "ERR")
		}
	}
	if len(out) == 2 {
		return []string{"true"}
	}
	return out
}

// source gives the interpreter the prepared text of the file to read.
func (l *level) source(ctx context.Context, args []string) ([]string, error) {
	hc := interp.HandlerCtx(ctx)
	p := args[1]
	if !strings.Contains(p, "/") {
		if found := l.lookPath(hc, p); found != "" {
			p = found
		}
	}
	if !path.IsAbs(p) {
		p = path.Join(hc.Dir, p)
	}
	text, ok := l.Sourced[p]
	if !ok {
		data, err := l.Files.ReadFile(p)
		if err != nil {
			return args, nil // the interpreter says that it is not there
		}
		text = string(data)
	}
	text, err := prepareText(p, text)
	if err != nil {
		return nil, l.at(ctx, err)
	}
	l.mu.Lock()
	name := fmt.Sprintf("%s%d", virtualDir, len(l.virtual))
	l.virtual[name] = text
	l.mu.Unlock()
	return append([]string{"source", name}, args[2:]...), nil
}

// ask answers a question and lets the interpreter set the variable: no command can.
func (l *level) ask(ctx context.Context, args []string) ([]string, error) {
	variable, value, status, err := l.Questions[args[0]](args)
	if err != nil {
		return nil, l.at(ctx, err)
	}
	text := fmt.Sprintf("%sstatus %d", "spore-", status)
	if variable != "" {
		quoted, err := syntax.Quote(value, syntax.LangBash)
		if err != nil {
			return nil, l.at(ctx, fmt.Errorf("%s answers %q: %w", args[0], value, err))
		}
		text = variable + "=" + quoted + "; " + text
	}
	return []string{"eval", text}, nil
}

// exec runs what is neither a function nor a builtin.
func (l *level) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	status, err := l.run1(ctx, hc, args, hc.Stdin, hc.Stdout)
	if err != nil {
		return l.at(ctx, err)
	}
	if status != 0 {
		return interp.ExitStatus(status)
	}
	return nil
}

// run1 runs one command: a function of the table, a builtin of ours or a shell script of the tree.
func (l *level) run1(ctx context.Context, hc interp.HandlerContext, args []string, stdin io.Reader, stdout io.Writer) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	name := args[0]
	if name == "" {
		fmt.Fprintln(hc.Stderr, ": not found")
		return 127, nil
	}
	if fn := builtins[strings.TrimPrefix(name, ours)]; fn != nil {
		return fn(ctx, l, hc, args, stdin, stdout)
	}
	base := path.Base(name)
	if fn := l.command(name); fn != nil {
		return fn(ctx, &command.Call{
			Name: base, Args: args[1:], Dir: hc.Dir, Stdin: stdin, Stdout: stdout, Stderr: hc.Stderr, Files: l.Files, Umask: l.umask(hc),
			Env: func(name string) string {
				if v := hc.Env.Get(name); v.Exported {
					return v.String()
				}
				return ""
			},
			Run: func(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) (int, error) {
				if len(args) == 0 {
					return 0, errors.New("internal error: no command")
				}
				if err := l.step(); err != nil {
					return 0, err
				}
				return l.run1(ctx, hc, args, stdin, stdout)
			},
		})
	}
	return l.program(ctx, hc, args, stdin, stdout)
}

// command finds what stands for a program: by its whole path, or by its name where that is how a shell finds it.
func (l *level) command(name string) command.Func {
	if fn := l.Commands[name]; fn != nil {
		return fn
	}
	if !isProgramDir(path.Dir(name)) {
		return nil
	}
	return l.Commands[path.Base(name)]
}

func isProgramDir(dir string) bool {
	switch dir {
	case "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin":
		return true
	}
	return false
}

// program runs a shell script of the tree; other programs are not replayed.
func (l *level) program(ctx context.Context, hc interp.HandlerContext, args []string, stdin io.Reader, stdout io.Writer) (int, error) {
	name := args[0]
	refuse := func(why string) (int, error) { return 0, &Unreplayed{name, why} }
	p := name
	if !strings.Contains(name, "/") {
		p = l.lookPath(hc, name)
	} else if !path.IsAbs(name) {
		p = path.Join(hc.Dir, name)
	}
	n, err := l.Files.Stat(p)
	if p == "" || err != nil {
		fmt.Fprintf(hc.Stderr, "%s: not found\n", name)
		return 127, nil
	}
	if n.Type != tree.Regular || n.Mode&0o111 == 0 {
		fmt.Fprintf(hc.Stderr, "%s: Permission denied\n", name)
		return 126, nil
	}
	if n.Content.Size() > maxScript {
		return refuse("it is a program, and no program of an image runs at build")
	}
	text, err := l.Files.ReadFile(p)
	if err != nil {
		return 0, err
	}
	switch i := Interpreter(text); {
	case isShell(i):
	case i != "":
		return refuse("it is written in " + i + ", and only shell scripts are replayed")
	default:
		return refuse("it is a program, and no program of an image runs at build")
	}
	return l.script(ctx, Script{Name: p, Text: string(text), Args: args[1:], Env: exported(hc)}, l.depth+1, stdin, stdout, hc.Stderr)
}

// exported are the variables that a script gives to those that it calls.
func exported(hc interp.HandlerContext) []string {
	var out []string
	for name, v := range hc.Env.Each {
		if v.Exported {
			out = append(out, name+"="+v.String())
		}
	}
	slices.Sort(out)
	return out
}

// lookPath looks for an executable of the tree.
func (l *level) lookPath(hc interp.HandlerContext, name string) string {
	if strings.Contains(name, "/") {
		p := name
		if !path.IsAbs(p) {
			p = path.Join(hc.Dir, p)
		}
		if n, err := l.Files.Stat(p); err == nil && n.Type == tree.Regular && n.Mode&0o111 != 0 {
			return p
		}
		return ""
	}
	for _, dir := range strings.Split(hc.Env.Get("PATH").String(), ":") {
		if n, err := l.Files.Stat(path.Join("/", dir, name)); err == nil && n.Type == tree.Regular && n.Mode&0o111 != 0 {
			return path.Join("/", dir, name)
		}
	}
	return ""
}

// at adds the line of the script to an error that ends it.
func (l *level) at(ctx context.Context, err error) error {
	hc := interp.HandlerCtx(ctx)
	return l.end(fmt.Errorf("line %d: %w", hc.Pos.Line(), err))
}

// open serves redirections and sourced text.
func (l *level) open(ctx context.Context, p string, flag int, _ fs.FileMode) (io.ReadWriteCloser, error) {
	hc := interp.HandlerCtx(ctx)
	if !path.IsAbs(p) {
		p = path.Join(hc.Dir, p)
	}
	l.mu.Lock()
	text, ok := l.virtual[p]
	l.mu.Unlock()
	if ok {
		return readOnly{io.NopCloser(strings.NewReader(text))}, nil
	}
	switch p {
	case "/dev/stdout", "/dev/fd/1":
		return writeOnly{nopCloser{hc.Stdout}}, nil
	case "/dev/stderr", "/dev/fd/2", "/dev/tty", "/dev/console":
		return writeOnly{nopCloser{hc.Stderr}}, nil
	case "/dev/stdin", "/dev/fd/0":
		return readOnly{io.NopCloser(hc.Stdin)}, nil
	}
	if flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		r, err := l.Files.Open(p)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: p, Err: unwrapped(err)}
		}
		return readOnly{r}, nil
	}
	if flag&os.O_TRUNC != 0 && hc.Env.Get(noclobberVariable).String() != "" {
		if n, err := l.Files.Stat(p); err == nil && n.Type == tree.Regular {
			return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrExist}
		}
	}
	w, err := l.Files.Create(p, 0o666&^l.umask(hc), flag&os.O_APPEND != 0)
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, &fs.PathError{Op: "open", Path: p, Err: unwrapped(err)}
	}
	if err != nil {
		return nil, l.at(ctx, err)
	}
	c := &closing{w, l, ctx}
	l.mu.Lock()
	l.opened[c] = true
	l.mu.Unlock()
	return writeOnly{c}, nil
}

// closeAll closes what a script leaves open at its end.
func (l *level) closeAll() error {
	l.mu.Lock()
	left := slices.Collect(maps.Keys(l.opened))
	l.mu.Unlock()
	var err error
	for _, c := range left {
		err = errors.Join(err, c.WriteCloser.Close())
	}
	return err
}

func unwrapped(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// closing lets the error of a full filesystem end the script: the interpreter does not look at what Close says.
type closing struct {
	io.WriteCloser
	level *level
	ctx   context.Context
}

// Close implements io.Closer.
func (c *closing) Close() error {
	c.level.mu.Lock()
	delete(c.level.opened, c)
	c.level.mu.Unlock()
	err := c.WriteCloser.Close()
	if err != nil {
		return c.level.at(c.ctx, err)
	}
	return nil
}

type readOnly struct{ io.ReadCloser }

// Write implements io.Writer.
func (readOnly) Write([]byte) (int, error) { return 0, errors.New("it is open for reading") }

type writeOnly struct{ io.WriteCloser }

// Read implements io.Reader.
func (writeOnly) Read([]byte) (int, error) { return 0, io.EOF }

type nopCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }

func (l *level) readDir(_ context.Context, p string) ([]fs.DirEntry, error) {
	names, err := l.Files.ReadDir(p)
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, 0, len(names))
	for _, name := range names {
		n, err := l.Files.Lstat(path.Join(p, name))
		if err != nil {
			return nil, err
		}
		out = append(out, fs.FileInfoToDirEntry(info{name, n}))
	}
	return out, nil
}

func (l *level) stat(_ context.Context, name string, followSymlinks bool) (fs.FileInfo, error) {
	var n *tree.Inode
	var err error
	if followSymlinks {
		n, err = l.Files.Stat(name)
	} else {
		n, err = l.Files.Lstat(name)
	}
	if err != nil {
		return nil, err
	}
	return info{path.Base(name), n}, nil
}

// access answers as for root: everything can be read and written, and run what anybody may run.
func (l *level) access(_ context.Context, p string, mode interp.AccessMode) error {
	n, err := l.Files.Stat(p)
	if err != nil {
		return err
	}
	if mode&interp.AccessExec != 0 && n.Type != tree.Dir && n.Mode&0o111 == 0 {
		return fs.ErrPermission
	}
	return nil
}

// info is an inode as fs.FileInfo.
type info struct {
	name string
	n    *tree.Inode
}

// Name implements fs.FileInfo.
func (i info) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i info) Size() int64 {
	if i.n.Type != tree.Regular {
		return 0
	}
	return i.n.Content.Size()
}

// Mode implements fs.FileInfo.
func (i info) Mode() fs.FileMode {
	m := fs.FileMode(i.n.Mode & 0o777)
	for _, bit := range []struct {
		unix uint32
		mode fs.FileMode
	}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}} {
		if i.n.Mode&bit.unix != 0 {
			m |= bit.mode
		}
	}
	switch i.n.Type {
	case tree.Dir:
		m |= fs.ModeDir
	case tree.Symlink:
		m |= fs.ModeSymlink
	case tree.CharDevice:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case tree.BlockDevice:
		m |= fs.ModeDevice
	case tree.Fifo:
		m |= fs.ModeNamedPipe
	}
	return m
}

// ModTime implements fs.FileInfo.
func (i info) ModTime() time.Time { return time.Unix(i.n.MTime, 0).UTC() }

// IsDir implements fs.FileInfo.
func (i info) IsDir() bool { return i.n.Type == tree.Dir }

// Sys implements fs.FileInfo; the interpreter looks for owners there.
func (i info) Sys() any { return &syscall.Stat_t{Uid: i.n.UID, Gid: i.n.GID} }
