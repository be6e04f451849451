// Package exit gives every command the same exit codes: 0 done, 1 the input or the work failed, 2 wrong usage.
package exit

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	OK     = 0
	Failed = 1
	Misuse = 2
)

// usageError marks an error of the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// Usage marks an error as wrong usage.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// statusError is the exit status of a program that a command ran for its user.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// Status is the error of a command that ends with the exit status of what it ran, which has said itself what it had to
// say: nothing is printed.
func Status(code int) error { return statusError(code) }

// Args makes every error of an argument check wrong usage.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return Usage(check(cmd, args)) }
}

// Code is the exit code for an error.
func Code(err error) int {
	var u usageError
	var s statusError
	switch {
	case err == nil:
		return OK
	case errors.As(err, &s):
		return int(s)
	case errors.As(err, &u):
		return Misuse
	default:
		return Failed
	}
}

// Run runs a command tree, prints its error to standard error, and returns the exit code.
func Run(ctx context.Context, root *cobra.Command) int {
	markFlagErrors(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return OK
	}
	if errors.As(err, new(statusError)) {
		return Code(err)
	}
	// Cobra reports an unknown command as an error of the root itself, before any command runs.
	if cmd == root && !root.Runnable() {
		err = Usage(err)
	}
	fmt.Fprintf(root.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
	if Code(err) == Misuse {
		fmt.Fprintf(root.ErrOrStderr(), "see: %s --help\n", cmd.CommandPath())
	}
	return Code(err)
}

func markFlagErrors(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
}
