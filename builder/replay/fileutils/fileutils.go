// Package fileutils has the file commands that maintainer scripts call (cp, chown, find and so on), with the meaning
// that GNU coreutils, findutils, gzip and libcap of Debian give them in a chroot as root. All work on
// the filesystem in memory of a replay; none starts a process.
//
// Where a command asks the kernel, the answer is Linux's: chown(2) of a file takes away set-user-ID, set-group-ID of
// what its group may execute, and security.capability; new files below a directory with set-group-ID get its group.
// Root writes without loss of the mode's bits.
//
// There is no clock: what is made or touched has the time stamp of the replay, and touch -d and -t set no other.
// There are no device nodes, mount points, inode numbers and access lists. Directory listings are sorted by bytes, as
// in the locale C. An option that is not here ends the replay, since going on without it would be a guess.
package fileutils

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"spore/builder/replay/command"
)

// Names knows the accounts of the tree.
type Names interface {
	// UserID and GroupID return the number of a name, and whether there is such a name.
	UserID(name string) (uint32, bool)
	GroupID(name string) (uint32, bool)
	// UserName and GroupName return the name of a number, or "" when it has none.
	UserName(id uint32) string
	GroupName(id uint32) string
	// PrimaryGroup returns the group of a user's row of passwd.
	PrimaryGroup(user string) (uint32, bool)
}

// Commands returns the commands by name.
func Commands(names Names) command.Table {
	table := command.Table{}
	for name, run := range map[string]func(*job) error{
		"basename": basename,
		"chattr":   chattr,
		"chgrp":    chgrp,
		"chmod":    chmod,
		"chown":    chown,
		"chroot":   chroot,
		"cp":       cp,
		"df":       df,
		"dirname":  dirname,
		"du":       du,
		"find":     find,
		"getcap":   getcap,
		"getfacl":  getfacl,
		"gunzip":   gunzip,
		"gzip":     gzipCommand,
		"install":  install,
		"link":     link,
		"ln":       ln,
		"ls":       ls,
		"lsattr":   chattr,
		"mkdir":    mkdir,
		"mkfifo":   mkfifo,
		"mknod":    mknod,
		"mktemp":   mktemp,
		"mv":       mv,
		"pathchk":  pathchk,
		"readlink": readlink,
		"realpath": realpath,
		"rm":       rm,
		"rmdir":    rmdir,
		"setcap":   setcap,
		"setfacl":  setfacl,
		"stat":     stat,
		"tar":      tar,
		"tempfile": tempfile,
		"touch":    touch,
		"unlink":   unlink,
		"xargs":    xargs,
		"zcat":     zcat,
	} {
		table[name] = func(ctx context.Context, c *command.Call) (int, error) {
			j := &job{Call: c, ctx: ctx, names: names}
			if err := run(j); err != nil && !errors.Is(err, errStop) {
				return 0, named(c, err)
			}
			return j.status, nil
		}
	}
	return table
}

// maxShown is how many bytes of a command line are in an error.
const maxShown = 200

// named gives an error the command line, unless it names the command itself.
func named(c *command.Call, err error) error {
	if strings.HasPrefix(err.Error(), c.Name+": ") {
		return err
	}
	return fmt.Errorf("%.*s: %w", maxShown, strings.Join(append([]string{c.Name}, c.Args...), " "), err)
}

// errStop ends a command whose message is printed and whose status is set.
var errStop = errors.New("the command is done")

// A job is one run of a command: its call, and the status that it will have.
type job struct {
	*command.Call
	ctx    context.Context
	names  Names
	status int
	// quiet keeps messages about single files back, as chmod -f does.
	quiet  bool
	counts linkCounts
}

// fail prints a message and lets the command go on; its status will be 1.
func (j *job) fail(format string, args ...any) {
	if j.status == 0 {
		j.status = 1
	}
	if !j.quiet {
		fmt.Fprintf(j.Stderr, j.Name+": "+format+"\n", args...)
	}
}

// stop prints a message and ends the command with a status.
func (j *job) stop(status int, format string, args ...any) error {
	j.status = status
	fmt.Fprintf(j.Stderr, j.Name+": "+format+"\n", args...)
	return errStop
}

// missing is the end of a command without the operands that it needs.
func (j *job) missing(have []string) error {
	what, more := "", ""
	switch j.Name {
	case "cp", "mv", "install", "ln":
		what, more = "file ", "destination file "
	}
	if len(have) == 0 {
		return j.stop(1, "missing %soperand", what)
	}
	return j.stop(1, "missing %soperand after '%s'", more, have[len(have)-1])
}

// extra is the end of a command with an operand too many.
func (j *job) extra(operand string) error { return j.stop(1, "extra operand '%s'", operand) }

// unknown ends the replay for an option that is not here.
func (j *job) unknown(option string) error {
	_, err := j.Unknown(option)
	return err
}

// refuse ends the replay for something else that is not here.
func (j *job) refuse(what string) error { return fmt.Errorf("%s: %s is not replayed", j.Name, what) }

// soft prints what went wrong with one file after a text, and returns only errors that end the replay.
func (j *job) soft(err error, format string, args ...any) error {
	if err == nil || hard(err) {
		return err
	}
	j.fail("%s: %s", fmt.Sprintf(format, args...), reason(err))
	return nil
}

func (j *job) printf(format string, args ...any) { fmt.Fprintf(j.Stdout, format, args...) }

func (j *job) print(s string) { io.WriteString(j.Stdout, s) }
