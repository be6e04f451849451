// Package command holds what a command of a maintainer script is given and what it answers. The commands are functions
// of ours; none starts a process, and none sees a file or a variable of the machine that builds.
package command

import (
	"context"
	"fmt"
	"io"
	"path"

	"spore/builder/replay/files"
)

// Call is one call of a command by a script.
type Call struct {
	// Name is the command without its directory, Args are its arguments without the name.
	Name string
	Args []string
	// Dir is the working directory of the script, absolute.
	Dir string
	// Umask holds the permissions that new files and directories do not get (umask(2)).
	Umask uint32
	// Env returns an exported variable of the script, or "".
	Env func(name string) string
	// Stdin, Stdout and Stderr are those of the script.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Files is the filesystem of the script.
	Files *files.Files
	// Run runs another command and returns its exit status: for those that do so themselves, such as xargs and find
	// -exec. An error ends the script.
	Run func(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) (int, error)
}

// Func does what a command does and returns its exit status. An error is for what must end the replay of the script: a
// bound that was reached, a refused path, an argument that the function does not know. What a real command would print
// and leave to the script is printed to Stderr and is an exit status.
type Func func(ctx context.Context, c *Call) (status int, err error)

// Table holds commands by their names.
type Table map[string]Func

// Path makes an argument absolute.
func (c *Call) Path(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(c.Dir, name)
}

// Fail prints "NAME: message" to Stderr and returns a status, as commands do for what a script may go on after.
func (c *Call) Fail(status int, format string, args ...any) (int, error) {
	fmt.Fprintf(c.Stderr, c.Name+": "+format+"\n", args...)
	return status, nil
}

// Unknown is the error for an option that a function does not know: going on without it would be a guess.
func (c *Call) Unknown(option string) (int, error) {
	return 0, fmt.Errorf("%s: the option %s is not replayed", c.Name, option)
}
