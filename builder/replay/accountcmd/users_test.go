package accountcmd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsersAndGroupsChange(t *testing.T) {
	i := newImage(t)
	i.ok("groupadd --system frr", "groupadd -r frrvty", "groupadd -f frrvty",
		"useradd --system -g frr --home-dir /nonexistent --no-create-home frr", "usermod -G frrvty frr",
		"usermod -aG adm frr")
	require.Equal(t, []string{"frr"}, i.group("frrvty").Members)
	require.Equal(t, []string{"frr"}, i.group("adm").Members)
	i.ok("usermod -G adm,mail frr")
	require.Empty(t, i.group("frrvty").Members, "a list replaces what there was")
	i.ok("usermod -r -G mail frr")
	require.Empty(t, i.group("mail").Members)
	require.Equal(t, []string{"frr"}, i.group("adm").Members)

	i.ok("usermod -g frrvty -d /run/frr -s /bin/bash -c 'Routing suite' -L -e 1 frr", "usermod -p ! frr",
		"usermod -p '*' frr")
	u := i.user("frr")
	require.Equal(t, []string{"frrvty", "/run/frr", "/bin/bash", "Routing suite"},
		[]string{u.Group, u.Home, u.Shell, u.Gecos})
	i.ok("usermod --home=/run/frr2 frr", "chsh -s /bin/sh frr", "chfn -f 'A B' -r 12 frr")
	u = i.user("frr")
	require.Equal(t, []string{"/run/frr2", "/bin/sh", "A B,12,,"}, []string{u.Home, u.Shell, u.Gecos})
	i.ok("chfn -o x frr")
	require.Equal(t, "A B,12,,,x", i.user("frr").Gecos)
	require.Contains(t, i.text("/etc/passwd"), ":A B,12,,,x:/run/frr2:/bin/sh\n")

	i.ok("gpasswd -a frr mail", "gpasswd -a mail mail", "gpasswd -d frr mail")
	require.Equal(t, []string{"mail"}, i.group("mail").Members)
	i.ok("gpasswd -M frr,games mail")
	require.Equal(t, []string{"frr", "games"}, i.group("mail").Members)
	i.ok("groupmod -aU root mail", "gpasswd -r mail")
	require.Equal(t, []string{"frr", "games", "root"}, i.group("mail").Members)
	require.Contains(t, i.text("/etc/group"), "mail:x:8:frr,games,root\n")
	require.Contains(t, i.text("/etc/gshadow"), "mail:!*::frr,games,root\n")
	i.ok("usermod -u 8 mail", "groupmod -g 8 mail", "userdel -f frr", "groupdel frr")
	require.Equal(t, []string{"games", "root"}, i.group("mail").Members)
}

func TestNothingKeepsADateOrAPassword(t *testing.T) {
	i := newImage(t)
	i.ok("useradd -r -e 2030-01-01 -f 3 -p '!' -K UID_MIN=100 x")
	before := i.text("/etc/shadow")
	i.ok("passwd -l x", "passwd -d x", "passwd --lock", "chage -M 99999 x", "pwck -s", "grpck", "pwconv", "grpconv",
		"shadowconfig on", "update-passwd --verbose", "gpasswd -R adm")
	require.Equal(t, before, i.text("/etc/shadow"))
	_, stdout, _, err := i.do("passwd -S x")
	require.NoError(t, err)
	require.Equal(t, "x L - - - - -\n", stdout)
}

func TestSubordinateIDsAreAddedOnce(t *testing.T) {
	i := newImage(t)
	i.ok("usermod --add-subuids 1000000-1065535 root", "usermod --add-subuids 1000000-1065535 root",
		"usermod -w 2000000-2000000 mail")
	require.Equal(t, "root:1000000:65536\n", i.text("/etc/subuid"))
	require.Equal(t, "mail:2000000:1\n", i.text("/etc/subgid"))
}

func TestAHomeMoves(t *testing.T) {
	i := newImage(t)
	i.ok("useradd -m -d /home/a a", "usermod -m -d /home/b a")
	require.True(t, i.files.Exists("/home/b/.profile"))
	require.False(t, i.files.Exists("/home/a"))
	require.Equal(t, "/home/b", i.user("a").Home)
}

func TestExitStatusesOfThePasswdSuite(t *testing.T) {
	for _, c := range []struct {
		line   string
		status int
	}{
		{"useradd", badUsage},
		{"useradd a b", badUsage},
		{"useradd mail", nameTaken},
		{"useradd staff", nameTaken},
		{"useradd -r -u 8 x", idTaken},
		{"useradd -r -u x x", badArgument},
		{"useradd -r -g nosuch x", notThere},
		{"useradd -r -G adm,nosuch x", notThere},
		{"useradd -r a:b", badArgument},
		{"useradd -r -d x x", badArgument},
		{"useradd -r -c 'a:b' x", badArgument},
		{"userdel nosuch", notThere},
		{"userdel", badUsage},
		{"userdel root", 1},
		{"usermod -L nosuch", notThere},
		{"usermod -g nosuch mail", notThere},
		{"usermod -aG nosuch mail", notThere},
		{"usermod -d x mail", badArgument},
		{"usermod -c 'a:b' mail", badArgument},
		{"usermod", badUsage},
		{"usermod -v 9-1 mail", badArgument},
		{"usermod -v 9 mail", badArgument},
		{"groupadd mail", nameTaken},
		{"groupadd -g 8 x", idTaken},
		{"groupadd -g -1 x", badArgument},
		{"groupadd 'a b'", badArgument},
		{"groupadd -U nosuch x", badArgument},
		{"groupadd", badUsage},
		{"groupdel nosuch", notThere},
		{"groupdel mail", 8},
		{"groupdel", badUsage},
		{"groupmod -U nosuch mail", badArgument},
		{"groupmod nosuch", notThere},
		{"groupmod", badUsage},
		{"gpasswd -a nosuch adm", badArgument},
		{"gpasswd -a mail nosuch", badArgument},
		{"gpasswd -d mail adm", badArgument},
		{"gpasswd -a mail", badUsage},
		{"passwd -l nosuch", 1},
		{"passwd -l a b", badUsage},
		{"chage -d 0 nosuch", 1},
		{"chage mail", badUsage},
		{"chsh -s /bin/sh nosuch", 1},
		{"chsh -s sh mail", 1},
		{"chfn -f 'a,b' mail", 1},
		{"chfn -f 'a:b' mail", 1},
		{"chfn -f x nosuch", 1},
	} {
		i := newImage(t)
		require.NoError(t, i.db.Write(i.files))
		before := i.text("/etc/passwd") + i.text("/etc/group")
		status, _, stderr, err := i.do(c.line)
		require.NoError(t, err, c.line)
		require.Equal(t, c.status, status, "%s: %s", c.line, stderr)
		require.NotEmpty(t, stderr, c.line)
		require.Equal(t, before, i.text("/etc/passwd")+i.text("/etc/group"), c.line)
	}
}
