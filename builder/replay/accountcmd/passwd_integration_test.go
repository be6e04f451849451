//go:build integration

package accountcmd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePasswdSuiteOfTheHostDoesTheSame runs the same calls with the real commands, which work on files of a folder
// with --prefix, and compares status and accounts. Ids differ by intent, and so they are compared by the names that
// they have.
func TestThePasswdSuiteOfTheHostDoesTheSame(t *testing.T) {
	if _, err := exec.LookPath("useradd"); err != nil {
		t.Skip("the commands of package passwd are not here")
	}
	i := newImage(t)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "etc"), 0o755))
	require.NoError(t, i.db.Write(i.files))
	for _, name := range []string{"passwd", "group", "shadow", "gshadow"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "etc", name), []byte(i.text("/etc/"+name)), 0o600))
	}
	defs := []byte("USERGROUPS_ENAB yes\nSYS_UID_MIN 100\nSYS_GID_MIN 100\n") // as in login.defs(5) of Debian
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc", "login.defs"), defs, 0o600))
	for _, line := range []string{
		"groupadd --system frr",
		"groupadd -r frrvty",
		"groupadd -r frr",
		"groupadd -f frr",
		"groupadd -r -g 8 x",
		"useradd --system -g frr --home-dir /nonexistent --no-create-home -s /bin/sh frr",
		"useradd --system -g frr -s /bin/sh frr",
		"useradd -r -g nosuch -s /bin/sh x",
		"useradd -r -u 8 -s /bin/sh x",
		"useradd -r -N -g users -c 'X y' -d /srv/x -s /usr/sbin/nologin x",
		"useradd -r -U -s /bin/sh -G adm,frr own",
		"useradd -r -s /bin/sh frrvty",
		"usermod -G frrvty frr",
		"usermod -a -G adm,mail frr",
		"usermod -aG nosuch frr",
		"usermod -G mail frr",
		"usermod -c 'A b' -d /run/frr -s /bin/bash frr",
		"usermod -g adm frr", // usermod 4.13 looks for the group on the host, which has this one too
		"usermod -L frr",
		"usermod -c x nosuch",
		"groupdel frrvty",
		"groupdel nosuch",
		"groupdel mail",
		"userdel nosuch",
		"userdel own",
		"userdel frr",
		"groupdel frrvty",
		"groupdel frr",
	} {
		status, _, stderr, err := i.do(line)
		require.NoError(t, err, line)
		name, args, _ := strings.Cut(line, " ")
		cmd := exec.Command("sh", "-c", name+` --prefix "$0" `+args, dir)
		out, err := cmd.CombinedOutput()
		exit := &exec.ExitError{}
		if err != nil {
			require.ErrorAs(t, err, &exit, line)
		}
		if errors.As(err, &exit) {
			require.Equal(t, exit.ExitCode(), status, "%s\nhost: %sreplay: %s", line, out, stderr)
		} else {
			require.Zero(t, status, "%s\nhost: %sreplay: %s", line, out, stderr)
		}
		real := func(name string) string {
			data, err := os.ReadFile(filepath.Join(dir, "etc", name))
			require.NoError(t, err)
			return string(data)
		}
		require.Equal(t, byName(real("passwd"), real("group")), byName(i.text("/etc/passwd"), i.text("/etc/group")), line)
	}
}

// byName writes accounts without ids: sorted, and with the name of a user's primary group.
func byName(passwd, group string) []string {
	var out []string
	groups := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(group), "\n") {
		f := strings.Split(line, ":")
		groups[f[2]] = f[0]
		members := strings.Split(f[3], ",")
		slices.Sort(members)
		out = append(out, "group "+f[0]+" "+strings.Join(members, ","))
	}
	for _, line := range strings.Split(strings.TrimSpace(passwd), "\n") {
		f := strings.Split(line, ":")
		out = append(out, strings.Join([]string{"user", f[0], groups[f[3]], f[4], f[5], f[6]}, " "))
	}
	slices.Sort(out)
	return out
}
