package fileutils

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func TestAModeIsChangedAsModechangeOfGnulibDoes(t *testing.T) {
	for _, c := range []struct {
		text string
		mode uint32
		dir  bool
		want uint32
	}{
		{"644", 0o755, false, 0o644},
		{"0755", 0o6755, true, 0o6755},
		{"00755", 0o6755, true, 0o755},
		{"=", 0o6777, true, 0o6022 &^ 0o022},
		{"a=", 0o6777, true, 0o6000},
		{"a=", 0o6777, false, 0},
		{"u+s,g-s", 0o2755, false, 0o4755},
		{"a+X", 0o644, false, 0o644},
		{"a+X", 0o744, false, 0o755},
		{"a+X", 0o644, true, 0o755},
		{"g=u", 0o700, false, 0o770},
		{"o=g-w", 0o660, false, 0o664},
		{"+t", 0o755, true, 0o1755},
		{"u+rw-x+s", 0o755, false, 0o4655},
	} {
		changes, err := parseMode(c.text)
		require.NoError(t, err, c.text)
		got, _ := adjust(c.mode, c.dir, 0o022, changes)
		require.Equal(t, fmt.Sprintf("%04o", c.want), fmt.Sprintf("%04o", got), "%s of %04o", c.text, c.mode)
	}
}

func TestWhatIsNotAModeIsRefused(t *testing.T) {
	for _, text := range []string{"", "8", "644x", "77777", "99999999999999999999", "u", "ug", "u+x,", ",u+x",
		"u+q", "u+64", "q+x", "u+x g+x", "+8"} {
		_, err := parseMode(text)
		require.ErrorIs(t, err, errMode, text)
	}
}

func FuzzMode(f *testing.F) {
	for _, text := range []string{"644", "u+s", "a=rX,go-w", "=755", "-x", "g=u-w"} {
		f.Add(text, uint32(0o4755), true)
	}
	f.Fuzz(func(t *testing.T, text string, mode uint32, dir bool) {
		changes, err := parseMode(text)
		if err != nil {
			return
		}
		mode &= all
		once, bits := adjust(mode, dir, 0o022, changes)
		require.Zero(t, once&^all)
		require.Zero(t, (once^mode)&^bits, "only bits that are named change")
	})
}

// The texts of getcap are those of libcap 2.66.
func TestCapabilitiesAreEncodedAsTheKernelReadsThem(t *testing.T) {
	for _, c := range []struct{ text, value, printed string }{
		{"cap_net_raw+ep", "0100000200200000000000000000000000000000", "cap_net_raw=ep"},
		{"cap_net_raw,cap_net_admin+eip", "0100000200300000003000000000000000000000", "cap_net_admin,cap_net_raw=eip"},
		{"cap_net_raw+i", "0000000200000000002000000000000000000000", "cap_net_raw=i"},
		{"=ep", "01000002ffffffff00000000ff01000000000000", "=ep"},
		{"ALL=ep", "01000002ffffffff00000000ff01000000000000", "=ep"},
		{"all+ep cap_chown-p cap_chown-e", "01000002feffffff00000000ff01000000000000", "=ep cap_chown-ep"},
		{"=eip cap_chown-i", "01000002fffffffffeffffffff010000ff010000", "=eip cap_chown-i"},
		{"cap_bpf=p", "0000000200000000000000008000000000000000", "cap_bpf=p"},
		{"=", "0000000200000000000000000000000000000000", "="},
		{"", "0000000200000000000000000000000000000000", "="},
	} {
		sets, err := parseCaps(c.text)
		require.NoError(t, err, c.text)
		value, err := sets.encode()
		require.NoError(t, err, c.text)
		require.Equal(t, c.value, fmt.Sprintf("%x", value), c.text)
		back, err := decodeCaps(value)
		require.NoError(t, err)
		require.Equal(t, c.printed, back.String())
	}
}

func TestWhatIsNoTextOfCapabilitiesIsRefused(t *testing.T) {
	for _, text := range []string{"cap_net_raw", "cap_net_raw+", "cap_net_raw+x", "+ep", "-p", "cap_nothing+p",
		"41+p", "cap_net_raw,+p",
		"cap_net_raw=p=e", "cap_net_raw+p garbage"} {
		_, err := parseCaps(text)
		require.ErrorIs(t, err, errCaps, text)
	}
	sets, err := parseCaps("cap_net_raw+ep cap_chown+p")
	require.NoError(t, err)
	_, err = sets.encode()
	require.ErrorIs(t, err, errInvalid, "the kernel has one effective flag for all")
	for _, value := range []string{"", "short", strings.Repeat("\x00", 20),
		"\x00\x00\x00\x03" + strings.Repeat("\x00", 16) + "\x01\x00\x00\x00"} {
		_, err := decodeCaps([]byte(value))
		require.ErrorIs(t, err, errInvalid)
	}
}

func FuzzCaps(f *testing.F) {
	for _, text := range []string{"cap_net_raw+ep", "=ep", "cap_chown,13=eip-i", "all=p cap_bpf-p"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sets, err := parseCaps(text)
		if err != nil {
			return
		}
		value, err := sets.encode()
		if err != nil {
			return
		}
		back, err := decodeCaps(value)
		require.NoError(t, err)
		require.Equal(t, sets.permitted, back.permitted)
		require.Equal(t, sets.inheritable, back.inheritable)
		again, err := parseCaps(back.String())
		require.NoError(t, err, back.String())
		require.Equal(t, back, again)
	})
}

func FuzzFindExpression(f *testing.F) {
	for _, line := range []string{"-name *.conf -print", "( -type d -o -type l ) -prune",
		"! -user daemon -exec echo {} ;", "-perm -4000 , -false",
		"-exec echo {} +", "-regex .*\\(a\\|b\\)[[:alpha:]]", "-printf %p%m%-5f\\n",
		"-size +1k -newer a -empty -delete"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		files := filesOf(t, []string{"f 0644 0:0 a data", "d 0755 0:0 d", "l 0777 0:0 d/l ..", "f 4755 1:1 d/b"})
		status, _, _, err := runFind(files, strings.Split(line, " "))
		if err == nil {
			require.Contains(t, []int{0, 1}, status)
		}
	})
}

func FuzzXargs(f *testing.F) {
	f.Add("a b\n'c d' e\\ f \"g\"", true)
	f.Add("a'b", false)
	f.Fuzz(func(t *testing.T, text string, whole bool) {
		lines, err := splitItems([]byte(text), true, 0, whole)
		if err != nil {
			return
		}
		total := 0
		for _, line := range lines {
			require.NotEmpty(t, line)
			for _, item := range line {
				total += len(item)
			}
		}
		require.LessOrEqual(t, total, len(text))
	})
}

func TestAPatternMatchesAsFnmatchDoes(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*.conf", "a.conf", true}, {"*.conf", ".conf", true}, {"*.conf", "a.confx", false}, {"a?c", "abc", true},
		{"a?c", "ac", false},
		{"[a-c]x", "bx", true}, {"[!a-c]x", "bx", false}, {"[^a-c]x", "dx", true}, {"[]]x", "]x", true}, {"[a",
			"[a", true},
		{"\\*", "*", true}, {"\\*", "a", false}, {"[[:digit:]]", "5", true}, {"*", "a/b", true}, {"a.c", "abc",
			false}, {"(a|b)", "(a|b)", true},
		{"[\\]]", "]", true}, {"[a-]", "-", true}, {"ä*", "äb", true}, {"[ä]", "ä", true}, {"", "", true}, {"", "a",
			false},
	} {
		re, err := glob(c.pattern, false)
		require.NoError(t, err, c.pattern)
		require.Equal(t, c.want, re.MatchString(c.name), "%s %s", c.pattern, c.name)
	}
}

func TestARegularExpressionOfEachKindIsTranslated(t *testing.T) {
	for _, c := range []struct {
		kind, text, name string
		want             bool
	}{
		{emacs, `a\(b\|c\)`, "ac", true}, {emacs, `a(b|c)`, "a(b|c)", true}, {emacs, `a+`, "aaa", true}, {emacs,
			`a{2}`, "aa", false},
		{extended, `a(b|c)`, "ac", true}, {extended, `a{2}`, "aa", true}, {extended, `a\.b`, "axb", false}, {basic,
			`a+`, "aa", false},
		{basic, `a\{2\}`, "aa", true}, {extended, `[^/]*`, "a/b", false}, {extended, `[\]*`, `\`, true}, {extended,
			`a`, "ab", false},
	} {
		re, err := posixRegexp(c.text, c.kind, false)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, re.MatchString(c.name), "%s %s", c.text, c.name)
	}
	for _, text := range []string{`\w`, `\<a`, `\1`, `[a`, `[[.a.]]`} {
		_, err := posixRegexp(text, extended, false)
		require.Error(t, err, text)
	}
}

func TestWhatIsZippedIsUnzippedWithItsOwnerAndMode(t *testing.T) {
	f := filesOf(t, []string{"f 4750 1:2 a hello", "f 0644 0:0 b.gz old"})
	before := list(t, f)
	run := func(line string) string {
		status, stdout, stderr, err := runLine(f, line)
		require.NoError(t, err, line)
		require.Zero(t, status, "%s: %s", line, stderr)
		return stdout
	}
	run("gzip -9n a")
	require.False(t, f.Exists("/w/a"))
	first, err := f.ReadFile("/w/a.gz")
	require.NoError(t, err)
	require.Equal(t, []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0}, first[:8], "neither a name nor a time")
	require.Equal(t, "hello", run("zcat a.gz"))
	require.Equal(t, "hello", run("gzip -dc a"))
	run("gzip -t a.gz")
	run("gunzip a.gz")
	require.Equal(t, before, list(t, f))
	run("gzip -k a")
	require.True(t, f.Exists("/w/a"))
	status, _, stderr, err := runLine(f, "gunzip a.gz")
	require.NoError(t, err)
	require.Equal(t, 2, status)
	require.Contains(t, stderr, "already exists")
	run("gunzip -f a.gz")
	require.Equal(t, before, list(t, f))
}

func TestNamesOfMktempAreFreeAndTheSameEachTime(t *testing.T) {
	for range 2 {
		f := filesOf(t, nil)
		for _, want := range []string{"/tmp/x.000\n", "/tmp/x.001\n"} {
			_, stdout, _, err := runLine(f, "mktemp -t x.XXX")
			require.NoError(t, err)
			require.Equal(t, want, stdout)
		}
	}
}

func TestACopyDoesNotChangeWithItsOriginal(t *testing.T) {
	f := filesOf(t, []string{"f 0755 0:0 a hello"})
	for _, line := range []string{"setcap cap_net_raw+ep a", "cp -a a b", "setcap cap_chown+p b", "chmod 600 b"} {
		status, _, stderr, err := runLine(f, line)
		require.NoError(t, err)
		require.Zero(t, status, stderr)
	}
	_, stdout, _, err := runLine(f, "getcap a b")
	require.NoError(t, err)
	require.Equal(t, "a cap_net_raw=ep\nb cap_chown=p\n", stdout)
	n, err := f.Lstat("/w/a")
	require.NoError(t, err)
	require.Equal(t, uint32(0o755), n.Mode)
}

func TestCapabilitiesGoWithAChangeOfOwnerOrData(t *testing.T) {
	for _, line := range []string{"chown daemon a", "cp b a", "setcap -r a"} {
		f := filesOf(t, []string{"f 0755 0:0 a hello", "f 0644 0:0 b text"})
		for _, line := range []string{"setcap cap_net_raw+ep a", line} {
			status, _, stderr, err := runLine(f, line)
			require.NoError(t, err)
			require.Zero(t, status, stderr)
		}
		n, err := f.Lstat("/w/a")
		require.NoError(t, err)
		require.Empty(t, n.Xattrs, line)
	}
}

func TestTimeStampsAreThoseOfTheReplayUnlessAFileGivesThem(t *testing.T) {
	const first = 1_600_000_000
	for line, want := range map[string]int64{
		"touch a": now, "touch b": now, "touch -d 2001-01-01 b": now, "touch -t 200101010000 b": now,
		"touch -r a b": first, "cp a b": now,
		"cp -p a b": first, "cp -a a b": first, "mv a b": first, "install -p a b": first, "install a b": now,
		"mkdir b": now,
	} {
		f := filesOf(t, []string{"f 0644 0:0 a hello"})
		status, _, stderr, err := runLine(f, line)
		require.NoError(t, err)
		require.Zero(t, status, stderr)
		n, err := f.Lstat("/w/" + line[strings.LastIndexByte(line, ' ')+1:])
		require.NoError(t, err)
		require.Equal(t, want, n.MTime, line)
	}
}

func TestALoopOfLinksEnds(t *testing.T) {
	f := filesOf(t, []string{"d 0755 0:0 d", "l 0777 0:0 d/up ..", "l 0777 0:0 loop loop"})
	for _, line := range []string{"find -L . -name nothing", "chown -RL daemon d", "readlink -f loop",
		"realpath -m loop", "du -L d", "chmod 600 loop",
		"rm -r d"} {
		_, _, _, err := runLine(f, line)
		require.NoError(t, err, line)
	}
}

func TestAScriptStopsWhenItsTimeIsOver(t *testing.T) {
	for _, line := range []string{"find .", "rm -r d", "chown -R daemon d", "chmod -R 700 d", "cp -r d e", "du d",
		"ls -R", "mktemp"} {
		require.ErrorContains(t, runEnded(filesOf(t, []string{"d 0755 0:0 d", "f 0644 0:0 d/a x"}), line),
			"context canceled", line)
	}
}

func TestTypesOfInodesHaveTheirNamesAndLetters(t *testing.T) {
	for kind, letter := range map[tree.Type]string{tree.Dir: "d", tree.CharDevice: "c", tree.BlockDevice: "b",
		tree.Fifo: "p"} {
		require.Equal(t, letter, typeLetter(kind))
		require.NotZero(t, kernelType(kind))
		require.NotEmpty(t, typeName(&tree.Inode{Type: kind}))
	}
}
