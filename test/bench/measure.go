package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is what a command took, with every process that it started and waited for.
type Usage struct {
	// CPU is the time of processors, user and system; Wall that of the clock.
	CPU  time.Duration `json:"cpu"`
	Wall time.Duration `json:"wall"`
	// Memory is the most that one of the processes had of it at a time, in bytes.
	Memory int64 `json:"memory"`
	// Apart is a part of CPU that is told apart: what compiler and linker took of a build, and what kernel modules and initramfs
	// took of the floor.
	Apart time.Duration `json:"apart,omitempty"`
	// Said is what the command printed.
	Said string `json:"-"`
}

const (
	// pollEvery is how often the memory of a process is looked at. The kernel keeps the maximum, so that nothing but growth in
	// the last such time is missed.
	pollEvery = 5 * time.Millisecond
	// tailBytes is how much of what a command said goes into an error.
	tailBytes = 4 << 10
)

// Run runs a command to its end. What it says goes to log, and its end into the error of a command that fails.
func Run(ctx context.Context, log io.Writer, env []string, dir, name string, args ...string) (Usage, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	return run(ctx, cmd, log, env, dir, false)
}

// run measures a command. The memory is that of the command's own process where own is set, else that of the largest.
func run(ctx context.Context, cmd *exec.Cmd, log io.Writer, env []string, dir string, own bool) (Usage, error) {
	var said bytes.Buffer
	fmt.Fprintf(log, "$ %s\n", strings.Join(cmd.Args, " "))
	cmd.Stdout = io.MultiWriter(log, &said)
	cmd.Stderr = cmd.Stdout
	cmd.Env, cmd.Dir = append(os.Environ(), env...), dir
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return Usage{}, err
	}
	ended, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watch(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	u := Usage{Wall: time.Since(start), Said: said.String()}
	close(ended)
	watched := <-peak
	if ctx.Err() != nil {
		return u, fmt.Errorf("%s was stopped: %w", strings.Join(cmd.Args, " "), context.Cause(ctx))
	}
	if err != nil {
		tail := said.Bytes()
		return u, fmt.Errorf("%s: %w; it said:\n%s", strings.Join(cmd.Args, " "), err, tail[max(0, len(tail)-tailBytes):])
	}
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	// ru_maxrss (getrusage(2), in KiB) is the largest process of the tree. It counts what this program had when it started the
	// command, because Go starts a process by vfork; so this program is to be small, and whatever works is a process of its own.
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.Memory = r.Maxrss << 10
	}
	if own && watched > 0 {
		u.Memory = watched
	}
	return u, nil
}

// watch returns the last reading of the peak memory of a process, in bytes. Before its execve(2) a process shows that of its
// parent; so it is the last, and not the largest.
func watch(pid int, ended <-chan struct{}) (last int64) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return last
		case <-tick.C:
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if err != nil {
				continue
			}
			if n, ok := parseHighWater(string(text)); ok {
				last = n
			}
		}
	}
}

// parseHighWater finds the peak resident size in /proc/PID/status (proc(5)), in bytes. A process that has ended has none.
func parseHighWater(status string) (int64, bool) {
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, "VmHWM:")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		return n << 10, err == nil
	}
	return 0, false
}

// compilerCommand is the subcommand that runs the go command and writes down what that took; it is not for people.
const compilerCommand = "compiler"

// compilerMeter makes a folder for the front of PATH whose go runs the true one through this program. It is a script, as the
// builder hands no variables on to the go command.
type compilerMeter struct{ dir, log, command string }

func newCompilerMeter(dir, self string) (*compilerMeter, error) {
	command, err := exec.LookPath("go")
	if err != nil {
		return nil, err
	}
	m := &compilerMeter{dir: filepath.Join(dir, "path"), log: filepath.Join(dir, "go.log"), command: command}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return nil, err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s %s %s \"$@\"\n", quote(self), compilerCommand, quote(m.log), quote(m.command))
	return m, os.WriteFile(filepath.Join(m.dir, "go"), []byte(script), 0o755)
}

// quote is a word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// env makes commands be metered.
func (m *compilerMeter) env() []string { return []string{"PATH=" + m.dir + ":" + os.Getenv("PATH")} }

// begin forgets what was metered, and total adds it up.
func (m *compilerMeter) begin() error { return os.WriteFile(m.log, nil, 0o644) }

func (m *compilerMeter) total() (time.Duration, error) {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return 0, err
	}
	return addDurations(string(text))
}

// addDurations adds up lines of nanoseconds.
func addDurations(text string) (sum time.Duration, err error) {
	for line := range strings.Lines(text) {
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("times of the compiler: %w", err)
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// runCompiler is the subcommand: the file for the time, and a command. It returns the command's exit code.
func runCompiler(args []string) (int, error) {
	if len(args) < 2 {
		return 2, errors.New("usage: bench compiler LOG COMMAND [ARGUMENT…]")
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	// One write of a short line to a file that is open for appending is whole (open(2), O_APPEND).
	f, err := os.OpenFile(args[0], os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return 1, err
	}
	_, err = fmt.Fprintln(f, int64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
	if err = errors.Join(err, f.Close()); err != nil {
		return 1, err
	}
	return cmd.ProcessState.ExitCode(), nil
}
