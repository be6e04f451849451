package accountcmd

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
)

func TestLookups(t *testing.T) {
	i := newImage(t)
	i.ok("adduser --system --uid 61000 --group --gecos 'A b' a", "adduser a adm", "adduser a audio")
	for _, c := range []struct {
		line, stdout string
		status       int
	}{
		{"getent passwd a", "a:x:61000:61000:A b:/nonexistent:/usr/sbin/nologin\n", 0},
		{"getent passwd 61000", "a:x:61000:61000:A b:/nonexistent:/usr/sbin/nologin\n", 0},
		{"getent passwd 0", "root:x:0:0:root:/root:/bin/bash\n", 0},
		{"getent passwd nosuch", "", 2},
		{"getent passwd 12345", "", 2},
		{"getent passwd a:x", "", 2},
		{"getent passwd ''", "", 2},
		{"getent group adm", "adm:x:4:a\n", 0},
		{"getent group 4 nosuch audio", "adm:x:4:a\naudio:x:29:a\n", 2},
		{"getent shadow a", "a:!*:::::::\n", 0},
		{"getent shadow 0", "", 2},
		{"getent gshadow adm", "adm:!*::a\n", 0},
		{"getent hosts localhost", "", 2},
		{"getent", "", 1},
		{"id", "uid=0(root) gid=0(root) groups=0(root)\n", 0},
		{"id a", "uid=61000(a) gid=61000(a) groups=61000(a),4(adm),29(audio)\n", 0},
		{"id -u", "0\n", 0},
		{"id -un", "root\n", 0},
		{"id -u a", "61000\n", 0},
		{"id -ru a", "61000\n", 0},
		{"id -g a", "61000\n", 0},
		{"id -gn 61000", "a\n", 0},
		{"id -G a", "61000 4 29\n", 0},
		{"id -Gn a", "a adm audio\n", 0},
		{"id --groups --name a", "a adm audio\n", 0},
		{"id -u nosuch", "", 1},
		{"id -u a nosuch", "61000\n", 1},
		{"id -ug", "", 1},
		{"id -n", "", 1},
		{"groups", "root\n", 0},
		{"groups a", "a : a adm audio\n", 0},
		{"groups nosuch", "", 1},
		{"whoami", "root\n", 0},
		{"whoami x", "", 1},
		{"logname", "", 1},
	} {
		status, stdout, _, err := i.do(c.line)
		require.NoError(t, err, c.line)
		require.Equal(t, c.status, status, c.line)
		require.Equal(t, c.stdout, stdout, c.line)
	}
	_, stdout, _, err := i.do("getent passwd")
	require.NoError(t, err)
	require.Equal(t, i.text("/etc/passwd"), stdout)
}

// closed is a pipe whose reader has gone, or a file that is full.
type closed struct{ err error }

func (w closed) Write([]byte) (int, error) { return 0, w.err }

func TestAReaderThatHasSeenEnoughEndsTheCommandAlone(t *testing.T) {
	i := newImage(t)
	for _, args := range [][]string{{"getent", "passwd"}, {"getent", "passwd", "root"}, {"id"}, {"groups"}, {"whoami"}} {
		call := command.Call{Name: args[0], Args: args[1:], Stdout: closed{io.ErrClosedPipe}, Stderr: io.Discard}
		status, err := i.table[args[0]](t.Context(), &call)
		require.NoError(t, err)
		require.Equal(t, brokenPipe, status)
		call.Stdout = closed{files.ErrBound}
		_, err = i.table[args[0]](t.Context(), &call)
		require.ErrorIs(t, err, files.ErrBound)
	}
}

func TestCommandsAsAUser(t *testing.T) {
	for line, want := range map[string]string{
		"su -s /bin/sh postgres -c 'test -O /x'": "env|HOME=/nonexistent|USER=postgres|LOGNAME=postgres|sh|-c|test -O /x",
		"su postgres -c ls":                      "env|HOME=/nonexistent|USER=postgres|LOGNAME=postgres|sh|-c|ls",
		"su - postgres -c ls -- a b":             "env|HOME=/nonexistent|USER=postgres|LOGNAME=postgres|sh|-c|ls|a|b",
		"su -l -c ls":                            "sh|-c|ls",
		"su postgres":                            "env|HOME=/nonexistent|USER=postgres|LOGNAME=postgres|sh",
		"runuser -u postgres -- ls -l":           "ls|-l",
		"runuser -u mail ls":                     "ls",
		"runuser postgres -s /bin/bash -c ls":    "env|HOME=/nonexistent|USER=postgres|LOGNAME=postgres|sh|-c|ls",
		"runuser -l postgres -c ls":              "env|HOME=/nonexistent|USER=postgres|LOGNAME=postgres|sh|-c|ls",
		"setpriv --reuid man --regid man --init-groups -- mandb -q":            "mandb|-q",
		"setpriv --reuid=6 --regid=12 --clear-groups --no-new-privs mandb --x": "mandb|--x",
	} {
		i := newImage(t)
		i.ok("adduser --system --group --shell /bin/bash postgres")
		status, _, _, err := i.do(line)
		require.NoError(t, err, line)
		require.Equal(t, 7, status, line)
		require.Equal(t, []string{want}, i.ran, line)
	}
	for _, line := range []string{
		"su nosuch -c ls", "su mail -c ls", "runuser -u nosuch ls", "runuser -u mail", "runuser mail -c ls",
		"setpriv --reuid=nosuch ls", "setpriv --regid=nosuch ls",
	} {
		i := newImage(t)
		status, _, stderr, err := i.do(line)
		require.NoError(t, err, line)
		require.NotZero(t, status, line)
		require.NotEmpty(t, stderr, line)
		require.Empty(t, i.ran, line)
	}
}

func TestSystemdSysusers(t *testing.T) {
	i := newImage(t)
	for name, text := range map[string]string{
		"/usr/lib/sysusers.d/a.conf": "u a - 'A'\n", "/usr/lib/sysusers.d/b.conf": "u b - 'packaged'\nm a g\n",
		"/usr/lib/sysusers.d/notes.txt": "no line\n", "/opt/c.conf": "u c - 'C' /opt/c\n",
	} {
		require.NoError(t, i.files.MkdirAll("/opt", 0o755))
		require.NoError(t, i.files.WriteFile(name, []byte(text), 0o644))
	}
	i.ok("systemd-sysusers a.conf /opt/c.conf")
	require.Equal(t, "A", i.user("a").Gecos)
	require.Equal(t, "/opt/c", i.user("c").Home)
	require.Contains(t, i.text("/etc/passwd"), "\nc:x:")
	_, ok := i.db.User("b")
	require.False(t, ok, "only the named files")

	require.NoError(t, i.files.MkdirAll("/etc/sysusers.d", 0o755))
	require.NoError(t, i.files.WriteFile("/etc/sysusers.d/b.conf", []byte("u b - 'local'\n"), 0o644))
	i.stdin = "g piped -\n"
	i.ok("systemd-sysusers --root=/ -", "systemd-sysusers --inline 'u inline - Inline' 'm inline piped'",
		"systemd-sysusers --dry-run", "systemd-sysusers")
	require.Equal(t, "local", i.user("b").Gecos)
	require.Equal(t, []string{"inline"}, i.group("piped").Members)

	i = newImage(t)
	require.NoError(t, i.files.WriteFile("/usr/lib/sysusers.d/a.conf", []byte("u x - 'first'\n"), 0o644))
	require.NoError(t, i.files.WriteFile("/usr/lib/sysusers.d/c.conf", []byte("u x - 'last'\nu y - 'Y'\n"), 0o644))
	i.ok("systemd-sysusers --replace=/usr/lib/sysusers.d/b.conf --inline 'u x - between' 'u z - Z'")
	require.Equal(t, []string{"first", "Y", "Z"}, []string{i.user("x").Gecos, i.user("y").Gecos, i.user("z").Gecos})

	for _, line := range []string{
		"systemd-sysusers nosuch.conf", "systemd-sysusers /nosuch.conf",
		"systemd-sysusers --replace=/usr/lib/sysusers.d/b.conf",
		"systemd-sysusers --replace=b --inline 'u q -'",
	} {
		status, _, stderr, err := i.do(line)
		require.NoError(t, err, line)
		require.Equal(t, 1, status, line)
		require.NotEmpty(t, stderr, line)
	}
}

func TestWhatIsPipedInIsBounded(t *testing.T) {
	i := newImage(t)
	i.stdin = string(make([]byte, maxInput+1))
	_, _, _, err := i.do("systemd-sysusers -")
	require.ErrorContains(t, err, "more than 1048576 bytes")
}
