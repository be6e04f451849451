package accountcmd

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func TestSystemUsersAsScriptsMakeThem(t *testing.T) {
	for line, want := range map[string]struct{ group, gecos, home, shell string }{
		"adduser --system --quiet --ingroup adm --no-create-home --home /nonexistent tcpdump": {
			"adm", "", "/nonexistent", "/usr/sbin/nologin"},
		"adduser --quiet --system --group --no-create-home --home /var/lib/unbound unbound": {
			"unbound", "", "/var/lib/unbound", "/usr/sbin/nologin"},
		"adduser --system --home /var/lib/postgresql --no-create-home --shell /bin/bash --group --gecos 'PG admin' pg": {
			"pg", "PG admin", "/var/lib/postgresql", "/bin/bash"},
		"adduser --system --disabled-password --disabled-login --home /var/lib/haproxy --no-create-home --group haproxy": {
			"haproxy", "", "/var/lib/haproxy", "/usr/sbin/nologin"},
		"adduser --system --group -q --home /var/spool/exim4 --no-create-home --force-badname Debian-exim": {
			"Debian-exim", "", "/var/spool/exim4", "/usr/sbin/nologin"},
		"adduser --allow-bad-names --system --stdoutmsglevel=warn --home /run/rpcbind --no-create-home _rpc": {
			"nogroup", "", "/run/rpcbind", "/usr/sbin/nologin"},
		"adduser --system --group --comment 'Postfix MTA' --home /var/spool/postfix --no-create-home postfix": {
			"postfix", "Postfix MTA", "/var/spool/postfix", "/usr/sbin/nologin"},
		"adduser --system ftp": {"nogroup", "", "/nonexistent", "/usr/sbin/nologin"},
		"useradd --system -g adm --home-dir /nonexistent --no-create-home frr": {
			"adm", "", "/nonexistent", "/bin/sh"},
		"useradd -r -d /opt/x -s /usr/sbin/nologin -c 'X y' x": {"x", "X y", "/opt/x", "/usr/sbin/nologin"},
		"useradd -rMN -b /srv y":                               {"users", "", "/srv/y", "/bin/sh"},
	} {
		t.Run(line, func(t *testing.T) {
			i := newImage(t)
			i.ok(line)
			var name string
			for _, u := range i.db.Users() {
				if u.ID >= 200 && u.ID <= 705 && u.Name != "_apt" {
					name = u.Name
				}
			}
			u := i.user(name)
			require.Equal(t, want.group, u.Group)
			require.Equal(t, want.gecos, u.Gecos)
			require.Equal(t, want.home, u.Home)
			require.Equal(t, want.shell, u.Shell)
			require.False(t, i.files.Exists(u.Home), "no home was wanted")
			gid, _ := i.db.PrimaryGroup(name)
			require.Contains(t, i.text("/etc/passwd"),
				fmt.Sprintf("%s:x:%d:%d:%s:%s:%s\n", name, u.ID, gid, u.Gecos, u.Home, u.Shell))
			require.Contains(t, i.text("/etc/shadow"), name+":!*:::::::\n")
		})
	}
}

func TestScriptsMayRunTwice(t *testing.T) {
	i := newImage(t)
	for range 2 {
		i.ok("addgroup --system nut", "adduser --system --ingroup nut --home /var/lib/nut nut", "adduser nut dialout")
	}
	require.Equal(t, []string{"nut"}, i.group("dialout").Members)
	require.Equal(t, i.user("nut").ID, i.group("nut").ID)
}

func TestHomesOfSystemUsers(t *testing.T) {
	i := newImage(t)
	i.ok("adduser --system --group --home /var/lib/deep/redis redis")
	n, err := i.files.Stat("/var/lib/deep/redis")
	require.NoError(t, err)
	require.Equal(t, tree.Dir, n.Type)
	require.Equal(t, uint32(0o755), n.Mode)
	require.Equal(t, i.user("redis").ID, n.UID)
	require.Equal(t, i.group("redis").ID, n.GID)
	parent, err := i.files.Stat("/var/lib/deep")
	require.NoError(t, err)
	require.Zero(t, parent.UID)
	names, err := i.files.ReadDir("/var/lib/deep/redis")
	require.NoError(t, err)
	require.Empty(t, names, "no file of /etc/skel")

	require.NoError(t, i.files.Mkdir("/var/lib/there", 0o700))
	i.ok("adduser --system --home /var/lib/there there")
	n, err = i.files.Stat("/var/lib/there")
	require.NoError(t, err)
	require.Equal(t, uint32(0o700), n.Mode, "what is there stays")
	require.Zero(t, n.UID)
	i.ok("adduser --system --home /var/lib/etcd/ etcd-proxy", "adduser --system --home /nonexistent/x x")
	require.True(t, i.files.IsDir("/var/lib/etcd"))
	require.False(t, i.files.Exists("/nonexistent"))
}

func TestHomesOfPersonsHaveTheSkeleton(t *testing.T) {
	for _, line := range []string{
		"adduser --disabled-password --gecos '' ann", "useradd -m -s /bin/bash ann", "useradd -mk /etc/skel -s/bin/bash ann",
	} {
		i := newImage(t)
		i.ok(line)
		for p, mode := range map[string]uint32{
			"/home/ann": 0o700, "/home/ann/.profile": 0o644, "/home/ann/dir": 0o755, "/home/ann/dir/file": 0o600,
			"/home/ann/link": 0o777,
		} {
			n, err := i.files.Lstat(p)
			require.NoError(t, err)
			require.Equal(t, mode, n.Mode, p)
			require.Equal(t, i.user("ann").ID, n.UID, p)
			require.Equal(t, i.group("ann").ID, n.GID, p)
		}
		n, err := i.files.Stat("/etc/skel/.profile")
		require.NoError(t, err)
		require.Zero(t, n.UID, "the skeleton stays root's")
		require.Equal(t, "/bin/bash", i.user("ann").Shell)
	}
}

func TestIDsThatScriptsWishFor(t *testing.T) {
	i := newImage(t)
	i.ok("addgroup --system --gid 61000 a", "adduser --system --uid 61000 --gid 61000 a", "groupadd -g 107 b",
		"useradd -r -u 107 -g b b", "adduser --system --uid 61001 --group c", "adduser --system --uid 64045 --group ceph",
		"adduser --system --uid 107 --group d", "adduser --system --uid 107 --group d")
	require.Equal(t, uint32(61000), i.user("a").ID)
	require.Equal(t, uint32(61000), i.group("a").ID)
	require.Equal(t, "a", i.user("a").Group)
	require.True(t, i.user("b").ID >= 200 && i.user("b").ID < 700, "a number of one system")
	require.Equal(t, i.group("b").ID, i.user("b").ID)
	require.Equal(t, uint32(61001), i.group("c").ID)
	require.Equal(t, uint32(64045), i.user("ceph").ID)
	require.Equal(t, i.group("d").ID, i.user("d").ID)
}

func TestExitStatusesOfAdduser(t *testing.T) {
	for _, c := range []struct {
		line   string
		status int
	}{
		{"adduser --system mail", wrongProperties},
		{"addgroup --system plugdev", wrongProperties},
		{"addgroup plugdev", objectExists},
		{"adduser --disabled-login mail", objectExists},
		{"adduser --disabled-login staff", objectExists},
		{"adduser nosuch mail", noSuchObject},
		{"adduser mail nosuch", noSuchObject},
		{"adduser mail mail", 0},
		{"adduser --system --ingroup nosuch x", noSuchObject},
		{"adduser --system --gid 4000 x", noSuchObject},
		{"adduser --system --uid 8 x", wrongProperties},
		{"adduser --disabled-login --uid 8 x", idInUse},
		{"addgroup --system --gid 8 x", idInUse},
		{"adduser --system --uid 99999 x", invalidCall},
		{"adduser --system --uid -1 x", invalidCall},
		{"adduser", invalidCall},
		{"adduser a b c", invalidCall},
		{"adduser --system mail adm", invalidCall},
		{"addgroup mail adm", invalidCall},
		{"adduser --system --group --ingroup adm x", exclusive},
		{"adduser --system --home x x", invalidHome},
		{"adduser --system 1234", invalidName},
		{"adduser --system --force-badname ..", invalidName},
		{"adduser --system a:b", invalidName},
		{"adduser --system 'a b'", invalidName},
		{"adduser --system aaaaaaaaabbbbbbbbbccccccccddddddd", invalidName},
		{"adduser --disabled-login _x", invalidName},
		{"adduser --system --home /a:b x", systemCallFailed},
		{"adduser --system --gecos 'a:b' x", systemCallFailed},
		{"adduser --system --shell sh x", systemCallFailed},
		{"deluser nosuch", noSuchObject},
		{"deluser --system nosuch", 0},
		{"deluser --system mail", wrongProperties},
		{"deluser root", dontRemoveRoot},
		{"deluser mail adm", notInGroup},
		{"deluser mail mail", noPrimaryGroup},
		{"deluser nosuch adm", noSuchObject},
		{"deluser mail nosuch", noSuchObject},
		{"deluser", invalidCall},
		{"delgroup nosuch", noSuchObject},
		{"delgroup --system nosuch", 0},
		{"delgroup --system plugdev", wrongProperties},
		{"delgroup mail", systemCallFailed},
	} {
		i := newImage(t)
		require.NoError(t, i.db.Write(i.files))
		before := i.text("/etc/passwd") + i.text("/etc/group")
		status, _, stderr, err := i.do(c.line)
		require.NoError(t, err, c.line)
		require.Equal(t, c.status, status, "%s: %s", c.line, stderr)
		require.Equal(t, before, i.text("/etc/passwd")+i.text("/etc/group"), c.line)
	}
}

func TestCallsThatEndTheReplay(t *testing.T) {
	for line, message := range map[string]string{
		"adduser --system --conf /etc/x x":     "the option --conf is not replayed",
		"adduser --encrypt-home x":             "the option --encrypt-home is not replayed",
		"adduser --system=yes x":               "the option --system=yes is not replayed",
		"adduser --s x":                        "the option --s is not replayed",
		"adduser --system x --home":            "the option --home has no value",
		"adduser x":                            "asks a person for a password",
		"adduser --system --uid 64045 x":       "it is that of ceph",
		"adduser --system --uid 64046 ceph":    "ceph is 64045 in accounts/table, and the package wants 64046",
		"deluser --remove-all-files mail":      "the option --remove-all-files is not replayed",
		"deluser --backup mail":                "the option --backup is not replayed",
		"useradd -o x":                         "the option -o is not replayed",
		"useradd -p $6$x x":                    "puts a password into the image",
		"useradd -p '' x":                      "puts a password into the image",
		"useradd --system -g":                  "the option -g has no value",
		"useradd -R /x x":                      "the option -R is not replayed",
		"usermod -p x mail":                    "puts a password into the image",
		"usermod -l new mail":                  "the option -l is not replayed",
		"usermod -u 300 mail":                  "user mail keeps the id 8",
		"groupadd -o x":                        "the option -o is not replayed",
		"groupmod -g 300 mail":                 "group mail keeps the id 8",
		"groupmod -n new mail":                 "the option -n is not replayed",
		"gpasswd mail":                         "asks a person for a password",
		"gpasswd -A mail mail":                 "the option -A is not replayed",
		"passwd mail":                          "asks a person for a password",
		"passwd -q":                            "asks a person for a password",
		"passwd -u mail":                       "the option -u is not replayed",
		"chage -l mail":                        "the option -l is not replayed",
		"chsh mail":                            "asks a person",
		"chfn mail":                            "asks a person",
		"chpasswd":                             "it puts passwords into the image",
		"newusers x":                           "not replayed",
		"vipw":                                 "not replayed",
		"newgrp adm":                           "not replayed",
		"pwunconv":                             "not replayed",
		"getent services ssh":                  `the database "services" is not replayed`,
		"getent -x passwd":                     "the option -x is not replayed",
		"id -Z":                                "the option -Z is not replayed",
		"groups -x":                            "the option -x is not replayed",
		"systemd-sysusers --root=/mnt":         "the option --root=/mnt is not replayed",
		"systemd-sysusers --image=x":           "the option --image=x is not replayed",
		"systemd-sysusers --inline 'u mail 9'": "user mail is 8 in this image",
		"su -x root":                           "the option -x is not replayed",
		"su -s /bin/zsh root":                  "the shell /bin/zsh of user root is not replayed",
		"runuser -x root":                      "the option -x is not replayed",
		"setpriv --selinux-label=x true":       "the option --selinux-label=x is not replayed",
		"setpriv --reuid=root":                 "names no command",
	} {
		_, _, _, err := newImage(t).do(line)
		require.ErrorContains(t, err, message, line)
	}
}

func TestUsersAndGroupsGoAway(t *testing.T) {
	i := newImage(t)
	i.ok("adduser --system --group --home /var/lib/a a", "adduser a adm", "adduser --system --ingroup a b")
	id := i.user("a").ID
	i.ok("deluser a adm")
	require.Empty(t, i.group("adm").Members)
	i.ok("adduser a adm", "deluser --quiet --system a")
	require.Empty(t, i.group("adm").Members)
	require.Equal(t, id, i.group("a").ID, "the group stays for b")
	require.True(t, i.files.IsDir("/var/lib/a"))
	require.NotContains(t, i.text("/etc/passwd"), "\na:")
	i.ok("userdel b", "delgroup --only-if-empty a")
	i.ok("adduser --system --group --home /var/lib/a a", "deluser --remove-home a")
	require.False(t, i.files.Exists("/var/lib/a"))
	_, ok := i.db.Group("a")
	require.False(t, ok, "nobody else is in the group")

	i.ok("addgroup --system g", "adduser mail g")
	status, _, _, err := i.do("delgroup --only-if-empty g")
	require.NoError(t, err)
	require.Equal(t, groupNotEmpty, status)
	i.ok("delgroup g")
}

func TestNoCommandRemovesTheHomeOfAnother(t *testing.T) {
	i := newImage(t)
	require.NoError(t, i.files.Mkdir("/var/lib/other", 0o755))
	require.NoError(t, i.files.Symlink("/usr", "/var/lib/link"))
	for _, home := range []string{"/var/lib/other", "/usr", "/etc", "/", "/var/lib/link", "/var/lib/nothing"} {
		i.ok("useradd -r -d "+home+" x", "userdel -r x")
	}
	for _, p := range []string{"/var/lib/other", "/usr/lib/sysusers.d", "/etc/skel"} {
		require.True(t, i.files.IsDir(p), p)
	}
}
