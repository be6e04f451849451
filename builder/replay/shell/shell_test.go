package shell_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/shell"
	"spore/builder/tree"
)

func newShell(t testing.TB, setup func(*tree.Tree)) *shell.Shell {
	t.Helper()
	root := tree.New()
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/etc", "/tmp"} {
		require.NoError(t, root.Mkdir(dir, 0o755))
	}
	if setup != nil {
		setup(root)
	}
	return &shell.Shell{Files: files.New(root), Commands: command.Table{
		"cat": func(_ context.Context, c *command.Call) (int, error) {
			if len(c.Args) == 0 {
				_, err := io.Copy(c.Stdout, c.Stdin)
				return 0, err
			}
			for _, a := range c.Args {
				data, err := c.Files.ReadFile(c.Path(a))
				if err != nil {
					return c.Fail(1, "%s: No such file or directory", a)
				}
				if _, err := c.Stdout.Write(data); err != nil {
					return 0, err
				}
			}
			return 0, nil
		},
		"mkdir": func(_ context.Context, c *command.Call) (int, error) {
			for _, a := range c.Args {
				if err := c.Files.Mkdir(c.Path(a), 0o755); err != nil {
					return 0, err
				}
			}
			return 0, nil
		},
	}}
}

func run(t testing.TB, s *shell.Shell, text string, args ...string) error {
	t.Helper()
	return s.Run(context.Background(), shell.Script{Name: "x.postinst", Text: text, Args: args})
}

func TestAScriptWritesIntoTheTree(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"a redirection":           {"echo a > /etc/out", "a\n"},
		"an appended line":        {"echo a > /etc/out; echo b >> /etc/out", "a\nb\n"},
		"a relative path":         {"cd /etc; echo a > out", "a\n"},
		"a pipe":                  {"echo a | cat > /etc/out", "a\n"},
		"a here-document":         {"cat > /etc/out <<EOF\n$1\nEOF\n", "configure\n"},
		"escapes of dash's echo":  {"#!/bin/sh\necho 'a\\nb' > /etc/out", "a\nb\n"},
		"no escapes of bash's":    {"#!/bin/bash\necho 'a\\nb' > /etc/out", "a\\nb\n"},
		"the number of a process": {"echo $$ > /etc/out", "100\n"},
		"the parent's number":     {"echo $PPID > /etc/out", "1\n"},
		"a home":                  {"echo ~ > /etc/out", "/root\n"},
		"an identity":             {"echo $UID > /etc/out", "0\n"},
		"a text that is read":     {"echo 'V=1' > /etc/v; . /etc/v; echo $V > /etc/out", "1\n"},
		"a text of this program":  {"eval 'echo $$' > /etc/out", "100\n"},
		"another shell":           {"sh -c 'echo $1' x y > /etc/out", "y\n"},
		"a script of the tree":    {"helper a > /etc/out", "helper a\n"},
		"a variable of one call":  {"env A=1 sh -c 'echo $A' > /etc/out", "1\n"},
		"a glob":                  {"cd /usr/sbin; echo * > /etc/out", "helper\n"},
		"a program that is there": {"command -v helper > /etc/out", "/usr/sbin/helper\n"},
		"a program that is not":   {"command -v ls > /etc/out || echo no > /etc/out", "no\n"},
		"a program of the host":   {"[ -x /bin/ls ] || [ -e /etc/hostname ] || echo no > /etc/out", "no\n"},
		"the owner of a file":     {"test -O /usr/sbin/helper && [ -G /usr/sbin/helper ] && echo yes > /etc/out", "yes\n"},
		"an alias, as dash reads": {"#!/bin/sh\nalias say='echo x'\nf() { say y > /etc/out; }\nf", "x y\n"},
		"the home of a user":      {"echo ~mail/x ~nobody/y > /etc/out", "/var/mail/x ~nobody/y\n"},
		"the home in a test":      {"[ -d ~mail ] || echo no > /etc/out", "no\n"},
		"no background behind if": {"if false; then cat & fi; echo on > /etc/out", "on\n"},
		"a helper by its path":    {"/usr/lib/x/helper a > /etc/out", "the row\n"},
		"a helper of that name":   {"/usr/libexec/helper a > /etc/out", "helper a\n"},
		"no file is overwritten":  {"echo a > /etc/out; set -C; echo b > /etc/out || true; set +C; echo c >> /etc/out", "a\nc\n"},
		"a new file with set -C":  {"set -e; set -C; echo a > /etc/new; set +C; cat /etc/new > /etc/out", "a\n"},
		"a script with a row":     {"bash /usr/lib/x/helper > /etc/out", "the row\n"},
		"the owner for another":   {"USER=mail; [ ! -O /usr/sbin/helper ] && test ! -G /usr/sbin/helper && echo no > /etc/out", "no\n"},
		"what is not there":       {"[ -O /nothing ] || echo no > /etc/out", "no\n"},
		"all that exec writes":    {"sh -c 'exec > /etc/out; echo a; cat /usr/lib/x/helper'", "a\n#!/bin/sh\necho helper $1\n"},
		"an executable":           {"[ -x /usr/sbin/helper ] && echo yes > /etc/out", "yes\n"},
		"nothing of /proc":        {"[ -e /proc/self ] || echo no > /etc/out", "no\n"},
		"the end of a subshell":   {"(exit 3) || echo $? > /etc/out", "3\n"},
		"a trap at the end":       {"trap 'echo bye > /etc/out' EXIT INT TERM", "bye\n"},
		"a question":              {"db_get x/y; echo $RET > /etc/out", "it's x/y\n"},
		"what nobody reads":       {"echo a > /dev/null; echo b > /etc/out", "b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t, func(root *tree.Tree) {
				for _, p := range []string{"/usr/sbin/helper", "/usr/libexec/helper", "/usr/lib/x/helper"} {
					require.NoError(t, root.WriteFile(p, []byte("#!/bin/sh\necho helper $1\n"), 0o755, ""))
				}
			})
			s.User = func(name string) (shell.User, bool) {
				return shell.User{UID: 8, GID: 8, Home: "/var/mail"}, name == "mail"
			}
			s.Commands["/usr/lib/x/helper"] = func(_ context.Context, c *command.Call) (int, error) {
				_, err := io.WriteString(c.Stdout, "the row\n")
				return 0, err
			}
			s.Questions = map[string]shell.Question{"db_get": func(args []string) (string, string, int, error) {
				return "RET", "it's " + args[1], 0, nil
			}}
			require.NoError(t, run(t, s, c.script, "configure"))
			got, err := s.Files.ReadFile("/etc/out")
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestAMaskIsThatOfItsShell(t *testing.T) {
	s := newShell(t, nil)
	require.NoError(t, run(t, s, "(umask 077; echo a > /etc/secret); echo b > /etc/open"))
	for p, want := range map[string]uint32{"/etc/secret": 0o600, "/etc/open": 0o644} {
		n, err := s.Files.Stat(p)
		require.NoError(t, err)
		require.Equal(t, want, n.Mode, p)
	}
}

func TestAFailureThatIsIgnoredEndsNoCompoundCommand(t *testing.T) {
	for _, script := range []string{
		"if true; then false && true; fi", "{ false && true; }", "for i in 1; do false && true; done", "case a in a) false && true;; esac",
		"if false; then :; elif true; then false && true && true; fi", "if true; then for i in 1 2; do if true; then false && true; fi; done; fi",
		"i=; while [ -z \"$i\" ]; do i=1; false && true; done", "f() { if true; then false && true; fi; true; }; f", "(if true; then false && true; fi; true)",
		"if true; then true && { false && true; }; fi",
	} {
		s := newShell(t, nil)
		require.NoError(t, run(t, s, "set -e\n"+script+"\necho on > /etc/out"), script)
		got, err := s.Files.ReadFile("/etc/out")
		require.NoError(t, err)
		require.Equal(t, "on\n", string(got), script)
	}
	for _, script := range []string{
		"if true; then true && false; fi", "{ false; }", "for i in 1; do false || false; done", "(false)", "f() { false; }; f", "true && false", "x=$(false)",
		"f() { false && true; }; f",
	} {
		require.Error(t, run(t, newShell(t, nil), "set -e\n"+script+"\necho on > /etc/out"), script)
	}
	s := newShell(t, nil)
	require.NoError(t, run(t, s, "f() { if true; then false && true; fi; }; if f; then echo yes; else echo no; fi > /etc/out"))
	got, err := s.Files.ReadFile("/etc/out")
	require.NoError(t, err)
	require.Equal(t, "no\n", string(got), "the status of a function stays")
}

func TestLinesAreReadAsPOSIXSays(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"an empty first field":        {"printf '#a#b\\n' | while IFS='#' read -r x y; do echo \"<$x><$y>\"; done", "<><a#b>\n"},
		"blanks around fields":        {"echo '  a   b  c  ' | { read x y; echo \"<$x><$y>\"; }", "<a><b  c>\n"},
		"a delimiter with blanks":     {"echo 'a : b : c' | { IFS=' :' read x y; echo \"<$x><$y>\"; }", "<a><b : c>\n"},
		"no IFS":                      {"echo '  a b ' | { IFS= read -r x; echo \"<$x>\"; }", "<  a b >\n"},
		"one field and its delimiter": {"echo 'a:' | { IFS=: read x; echo \"<$x>\"; }", "<a>\n"},
		"fewer fields than names":     {"echo a | { read x y z; echo \"<$x><$y><$z>\"; }", "<a><><>\n"},
		"a backslash":                 {"printf 'a\\\\ b c\\n' | { read x y; echo \"<$x><$y>\"; }", "<a b><c>\n"},
		"a raw backslash":             {"printf 'a\\\\b\\n' | { read -r x; printf '%s\\n' \"<$x>\"; }", "<a\\b>\n"},
		"the end without a line feed": {"printf 'a' | { read x || echo \"end <$x>\"; }", "end <a>\n"},
		"the next line for the next":  {"printf 'a\\nb\\n' | { read x; cat; }", "b\n"},
		"a file":                      {"printf 'a b\\n' > /etc/in; read x y < /etc/in; echo \"<$x><$y>\"", "<a><b>\n"},
		"a quote in what is read":     {"printf \"it's\\n\" | { read x; echo \"<$x>\"; }", "<it's>\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t, nil)
			require.NoError(t, run(t, s, "{ "+c.script+"; } > /etc/out"))
			got, err := s.Files.ReadFile("/etc/out")
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestScriptsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		script, said string
		status       int
	}{
		"a status":              {"exit 3", "", 3},
		"a command that fails":  {"set -e\ncat /nothing\necho never > /etc/out", "cat: /nothing: No such file or directory", 1},
		"a first line with -e":  {"#!/bin/sh -e\nfalse\nexit 0", "", 1},
		"a command of nobody":   {"nothing", "nothing: not found", 127},
		"a failing source":      {"set -e\n. /etc/nothing", "", 1},
		"a question's status":   {"set -e; db_x", "", 30},
		"text that is not read": {"set -e; cat < /etc/nothing", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t, nil)
			s.Questions = map[string]shell.Question{"db_x": func([]string) (string, string, int, error) { return "", "", 30, nil }}
			err := run(t, s, c.script)
			var failed *shell.Failed
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.status, failed.Status)
			require.Contains(t, failed.Said, c.said)
		})
	}
}

func TestWhatNoScriptMayDo(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		is     error
		says   string
	}{
		"loop for ever":                        {"while :; do :; done", shell.ErrBound, "over 100000 commands"},
		"loop for ever without a command":      {"while ((1)); do x=1; done", shell.ErrBound, ""},
		"call itself":                          {"f() { f; }; f", shell.ErrBound, "without end"},
		"call itself by a file":                {"self", shell.ErrBound, "over 16 levels"},
		"fork by pipes":                        {"f() { f | f; }; f", shell.ErrBound, ""},
		"fork in the background":               {"f() { f & }; f", nil, "a command in the background is not replayed"},
		"fork in evaluated text":               {"eval 'cat &'", nil, "a command in the background is not replayed"},
		"fork in read text":                    {"echo 'cat &' > /etc/x; . /etc/x", nil, "a command in the background is not replayed"},
		"print without end":                    {"x=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; while :; do echo $x$x$x$x; done", shell.ErrBound, "bytes of output"},
		"grow a variable":                      {"x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done", shell.ErrBound, "of memory"},
		"grow a variable in one line":          {"x=aaaaaaaaaaaaaaaa" + strings.Repeat("; x=$x$x", 45), shell.ErrBound, "of memory"},
		"make files without end":               {"i=0; while :; do i=$((i+1)); echo > /etc/$i; done", nil, "more than a maintainer script may do"},
		"write to /proc":                       {"echo 1 > /proc/sys/kernel/panic", files.ErrRefused, "/proc/sys/kernel/panic"},
		"write to /proc through a link":        {"echo 1 > /etc/link/x", files.ErrRefused, "/etc/link/x"},
		"write to a device":                    {"echo 1 > /dev/sda", files.ErrRefused, "/dev/sda"},
		"draw lots":                            {"echo $RANDOM", nil, "$RANDOM is not replayed"},
		"draw lots in arithmetic":              {"echo $((RANDOM % 2))", nil, "RANDOM is not replayed"},
		"draw lots by another name":            {"x=RANDOM; echo ${!x}", nil, "${!…} is not replayed"},
		"read the clock":                       {"printf '%(%s)T'", nil, "printf of the time"},
		"substitute processes":                 {"cat <(echo)", nil, "a process substitution is not replayed"},
		"run a program of the tree":            {"/usr/bin/elf", nil, "no program of an image runs at build"},
		"run a script in another language":     {"line=1\nperl-script", nil, "line 2: perl-script is not replayed: it is written in perl"},
		"send":                                 {"echo x > /dev/tcp/127.0.0.1/80", files.ErrRefused, ""},
		"be no script":                         {"if", nil, "parse x.postinst"},
		"be huge":                              {strings.Repeat("#\n", 1<<21+1), shell.ErrBound, ""},
		"go on behind a refusal in a pipe":     {"perl-script | cat || true", nil, "perl-script is not replayed"},
		"go on behind a refusal in a subshell": {"x=$(perl-script) || true", nil, "perl-script is not replayed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t, func(root *tree.Tree) {
				require.NoError(t, root.WriteFile("/usr/bin/elf", []byte("\x7fELF\x00"), 0o755, ""))
				require.NoError(t, root.WriteFile("/usr/bin/perl-script", []byte("#!/usr/bin/perl\n"), 0o755, ""))
				require.NoError(t, root.WriteFile("/usr/bin/self", []byte("#!/bin/sh\nself\n"), 0o755, ""))
				require.NoError(t, root.Symlink("/proc", "/etc/link", ""))
			})
			s.Time = time.Minute
			if name == "loop for ever without a command" {
				s.Time = time.Second / 2 // no other bound ends it
			}
			err := run(t, s, c.script)
			require.Error(t, err)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestNothingOfTheHostReachesAScript(t *testing.T) {
	t.Setenv("SPORE_MARK", "mark-of-the-host")
	t.Setenv("HOME", "/mark-of-the-host")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/mark", []byte("echo mark-of-the-host > /etc/out"), 0o755))
	s := newShell(t, nil)
	script := fmt.Sprintf(`echo "$SPORE_MARK" "$HOME" ~ > /etc/out
[ -e %[1]s ] && echo mark-of-the-host >> /etc/out
[ -r %[1]s ] && echo mark-of-the-host >> /etc/out
[ %[1]s/mark -nt /etc/out ] && echo mark-of-the-host >> /etc/out
[[ -x %[1]s/mark ]] && echo mark-of-the-host >> /etc/out
type %[1]s/mark >> /etc/out
command -v %[1]s/mark >> /etc/out
hash %[1]s/mark >> /etc/out
cd %[1]s && echo mark-of-the-host >> /etc/out
PATH=%[1]s mark >> /etc/out
PATH=%[1]s . mark >> /etc/out
. %[1]s/mark
echo %[1]s/* >> /etc/listing
echo ~root ~daemon ~nobody >> /etc/out
pwd >> /etc/out
true
`, dir)
	require.NoError(t, run(t, s, script))
	got, err := s.Files.ReadFile("/etc/out")
	require.NoError(t, err)
	require.NotContains(t, string(got), "mark-of-the-host")
	got, err = s.Files.ReadFile("/etc/listing")
	require.NoError(t, err)
	require.Equal(t, dir+"/*\n", string(got))
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{"#!/bin/sh\nset -e\nif [ \"$1\" = configure ]; then echo $$; fi\n", "f(){ f|f& };f", "cat <(x) ~u ${!a} $((RANDOM))", "eval 'x'", "case $1 in a|b) ;; esac"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { _ = shell.Check("x", text) })
}
