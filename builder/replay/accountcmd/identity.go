package accountcmd

import (
	"cmp"
	"context"
	"fmt"
	"path"

	"spore/builder/replay/command"
)

// shells says what runs instead of a shell; nothing runs instead of those with "".
var shells = map[string]string{"sh": "sh", "bash": "sh", "dash": "sh", "nologin": "", "false": ""}

// su runs a shell as a user; the identity is not changed.
func (s commands) su(ctx context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "command,c=", "fast,f", "group,g=", "supp-group,G=", "login,l", "preserve-environment,m,p",
		"pty,P", "no-pty,T", "shell,s=", "whitelist-environment,w=", "session-command=")
	if err != nil {
		return 0, err
	}
	operands := o.operands
	if len(operands) > 0 && operands[0] == "-" { // --login
		operands = operands[1:]
	}
	user := "root"
	if len(operands) > 0 {
		user, operands = operands[0], operands[1:]
	}
	return s.shell(ctx, c, o, user, operands)
}

// shell runs the shell of su and runuser.
func (s commands) shell(ctx context.Context, c *command.Call, o options, user string, args []string) (int, error) {
	u, ok := s.db.User(user)
	if !ok {
		return c.Fail(1, "user %s does not exist", user)
	}
	shell := cmp.Or(o.values["shell"], u.Shell)
	sh, known := shells[path.Base(shell)]
	switch {
	case !known:
		return 0, fmt.Errorf("%s: the shell %s of user %s is not replayed; name another with -s /bin/sh", c.Name, shell, user)
	case sh == "":
		return c.Fail(1, "this account is not available: its shell is %s", shell)
	}
	run := []string{"env", "HOME=" + u.Home, "USER=" + user, "LOGNAME=" + user, sh}
	if user == "root" { // whose su leaves the names as they are
		run = []string{sh}
	}
	for _, name := range []string{"command", "session-command"} {
		if text, ok := o.values[name]; ok {
			run = append(run, "-c", text)
			break
		}
	}
	return c.Run(ctx, append(run, args...), c.Stdin, c.Stdout)
}

// runuser runs a command as a user, or does what su does; the identity is not changed.
func (s commands) runuser(ctx context.Context, c *command.Call) (int, error) {
	o, err := parse(c, gnu, "command,c=", "fast,f", "group,g=", "supp-group,G=", "login,l", "preserve-environment,m,p",
		"pty,P", "no-pty,T", "shell,s=", "user,u=", "whitelist-environment,w=", "session-command=")
	if err != nil {
		return 0, err
	}
	if !o.has("user") {
		return s.su(ctx, c)
	}
	if _, ok := s.db.User(o.values["user"]); !ok {
		return c.Fail(1, "user %s does not exist", o.values["user"])
	}
	if len(o.operands) == 0 {
		return c.Fail(1, "no command was specified")
	}
	return c.Run(ctx, o.operands, c.Stdin, c.Stdout)
}

// setpriv runs a command; neither its identity nor its rights are changed.
func (s commands) setpriv(ctx context.Context, c *command.Call) (int, error) {
	o, err := parse(c, first, "clear-groups", "groups=", "init-groups", "keep-groups", "no-new-privs,nnp", "rgid=",
		"ruid=", "egid=", "euid=", "regid=", "reuid=", "inh-caps=", "ambient-caps=", "bounding-set=", "securebits=",
		"pdeathsig=", "reset-env")
	if err != nil {
		return 0, err
	}
	for _, name := range []string{"reuid", "ruid", "euid"} {
		if v, ok := o.values[name]; ok {
			if _, known := s.userNamed(v); !known {
				return c.Fail(127, "failed to parse %s: '%s'", name, v)
			}
		}
	}
	for _, name := range []string{"regid", "rgid", "egid"} {
		if v, ok := o.values[name]; ok {
			if _, known := s.groupNamed(v); !known {
				return c.Fail(127, "failed to parse %s: '%s'", name, v)
			}
		}
	}
	if len(o.operands) == 0 {
		return 0, fmt.Errorf("setpriv names no command")
	}
	return c.Run(ctx, o.operands, c.Stdin, c.Stdout)
}
