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

// Args makes every error of an argument check wrong usage.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return Usage(check(cmd, args)) }
}

// Code is the exit code for an error.
func Code(err error) int {
	var u usageError
	switch {
	case err == nil:
		return OK
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
