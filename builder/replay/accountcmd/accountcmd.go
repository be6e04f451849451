// Package accountcmd has the commands with which maintainer scripts make, change and look up users and groups: those
// of adduser, passwd, libc-bin and coreutils, and systemd-sysusers. They work on the accounts of the image alone,
// with the exit statuses of Debian 13; after each change the files passwd, group, shadow and gshadow of the image
// follow.
//
// Scripts run as root. su, runuser and setpriv run their command, and do not change the identity: what the command
// makes belongs to root. No command sets a password: those that would are refused, and those that lock one do
// nothing, since all are locked. Ids are those of package accounts; a number that a script wishes for is kept only if
// it is a global one of Debian. Dates of accounts are not kept.
package accountcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"spore/builder/accounts"
	"spore/builder/replay/command"
	"spore/builder/replay/files"
)

// maxInput bounds what a command reads of its standard input, in bytes.
const maxInput = 1 << 20

// commands are the functions with the accounts that they work on.
type commands struct{ db *accounts.DB }

// Commands returns the commands.
func Commands(db *accounts.DB) command.Table {
	s := commands{db}
	t := command.Table{
		"adduser": s.adduser, "addgroup": s.adduser,
		"deluser": s.deluser, "delgroup": s.deluser,
		"useradd": s.useradd, "userdel": s.userdel, "usermod": s.usermod,
		"groupadd": s.groupadd, "groupdel": s.groupdel, "groupmod": s.groupmod,
		"gpasswd": s.gpasswd, "passwd": s.passwd, "chage": s.chage, "chsh": s.chsh, "chfn": s.chfn,
		"getent": s.getent, "id": s.id, "groups": s.groups, "whoami": whoami, "logname": logname,
		"systemd-sysusers": s.sysusers,
		"su":               s.su, "runuser": s.runuser, "setpriv": s.setpriv,
	}
	for name, why := range map[string]string{
		"chpasswd":  "it puts passwords into the image, which everybody can read; make the account's access on the node",
		"chgpasswd": "it puts passwords into the image, which everybody can read; make the group's access on the node",
		"newusers":  "its input has passwords; make the users with adduser --system",
		"vipw":      "it asks a person to edit a file", "vigr": "it asks a person to edit a file",
		"newgrp": "it begins a shell of another group", "sg": "it begins a shell of another group",
		"pwunconv": "it moves passwords into a file that everybody can read", "grpunconv": "it drops gshadow",
	} {
		t[name] = refuse(why)
	}
	// Checks and conversions of the files, which are made whole from the accounts each time.
	for _, name := range []string{"pwck", "grpck", "pwconv", "grpconv", "shadowconfig", "update-passwd"} {
		t[name] = nothing
	}
	return t
}

func nothing(context.Context, *command.Call) (int, error) { return 0, nil }

func refuse(why string) command.Func {
	return func(_ context.Context, c *command.Call) (int, error) {
		return 0, fmt.Errorf("%s is not replayed: %s", c.Name, why)
	}
}

// changed brings the files of the image up to date after a change and is status 0.
func (s commands) changed(c *command.Call) (int, error) {
	if err := s.db.Write(c.Files); err != nil {
		return 0, err
	}
	return 0, nil
}

// failed turns an error of the accounts into a message and a status. An id that is not to be had ends the replay: the
// script goes on with files that carry the number.
func failed(c *command.Call, status int, err error) (int, error) {
	for _, soft := range []error{accounts.ErrExists, accounts.ErrNotFound, accounts.ErrInUse, accounts.ErrInvalid} {
		if errors.Is(err, soft) {
			return c.Fail(status, "%v", err)
		}
	}
	return 0, fmt.Errorf("%s: %w", c.Name, err)
}

// number reads an id.
func number(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n <= accounts.Highest
}

// groupNamed finds a group by its name or, failing that, its id.
func (s commands) groupNamed(arg string) (accounts.Group, bool) {
	if g, ok := s.db.Group(arg); ok {
		return g, true
	}
	if id, ok := number(arg); ok {
		return s.db.Group(s.db.GroupName(id))
	}
	return accounts.Group{}, false
}

// userNamed finds a user by its name or, failing that, its id.
func (s commands) userNamed(arg string) (accounts.User, bool) {
	if u, ok := s.db.User(arg); ok {
		return u, true
	}
	if id, ok := number(arg); ok {
		return s.db.User(s.db.UserName(id))
	}
	return accounts.User{}, false
}

// takenBy names the user that an id belongs to, or is empty.
func (s commands) takenBy(id uint32) string {
	u, _ := s.db.User(s.db.UserName(id))
	return u.Name
}

// groupTakenBy names the group that an id belongs to, or is empty.
func (s commands) groupTakenBy(id uint32) string {
	g, _ := s.db.Group(s.db.GroupName(id))
	return g.Name
}

// groupsOf are the groups of a user: the primary one, then the others by id.
func (s commands) groupsOf(u accounts.User) []accounts.Group {
	primary, _ := s.db.Group(u.Group)
	out := []accounts.Group{primary}
	for _, g := range s.db.Groups() {
		for _, m := range g.Members {
			if m == u.Name && g.Name != u.Group {
				out = append(out, g)
			}
		}
	}
	return out
}

// input reads what a script pipes into a command.
func input(c *command.Call) (string, error) {
	if c.Stdin == nil {
		return "", nil
	}
	data, err := io.ReadAll(io.LimitReader(c.Stdin, maxInput+1))
	if err != nil {
		return "", fmt.Errorf("%s: read standard input: %w", c.Name, err)
	}
	if len(data) > maxInput {
		return "", fmt.Errorf("%s: standard input has more than %d bytes", c.Name, maxInput)
	}
	return string(data), nil
}

// brokenPipe is the status of a command that SIGPIPE ended: 128 and the number of the signal.
const brokenPipe = 141

// written is the status after printing. A reader that has seen enough, such as grep -q, ends the command and not the
// replay; a bound that was reached ends the replay.
func written(_ int, err error) (int, error) {
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, files.ErrBound):
		return 0, err
	}
	return brokenPipe, nil
}

func splitComma(s string) []string {
	var out []string
	for _, f := range strings.Split(s, ",") {
		if f != "" {
			out = append(out, f)
		}
	}
	return out
}
