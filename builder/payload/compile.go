package payload

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"spore/builder/store"
)

// maxOutput bounds how much of the compiler's output goes into an error, in bytes.
const maxOutput = 4096

// compile runs the go command in a directory of the store's own and copies what it made to w.
func compile(ctx context.Context, st *store.Store, w io.Writer, t target, toolchain string, o Options) error {
	m := startMeter(t.name, o.Report)
	defer m.stop()
	tmp, err := os.MkdirTemp(st.TempDir(), "go-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	env, err := places(ctx, tmp, o)
	if err != nil {
		return err
	}
	run := compiler{command: o.Go, dir: t.dir, shown: t.dir, env: append(append(env, fixedEnv(toolchain)...), t.env...), options: t.flags()[1:]}
	run.options = append(run.options, "-ldflags", t.linkerFlags())
	if len(o.Tags) > 0 {
		run.options = append(run.options, "-tags", strings.Join(o.Tags, ","))
	}
	if t.stage != nil {
		if o.Transport == nil {
			run.env = append(run.env, "GOPROXY=off")
		}
		if run.dir, err = t.stage(ctx, tmp, run, m); err != nil {
			return err
		}
		run.shown = t.shown
	}
	if o.Report != nil {
		run.stale = run.listStale(ctx, t.pkg, m)
		m.expect(run.stale)
	}
	out := filepath.Join(tmp, "program")
	if err := run.build(ctx, t.pkg, out, m); err != nil {
		if t.hint != "" {
			err = fmt.Errorf("%w; %s", err, t.hint)
		}
		if t.stage != nil {
			err = run.explain(ctx, t.pkg, err)
		}
		return err
	}
	if err := checkStatic(out); err != nil {
		return err
	}
	f, err := os.Open(out)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// compiler is the go command with what all of its calls for one program share.
type compiler struct {
	command, dir string
	// shown is dir in messages.
	shown        string
	env, options []string
	// stale are the packages that it has to compile, where that is known.
	stale []string
}

// goCommand is the go command with its environment.
func (c compiler) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.command, args...)
	cmd.Dir, cmd.Env = c.dir, slices.Clone(c.env)
	return cmd
}

// listStale lists the packages that are not in the go command's own cache. It is for telling how far the compiler is:
// where they cannot be listed, the build that follows says why.
func (c compiler) listStale(ctx context.Context, pkg string, m *meter) []string {
	args := append([]string{"list"}, c.options...)
	cmd := exec.CommandContext(ctx, c.command, append(args, "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", pkg)...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.dir, c.env, &lines{each: func(line string) { m.line(line) }}
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	var list []string
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		list = append(list, s.Text())
	}
	return list
}

// build compiles and links. -v has the go command name each package; it is not among the flags, as it changes no
// program.
func (c compiler) build(ctx context.Context, pkg, out string, m *meter) error {
	args := append([]string{"build", "-o", out}, c.options...)
	if len(c.stale) > 0 {
		args = append(args, "-v")
	}
	cmd := exec.CommandContext(ctx, c.command, append(args, pkg)...)
	var log bytes.Buffer
	each := func(line string) {
		if !m.line(line) {
			log.WriteString(line + "\n")
		}
	}
	printed := &lines{each: each}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, c.env, printed, printed
	err := cmd.Run()
	printed.end()
	if err != nil {
		return fmt.Errorf("go build %s in %s: %w: %s", pkg, c.shown, err, tail(log.Bytes()))
	}
	return nil
}

// tail is the end of the compiler's output, where the errors are.
func tail(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) > maxOutput {
		b = append([]byte("…"), b[len(b)-maxOutput:]...)
	}
	return string(b)
}

// checkStatic makes sure that the program needs no loader: nothing says which libraries the image will have.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("the output of go build is not a program (is it a package main?): %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("internal error: the program is linked dynamically")
		}
	}
	return nil
}
