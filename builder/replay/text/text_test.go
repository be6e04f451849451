package text_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text"
	"spore/builder/replay/text/stream"
	"spore/builder/tree"
)

// realFile has what the tools of Debian answer to cases; the test with the tag integration writes it with UPDATE=1.
const realFile = "testdata/real.json"

func readReal(t *testing.T) map[string]result {
	data, err := os.ReadFile(realFile)
	require.NoError(t, err)
	real := map[string]result{}
	require.NoError(t, json.Unmarshal(data, &real))
	return real
}

func (o one) key() string { return fmt.Sprintf("%q < %q", o.args, o.stdin) }

// different are cases in which the answer here is not the one of the tools, with the reason.
func different() map[string]string {
	big := cmd("awk", "BEGIN { print 1/3; print 1e6; print 100000 * 100000; print -3 % 2 }")
	return map[string]string{
		big.key(): "this mawk prints whole numbers over 31 bits with an exponent, POSIX says all digits",
	}
}

func TestCommandsAnswerAsTheToolsOfDebian(t *testing.T) {
	real := readReal(t)
	for _, o := range cases() {
		want, ok := real[o.key()]
		require.True(t, ok, "%s has no answer in %s", o.key(), realFile)
		if different()[o.key()] != "" {
			continue
		}
		got, stderr, err := replay(o.args, o.stdin)
		if err != nil {
			t.Errorf("%s: %v", o.key(), err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s (%q):\n got %+v\nwant %+v", o.key(), stderr, got, want)
		}
	}
}

func TestUnknownOptionsEndTheReplay(t *testing.T) {
	for _, o := range []one{
		cmd("cat", "--wrong"),
		cmd("tac", "-r", "abc"),
		cmd("head", "-z", "abc"),
		cmd("tail", "-f", "abc"),
		cmd("wc", "--files0-from=x"),
		cmd("nl", "-b", "pBRE", "abc"),
		cmd("fold", "-x"),
		cmd("rev", "-z"),
		cmd("tee", "-p"),
		cmd("cut", "-z", "-f1", "abc"),
		cmd("paste", "-z"),
		cmd("join", "-o", "1.1", "a", "b"),
		cmd("comm", "-z"),
		cmd("tr", "-x", "a", "b"),
		cmd("sort", "-R", "abc"),
		cmd("sort", "-h", "abc"),
		cmd("sort", "-M", "abc"),
		cmd("uniq", "-D", "dup"),
		cmd("seq", "1.5"),
		cmd("seq", "-f", "%g", "3"),
		cmd("od", "-tf4", "raw"),
		cmd("od", "-S3", "raw"),
		cmd("base64", "-x"),
		cmd("md5sum", "--tag", "abc"),
		cmd("cmp", "-l", "abc", "abd"),
		cmd("diff", "-y", "abc", "abd"),
		cmd("diff", "-w", "abc", "abd"),
		cmd("diff", "/", "/"),
		cmd("diff", "-U9", "abc", "abd"),
		cmd("date", "-s", "now"),
		cmd("date", "-d", "last week"),
		cmd("date", "+%Q"),
		cmd("date", "0101"),
		cmd("uname", "-x"),
		cmd("hostname", "evil"),
		cmd("yes"),
		cmd("grep", "-z", "a", "abc"),
		cmd("grep", "-b", "a", "abc"),
		cmd("grep", "-P", "(?=a)", "abc"),
		cmd("grep", "-P", "a+?", "abc"),
		cmd("sed", "--posix", "p"),
		cmd("sed", "e ls", "abc"),
		cmd("sed", "s/a/ls/e", "abc"),
		cmd("sed", "-l", "5", "p"),
		cmd("awk", "-W", "version"),
		cmd("awk", "--version"),
	} {
		_, _, err := replay(o.args, o.stdin)
		require.ErrorContains(t, err, "is not replayed", o.key())
		require.ErrorContains(t, err, o.args[0], o.key())
	}
}

func TestNoProgramOfAwkReachesTheMachineThatBuilds(t *testing.T) {
	for program, want := range map[string]string{
		`BEGIN { system("id") }`:                                    "NoExec",
		`BEGIN { "id" | getline x; print x }`:                       "NoExec",
		`BEGIN { print "x" | "sort" }`:                              "NoExec",
		`BEGIN { while ((getline l < "/etc/passwd") > 0) print l }`: "NoFileReads",
		`BEGIN { print "x" > "/tmp/out" }`:                          "NoFileWrites",
		`BEGIN { print "x" >> "/tmp/out" }`:                         "NoFileWrites",
		`BEGIN { f = "/dev/stderr"; print "x" > f }`:                "NoFileWrites",
		`BEGIN { srand(); print rand() }`:                           "by the clock",
		`BEGIN { for (k in ENVIRON) print k }`:                      "ENVIRON without an index",
		`BEGIN { ARGV[1] = "/etc/passwd"; ARGC = 2 } { print }`:     "ARGV",
		`{ nextfile }`:              "nextfile",
		`BEGIN { spore_stderr(1) }`: "spore_stderr",
	} {
		_, _, err := replay([]string{"awk", program}, "")
		require.ErrorContains(t, err, want, program)
	}
	r, _ := mustReplay(t, "", "awk",
		`BEGIN { print ENVIRON["PATH"] "" ENVIRON["PACKAGE"]; srand(1); print (rand() < 1) }`)
	require.Equal(t, strconv.Quote("demo\n1\n"), r.Stdout)
}

func TestAwkPrintsToStandardErrorWhereAProgramSaysSo(t *testing.T) {
	for _, program := range []string{
		`BEGIN { print "e" > "/dev/stderr"; print "o" }`,
		`BEGIN { printf("%s\n", "e") | "cat 1>&2"; print "o" > "/dev/stdout" }`,
		`BEGIN { if (1) print "e" >> "/dev/stderr"; else print "x"; print "o" > "-" }`,
	} {
		r, stderr := mustReplay(t, "", "awk", program)
		require.Equal(t, "e\n", stderr, program)
		require.Equal(t, strconv.Quote("o\n"), r.Stdout, program)
	}
}

func TestFactsOfTheMachineAreFixed(t *testing.T) {
	for want, args := range map[string][]string{
		"0.0.0-spore\n": {"uname", "-r"},
		"Linux localhost 0.0.0-spore #1 SMP Debian x86_64 GNU/Linux\n": {"uname", "-a"},
		"x86_64\n":                       {"arch"},
		"1\n":                            {"nproc", "--all"},
		"localhost\n":                    {"hostname", "--fqdn"},
		"\n":                             {"hostname", "-d"},
		"2023-11-14 22:13:20\n":          {"date", "+%F %T"},
		"1700000000\n":                   {"date", "+%s"},
		"Tue Nov 14 22:13:20 UTC 2023\n": {"date"},
	} {
		r, _ := mustReplay(t, "", args...)
		require.Equal(t, result{Stdout: strconv.QuoteToASCII(want)}, r, "%q", args)
	}
	for _, args := range [][]string{{"sync"}, {"logger", "-t", "x", "y"}, {"clear"}, {"sleep", "10000"}} {
		r, stderr := mustReplay(t, "", args...)
		require.Equal(t, result{Stdout: `""`}, r)
		require.Empty(t, stderr)
	}
}

func TestMessagesNameCommandAndFile(t *testing.T) {
	for want, args := range map[string][]string{
		"cat: missing: No such file or directory\n":                  {"cat", "missing"},
		"cat: /: Is a directory\n":                                   {"cat", "/"},
		"sed: can't read missing: No such file or directory\n":       {"sed", "p", "missing"},
		"sed: couldn't edit /: not a regular file\n":                 {"sed", "-i", "p", "/"},
		"grep: missing: No such file or directory\n":                 {"grep", "x", "missing"},
		"grep: Unmatched ( or \\(\n":                                 {"grep", `\(`, "abc"},
		"sed: -e expression #1, char 1: unknown command: `k'\n":      {"sed", "k"},
		"expr: division by zero\n":                                   {"expr", "1", "/", "0"},
		"awk: cannot open \"missing\" (No such file or directory)\n": {"awk", "1", "missing"},
	} {
		_, stderr := mustReplay(t, "", args...)
		require.Equal(t, want, stderr, "%q", args)
	}
}

func TestPlacesThatNoScriptMayWriteEndTheReplay(t *testing.T) {
	for _, args := range [][]string{
		{"tee", "/proc/x"}, {"sort", "-o", "/sys/x", "abc"}, {"sed", "w /dev/sda", "abc"}, {"uniq", "abc", "/dev/x"},
	} {
		_, _, err := replay(args, "")
		require.ErrorIs(t, err, files.ErrRefused, "%q", args)
	}
}

func TestCommandsHaveBounds(t *testing.T) {
	big := strings.Repeat("x", stream.MaxInput+1)
	for _, args := range [][]string{{"cat"}, {"sort"}, {"sed", "p"}, {"grep", "x"}, {"awk", "{ print }"}, {"tr",
		"a", "b"}} {
		_, _, err := replay(args, big)
		require.ErrorIs(t, err, files.ErrBound, "%q", args)
	}
	for _, o := range []one{
		cmd("sed", ":a;s/.*/&&/;ta").in("x"), cmd("sed", ":a;H;G;ba").in("xx"), cmd("seq", "100000000"),
		cmd("awk", "BEGIN { for (;;) print \"much\" }"), cmd("sed", ":a;p;ba").in("a line\n"),
		{args: append([]string{"expr"}, strings.Split(strings.Repeat("( ", 500)+"1", " ")...)},
	} {
		_, _, err := replay(o.args, o.stdin)
		require.ErrorIs(t, err, files.ErrBound, o.key()[:20])
	}
}

func TestEndlessProgramsEndWithTheContext(t *testing.T) {
	for _, args := range [][]string{{"sed", ":a;ba"}, {"sed", ":a;s/x/x/;ta"}, {"awk", "BEGIN { for (;;) ; }"},
		{"awk", "{ while (1) x++ }"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		c := &command.Call{Name: args[0], Args: args[1:], Dir: "/", Env: func(string) string { return "" },
			Stdin: strings.NewReader("x\n"), Stdout: io.Discard, Stderr: io.Discard, Files: files.New(tree.New())}
		_, err := text.Commands()[args[0]](ctx, c)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, "%q", args)
	}
}

func TestAReaderThatWentAwayEndsACommandAsSIGPIPEDoes(t *testing.T) {
	for _, args := range [][]string{{"cat"}, {"sed", "p"}, {"awk", "1"}, {"sort"}, {"grep", "x"}} {
		c := &command.Call{Name: args[0], Args: args[1:], Dir: "/", Env: func(string) string { return "" },
			Stdin: strings.NewReader(strings.Repeat("x\n", 100_000)), Stdout: brokenPipe{}, Stderr: io.Discard,
			Files: files.New(tree.New())}
		status, err := text.Commands()[args[0]](t.Context(), c)
		require.NoError(t, err, "%q", args)
		require.Equal(t, 141, status, "%q", args)
	}
}

func TestSedPutsAFileWhereALinkWasAndKeepsOwnerAndMode(t *testing.T) {
	fs := files.New(tree.New())
	require.NoError(t, fs.MkdirAll("/etc", 0o755))
	require.NoError(t, fs.WriteFile("/etc/real", []byte("a\n"), 0o640))
	require.NoError(t, fs.Change("/etc/real", true, func(n *tree.Inode) { n.UID, n.GID = 5, 6 }))
	require.NoError(t, fs.Symlink("real", "/etc/link"))
	require.NoError(t, fs.Link("/etc/real", "/etc/other"))
	c := &command.Call{Name: "sed", Args: []string{"-i", "s/a/b/", "link", "other"}, Dir: "/etc", Stdout: io.Discard,
		Stderr: io.Discard, Files: fs}
	status, err := text.Commands()["sed"](t.Context(), c)
	require.NoError(t, err)
	require.Zero(t, status)
	for p, want := range map[string]string{"/etc/real": "a\n", "/etc/link": "b\n", "/etc/other": "b\n"} {
		data, err := fs.ReadFile(p)
		require.NoError(t, err)
		require.Equal(t, want, string(data), p)
		n, err := fs.Lstat(p)
		require.NoError(t, err)
		require.Equal(t, []any{tree.Regular, uint32(0o640), uint32(5), uint32(6)}, []any{n.Type, n.Mode, n.UID,
			n.GID}, p)
	}
}
