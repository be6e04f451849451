// Package client calls a program of Ceph's, rbd(8) or ceph(8), as one of the cluster's clients. What such a program ends with
// is an errno.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Client is how to call it.
type Client struct {
	// Program is its path.
	Program string
	// Conf is the ceph.conf, which names monitors and keyring; User is the client without "client.".
	Conf, User string
}

// Call is what is particular to a program.
type Call struct {
	// Name is what errors call it.
	Name string
	// Options come before the arguments, Env is added to the environment.
	Options, Env []string
	// Means gives the error by which callers tell an exit status apart; nil when there is none.
	Means func(syscall.Errno) error
}

// Error is what a call ended with.
type Error struct {
	Program string
	Args    []string
	Status  syscall.Errno
	Output  string
	means   error
}

// Error has the program's own words.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %v: %s", e.Program, strings.Join(e.Args, " "), e.Status, e.Output)
}

// Unwrap is what Call.Means says of the exit status.
func (e *Error) Unwrap() error { return e.means }

// maxOutput bounds how much of the program's own words go into an error, in bytes.
const maxOutput = 1024

// Run returns what the program prints to its standard output.
func (c Client) Run(ctx context.Context, call Call, args ...string) ([]byte, error) {
	options := append([]string{"--conf", c.Conf, "--id", c.User}, call.Options...)
	cmd := exec.CommandContext(ctx, c.Program, append(options, args...)...)
	cmd.Env = append(os.Environ(), call.Env...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s %s: %w; its last words: %s", call.Name, strings.Join(args, " "), context.Cause(ctx), tail(words.Bytes()))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return nil, call.ended(args, syscall.Errno(exit.ExitCode()), words.Bytes())
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", call.Name, strings.Join(args, " "), err)
	}
	return out.Bytes(), nil
}

func (c Call) ended(args []string, status syscall.Errno, words []byte) *Error {
	return &Error{Program: c.Name, Args: args, Status: status, Output: tail(words), means: c.Means(status)}
}

// tail is the end of the program's words, in one line.
func tail(b []byte) string {
	b = bytes.TrimSpace(b)
	return strings.ReplaceAll(string(b[max(0, len(b)-maxOutput):]), "\n", "; ")
}
