package debian

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/shell"
	"spore/builder/tree"
)

// names are accounts of a test.
type names map[string]uint32

func (n names) UserID(name string) (uint32, bool)  { id, ok := n[name]; return id, ok }
func (n names) GroupID(name string) (uint32, bool) { id, ok := n[name]; return id, ok }

func newTools(t testing.TB) *Tools {
	t.Helper()
	root := tree.New()
	for _, dir := range []string{"/usr/bin", "/etc", "/var/lib", "/tmp", "/usr/lib/tmpfiles.d"} {
		require.NoError(t, root.Mkdir(dir, 0o755))
	}
	for _, p := range []string{"/usr/bin/one", "/usr/bin/two"} {
		require.NoError(t, root.WriteFile(p, []byte(p), 0o755, ""))
	}
	tools := New(files.New(root), names{"root": 0, "daemon": 1}, map[string]Package{
		"a":     {Version: "1:2.0-1", Paths: func() []string { return []string{"/usr/bin/one", "/usr/share/a"} }},
		"liba1": {Version: "2.0-1", Conffiles: []string{"/etc/liba.conf"}},
	}, nil, map[string]OnNode{"deferring": {Commands: []string{"ssh-keygen"}}})
	tools.Begin("a")
	return tools
}

// call runs a command line of words.
func call(t testing.TB, tools *Tools, line string) (stdout, stderr string, status int, err error) {
	t.Helper()
	words := strings.Fields(line)
	var out, errs bytes.Buffer
	fn := tools.Commands()[words[0]]
	require.NotNil(t, fn, words[0])
	status, err = fn(context.Background(), &command.Call{Name: words[0], Args: words[1:], Dir: "/", Env: func(string) string { return "" },
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Files: tools.files, Umask: 0o022})
	return out.String(), errs.String(), status, err
}

func TestAnswersOfDebiansTools(t *testing.T) {
	for line, want := range map[string]struct {
		out    string
		status int
	}{
		"dpkg --compare-versions 1.0 lt 2.0":                           {},
		"dpkg --compare-versions 1:0 lt 2.0":                           {status: 1},
		"dpkg --compare-versions 1.0~rc lt 1.0":                        {},
		"dpkg --compare-versions 2 ge 2":                               {},
		"dpkg --compare-versions 2 ne 2":                               {status: 1},
		"dpkg --compare-versions 2 gt-nl 1":                            {},
		"dpkg --compare-versions 2 like 1":                             {status: 2},
		"dpkg --print-architecture":                                    {out: "amd64\n"},
		"dpkg -L a":                                                    {out: "/usr/bin/one\n/usr/share/a\n"},
		"dpkg -S /usr/bin/one":                                         {out: "a: /usr/bin/one\n"},
		"dpkg -S /usr/bin/none":                                        {status: 1},
		"dpkg -s none":                                                 {status: 1},
		"dpkg-query -W -f=${Version} a":                                {out: "1:2.0-1"},
		"dpkg-query --show --showformat=${db:Status-Status} liba*":     {out: "installed"},
		"dpkg-query -W -f=${Status} none":                              {status: 1},
		"dpkg-divert --list none":                                      {status: 1},
		"dpkg-divert --truename /usr/bin/one":                          {out: "/usr/bin/one\n"},
		"dpkg-statoverride --list /usr/bin/one":                        {status: 1},
		"dpkg-statoverride --add nosuch root 4755 /usr/bin/one":        {status: 2},
		"dpkg-statoverride --add root root 99999 /usr/bin/one":         {status: 2},
		"dpkg-maintscript-helper rm_conffile /etc/x 1.0 -- configure":  {},
		"dpkg-maintscript-helper supports symlink_to_dir":              {},
		"dpkg-architecture -qDEB_HOST_MULTIARCH":                       {out: "x86_64-linux-gnu\n"},
		"update-alternatives --list editor":                            {status: 2},
		"update-alternatives --install /usr/bin/e e /usr/bin/none 1":   {status: 2},
		"update-alternatives --install /usr/bin/e e /usr/bin/one high": {status: 2},
		"deb-systemd-helper was-enabled x.service":                     {},
		"deb-systemd-helper debian-installed x.service":                {status: 1},
		"systemctl is-active x":                                        {status: 3},
		"systemctl is-enabled x":                                       {status: 1},
		"invoke-rc.d x start":                                          {},
		"ucf /usr/bin/none /etc/x":                                     {status: 1},
		"a2enmod none":                                                 {status: 1},
	} {
		t.Run(line, func(t *testing.T) {
			out, _, status, err := call(t, newTools(t), line)
			require.NoError(t, err)
			require.Equal(t, want.status, status)
			require.Equal(t, want.out, out)
		})
	}
}

func TestWhatEndsAReplay(t *testing.T) {
	for line, want := range map[string]string{
		"dpkg --install x.deb":                           "--install is not replayed",
		"dpkg-query --no-such-option":                    "--no-such-option is not replayed",
		"dpkg-divert --frob /usr/bin/one":                "--frob is not replayed",
		"dpkg-maintscript-helper frob":                   "frob is not replayed",
		"systemctl frob":                                 "frob is not replayed",
		"update-alternatives --config e":                 "--config is not replayed",
		"dpkg-divert --add /usr/lib/spore/manifest.json": "it would hide a file of Spore",
		"ssh-keygen -A":                                  "it makes keys",
		"python3 -c pass":                                "it is a program",
	} {
		t.Run(line, func(t *testing.T) {
			_, _, _, err := call(t, newTools(t), line)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestDiversionsAreListedAndTakenBack(t *testing.T) {
	tools := newTools(t)
	for _, line := range []string{"dpkg-divert --package a --rename --divert /usr/bin/one.real --add /usr/bin/one", "dpkg-divert --package a --rename --divert /usr/bin/one.real --add /usr/bin/one"} {
		_, _, status, err := call(t, tools, line)
		require.NoError(t, err)
		require.Zero(t, status, "the same again is nothing new")
	}
	require.Equal(t, "/usr/bin/one", tools.Divert("a", "/usr/bin/one"), "the package that diverts has the path")
	require.Equal(t, "/usr/bin/one.real", tools.Divert("b", "/usr/bin/one"))
	out, _, _, err := call(t, tools, "dpkg-divert --list /usr/bin/*")
	require.NoError(t, err)
	require.Equal(t, "diversion of /usr/bin/one to /usr/bin/one.real by a\n", out)
	_, _, status, err := call(t, tools, "dpkg-divert --package b --add /usr/bin/one")
	require.NoError(t, err)
	require.Equal(t, 2, status, "another diversion clashes")
	_, _, _, err = call(t, tools, "dpkg-divert --package a --rename --remove /usr/bin/one")
	require.NoError(t, err)
	require.True(t, tools.files.Exists("/usr/bin/one"))
	require.False(t, tools.files.Exists("/usr/bin/one.real"))
}

func TestAlternativesFollowTheHighestPriorityAndWhatIsSet(t *testing.T) {
	tools := newTools(t)
	target := func() string {
		n, err := tools.files.Lstat("/etc/alternatives/e")
		require.NoError(t, err)
		return n.Target
	}
	for _, step := range []struct{ line, want string }{
		{"update-alternatives --install /usr/bin/e e /usr/bin/one 10 --slave /usr/share/e.1 e.1 /usr/share/none", "/usr/bin/one"},
		{"update-alternatives --install /usr/bin/e e /usr/bin/two 20", "/usr/bin/two"},
		{"update-alternatives --set e /usr/bin/one", "/usr/bin/one"},
		{"update-alternatives --auto e", "/usr/bin/two"},
		{"update-alternatives --remove e /usr/bin/two", "/usr/bin/one"},
	} {
		_, _, status, err := call(t, tools, step.line)
		require.NoError(t, err)
		require.Zero(t, status, step.line)
		require.Equal(t, step.want, target(), step.line)
	}
	_, _, _, err := call(t, tools, "update-alternatives --remove-all e")
	require.NoError(t, err)
	require.False(t, tools.files.Exists("/usr/bin/e"))
}

func TestASecretIsLeftToTheNodeOnlyWhereAUnitMakesIt(t *testing.T) {
	tools := newTools(t)
	tools.Begin("deferring")
	_, _, status, err := call(t, tools, "ssh-keygen -A")
	require.NoError(t, err)
	require.Zero(t, status)
	require.Equal(t, []string{"deferring"}, tools.Deferred())
	_, _, _, err = call(t, tools, "openssl req")
	var unreplayed *shell.Unreplayed
	require.ErrorAs(t, err, &unreplayed)
}

func TestNoAnswerOfDebconfIsAPassword(t *testing.T) {
	tools := newTools(t)
	require.NoError(t, tools.LoadTemplates("a", []byte("Template: a/pw\nType: password\nDefault: secret\nDescription: x\n")))
	_, value, status, err := tools.Questions()["db_get"]([]string{"db_get", "a/pw"})
	require.NoError(t, err)
	require.Zero(t, status)
	require.Empty(t, value)
	_, _, status, err = tools.Questions()["db_get"]([]string{"db_get", "a/none"})
	require.NoError(t, err)
	require.Equal(t, codeBad, status)
}

func TestRowsOfUndoneCommandsHaveReasons(t *testing.T) {
	for name, r := range undone {
		require.NotEmpty(t, r.why, name)
		require.Empty(t, secrets[name], "%s is in both tables", name)
	}
}

func FuzzTmpfiles(f *testing.F) {
	for _, s := range []string{"d /var/lib/a 0750 daemon daemon -", "f /etc/x - - - - text", "L /etc/l - - - - ../x", "z /usr/bin/one 4755", "d /../../x", "f^ /etc/x - - - - cred", "q", "d /proc/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) { _ = newTools(t).tmpfilesLine(line) })
}

func FuzzTemplates(f *testing.F) {
	f.Add("Template: a/b\nType: select\nChoices: x, y\nDefault: x\nDescription: d\n")
	f.Fuzz(func(t *testing.T, text string) { _ = newTools(t).LoadTemplates("a", []byte(text)) })
}
