// Package roletests runs the tests of a role that a configuration has of its own, as the file of the role says (tests),
// and tells the operator what came of them. A service with the role's user runs them for each connection to its socket;
// the node's API passes on what it answers.
package roletests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"spore/agent/rolehealth"
	"spore/cluster/role"
	"spore/wire/nodeapi"
)

// Bounds of what a command prints, in bytes: what is looked at for the text that is expected, and what of it is told
// where a test fails.
const (
	maxPrinted = 64 << 10
	maxTold    = 4 << 10
)

// Run runs the tests of a role, as this process's user, and writes a line of JSON for each as it ends. It ends with the
// connection that asked for them: asked is its other side, of which nothing is expected.
func Run(ctx context.Context, d *role.Definition, asked io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, role.TestsBound)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, asked)
		cancel() // Nobody waits for the rest.
	}()
	lines := json.NewEncoder(out)
	for _, t := range d.Tests {
		if err := lines.Encode(run(ctx, t, role.TestBound)); err != nil {
			return fmt.Errorf("tell what came of the tests of %s: %w", d.Name, err)
		}
	}
	return nil
}

func run(ctx context.Context, t role.Test, bound time.Duration) nodeapi.RoleTest {
	out := nodeapi.RoleTest{Command: t.Command}
	if ctx.Err() != nil {
		out.Problem = fmt.Sprintf("it was not run: the tests before it took %s", role.TestsBound)
		return out
	}
	all := ctx
	ctx, cancel := context.WithTimeout(all, bound)
	defer cancel()
	var said printed
	cmd := exec.CommandContext(ctx, t.Command[0], t.Command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, time.Second
	// What a command has started goes with it: the next test finds the machine as this one did.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	began := time.Now()
	err := cmd.Run()
	if cmd.Process != nil {
		_ = cmd.Cancel() // It fails where nothing is left, as after most tests.
	}
	out.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	text := string(said.text)
	switch {
	case errors.Is(all.Err(), context.DeadlineExceeded):
		out.Problem = fmt.Sprintf("%s did not end within the %s that all tests of a role have together", t.Command[0],
			role.TestsBound)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.Problem = fmt.Sprintf("%s did not end within %s", t.Command[0], bound)
	case err != nil:
		out.Problem = rolehealth.Line(fmt.Sprintf("%s: %v", t.Command[0], err))
	case !strings.Contains(text, t.Expect):
		out.Problem = fmt.Sprintf("%s did not print %q", t.Command[0], t.Expect)
	default:
		return out
	}
	out.Output = strings.ToValidUTF8(strings.TrimSpace(text[max(0, len(text)-maxTold):]), "")
	return out
}

// printed keeps the beginning of what is written to it.
type printed struct{ text []byte }

func (p *printed) Write(data []byte) (int, error) {
	room := max(0, maxPrinted-len(p.text))
	p.text = append(p.text, data[:min(room, len(data))]...)
	return len(data), nil
}
