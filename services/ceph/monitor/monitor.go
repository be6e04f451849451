// Package monitor makes the data of a monitor of Ceph, tells whether the monitor is one of a quorum, and gives a storage cluster
// through its monitors what ceph.yaml says: keys, settings, CRUSH rules, pools, file systems.
//
// It does so by Ceph's own programs (ceph, ceph-mon, monmaptool) and by the admin socket of the monitor. It speaks none of
// Ceph's network protocols, and it neither decides whether a monitor forms or joins (package formation does) nor touches a
// disk of an OSD.
package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Programs of Ceph, as Debian's packages have them.
const (
	cephProgram       = "/usr/bin/ceph"
	monProgram        = "/usr/bin/ceph-mon"
	monmaptoolProgram = "/usr/bin/monmaptool"
)

// Runner runs a program of Ceph with an input and returns what it printed, and the last of what it said besides. The error
// holds that, too.
type Runner func(ctx context.Context, input []byte, program string, args ...string) (out []byte, said string, err error)

// Exec runs programs on this machine, as a user when one is given.
func Exec(as *syscall.Credential) Runner {
	return func(ctx context.Context, input []byte, program string, args ...string) ([]byte, string, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Stdin = bytes.NewReader(input)
		// Python looks for a home, and finds none that it may read.
		cmd.Env = append(os.Environ(), "HOME=/nonexistent")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		cmd.WaitDelay = time.Second
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return out.Bytes(), lastWords(said.String()), fmt.Errorf("%s: %w: %s", program, err, lastWords(said.String()))
		}
		return out.Bytes(), lastWords(said.String()), nil
	}
}

// mostWords is how much of a program's last words goes into an error, in bytes.
const mostWords = 400

// lastWords is the end of what a program said, without empty lines.
func lastWords(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines[max(0, len(lines)-4):], "; ")
	if len(text) > mostWords {
		text = "…" + strings.ToValidUTF8(text[len(text)-mostWords:], "")
	}
	return text
}

// connectBound is how long a command looks for a quorum, in seconds; an emulated machine needs some for the cryptography.
const connectBound = "30"

// Client gives commands to the monitors.
type Client struct {
	Run Runner
	// Conf is the path of ceph.conf, which names the keyring.
	Conf string
	// Entity is whom it speaks as, such as mon. or client.admin.
	Entity string
}

// Command gives one command, with an input when it takes one.
func (c Client) Command(ctx context.Context, input []byte, args ...string) error {
	if _, _, err := c.Run(ctx, input, cephProgram, append(c.options(), args...)...); err != nil {
		return fmt.Errorf("ceph %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// Batch gives several commands to one process, since starting Python costs more than all of them. It returns their answers in
// JSON, one after the other, and the last of what was said of commands that failed: they are no error, and the others were
// given all the same.
func (c Client) Batch(ctx context.Context, commands [][]string) (answers []byte, said string, err error) {
	var input strings.Builder
	for _, words := range commands {
		for i, word := range words {
			if i > 0 {
				input.WriteByte(' ')
			}
			input.WriteString(quote(word))
		}
		input.WriteByte('\n')
	}
	answers, said, err = c.Run(ctx, []byte(input.String()), cephProgram, c.options()...)
	if err != nil {
		return nil, "", fmt.Errorf("speak to the monitors: %w", err)
	}
	return answers, said, nil
}

// quote writes a word so that Python's shlex reads it as one.
func quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
}

func (c Client) options() []string {
	return []string{"-c", c.Conf, "-n", c.Entity, "--connect-timeout", connectBound, "--format", "json"}
}

// again tries until it works or the context ends, and says why it does not yet.
func again(ctx context.Context, pause time.Duration, say func(string), what string, try func() error) error {
	last := ""
	for {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), err))
		}
		if text := fmt.Sprintf("%s: %v", what, err); text != last {
			say(text)
			last = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
