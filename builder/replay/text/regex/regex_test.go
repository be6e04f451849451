package regex

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/files"
)

// find answers the match and its groups as texts, nil for none.
func find(t *testing.T, o Options, pattern, text string) []string {
	t.Helper()
	r, err := Compile(pattern, o)
	require.NoError(t, err, pattern)
	loc, err := r.Match([]byte(text), 0)
	require.NoError(t, err)
	var out []string
	for i := 0; i < len(loc); i += 2 {
		if loc[i] < 0 {
			out = append(out, "-")
			continue
		}
		out = append(out, text[loc[i]:loc[i+1]])
	}
	return out
}

func TestExpressionsMatchTheLeftmostLongestText(t *testing.T) {
	basic, extended := Options{}, Options{Extended: true}
	for _, c := range []struct {
		o             Options
		pattern, text string
		want          []string
	}{
		{basic, `a*`, "baaa", []string{""}},
		{basic, `*a`, "x*a", []string{"*a"}},
		{basic, `^*a`, "*a", []string{"*a"}},
		{basic, `\(*a\)`, "*a", []string{"*a", "*a"}},
		{basic, `a^b`, "a^b", []string{"a^b"}},
		{basic, `^^b`, "^b", []string{"^b"}},
		{basic, `a$b`, "a$b", []string{"a$b"}},
		{basic, `b$`, "ab", []string{"b"}},
		{basic, `\(b$\)`, "ab", []string{"b", "b"}},
		{basic, `x\|^b`, "bx", []string{"b"}},
		{basic, `ab\|abc`, "abc", []string{"abc"}},
		{basic, `a\+b\?`, "caab", []string{"aab"}},
		{basic, `a+b?`, "a+b?", []string{"a+b?"}},
		{basic, `a\{2,3\}`, "aaaa", []string{"aaa"}},
		{basic, `a\{2\}`, "a", nil},
		{basic, `a\{,2\}`, "aaa", []string{"aa"}},
		{basic, `\(.\)\1`, "abba", []string{"bb", "b"}},
		{basic, `^\(.*\)\n\1$`, "ab\nab", nil},
		{basic, `\(a*\)*b`, "aab", []string{"aab", "aa"}},
		{basic, `[]a]*`, "]a", []string{"]a"}},
		{basic, `[^]a]`, "]ab", []string{"b"}},
		{basic, `[a\]`, `\`, []string{`\`}},
		{basic, `[[:digit:]-]*`, "1-2", []string{"1-2"}},
		{basic, `[[.-.]x]`, "-", []string{"-"}},
		{basic, `\<is\>`, "this is", []string{"is"}},
		{basic, `\bis`, "this is", []string{"is"}},
		{basic, `\w\+\W\s\S`, "a, b ", []string{"a, b"}},
		{basic, `\w\+\W\s\S`, "a,  b", nil},
		{basic, `a.b`, "a\nb", []string{"a\nb"}},
		{basic, `.`, "\xff", []string{"\xff"}},
		{basic, `(a)`, "(a)", []string{"(a)"}},
		{Options{IgnoreCase: true}, `aB[c-d]\(e\)\1`, "AbDEe", []string{"AbDEe", "E"}},
		{Options{IgnoreCase: true}, `[^a]`, "A", nil},
		{Options{Sed: true}, `a\nb\t`, "a\nb\t", []string{"a\nb\t"}},
		{Options{Sed: true}, `[\n]x\x41\d066\o103`, "\nxABC", []string{"\nxABC"}},
		{Options{Multiline: true}, `^b$`, "a\nb\nc", []string{"b"}},
		{basic, `^b$`, "a\nb\nc", nil},
		{Options{Multiline: true}, "\\`b", "a\nb", nil},
		{extended, `(a|ab)(c|bcd)`, "abcd", []string{"abcd", "a", "bcd"}},
		{extended, `a{2}`, "aa", []string{"aa"}},
		{extended, `a{x`, "a{x", []string{"a{x"}},
		{extended, `{x`, "{x", []string{"{x"}},
		{extended, `x()y`, "xy", []string{"xy", ""}},
		{extended, `a||b`, "c", []string{""}},
		{extended, `a)`, "a)", []string{"a)"}},
		{extended, `*a`, "a", []string{"a"}},
		{extended, `\(a\)\+`, "(a)+", []string{"(a)+"}},
		{extended, `(^|[^b])a$`, "ca", []string{"ca", "c"}},
		{extended, `(a*)+$`, "aaac", []string{"", ""}},
	} {
		require.Equal(t, c.want, find(t, c.o, c.pattern, c.text), "%q in %q", c.pattern, c.text)
	}
}

func TestBadExpressionsHaveTheWordsOfGlibc(t *testing.T) {
	for _, c := range []struct {
		o             Options
		pattern, want string
	}{
		{Options{}, `\(a`, `Unmatched ( or \(`},
		{Options{}, `a\)`, `Unmatched ) or \)`},
		{Options{Extended: true}, `(a`, `Unmatched ( or \(`},
		{Options{}, `[a`, "Unmatched [, [^, [:, [., or [="},
		{Options{}, `[[:nix:]]`, "Invalid character class name"},
		{Options{}, `[z-a]`, "Invalid range end"},
		{Options{}, `a\`, "Trailing backslash"},
		{Options{}, `\1`, "Invalid back reference"},
		{Options{}, `\(a\1\)`, "Invalid back reference"},
		{Options{}, `a\{2`, `Invalid content of \{\}`},
		{Options{}, `a\{3,2\}`, `Invalid content of \{\}`},
		{Options{Sed: true}, `\{2\}a`, "Invalid preceding regular expression"},
		{Options{Sed: true, Extended: true}, `*a`, "Invalid preceding regular expression"},
		{Options{Sed: true, Extended: true}, `^+a`, "Invalid preceding regular expression"},
		{Options{Sed: true, Extended: true}, `a)`, `Unmatched ) or \)`},
		{Options{Sed: true, Extended: true}, `a{x`, `Invalid content of \{\}`},
		{Options{}, `a\{40000\}`, "Regular expression too big"},
	} {
		_, err := Compile(c.pattern, c.o)
		require.EqualError(t, err, c.want, c.pattern)
	}
}

func TestExpressionsHaveBounds(t *testing.T) {
	_, err := Compile(strings.Repeat("a", MaxPattern+1), Options{})
	require.ErrorIs(t, err, files.ErrBound)
	_, err = Compile(strings.Repeat("(", maxDepth+1), Options{Extended: true})
	require.ErrorIs(t, err, files.ErrBound)
	_, err = Compile(`((a{1000}){1000}){1000}`, Options{Extended: true})
	require.ErrorIs(t, err, files.ErrBound)

	slow, err := Compile(`^(((a*)*)*)*\1\2\3b$`, Options{Extended: true})
	require.NoError(t, err)
	_, err = slow.Match([]byte(strings.Repeat("a", 200)), 0)
	require.ErrorIs(t, err, files.ErrBound)

	wide, err := Compile(strings.Repeat("a", 1000), Options{})
	require.NoError(t, err)
	_, err = wide.Match(make([]byte, 1<<20), 0)
	require.ErrorIs(t, err, files.ErrBound)
}

func TestMatchesWithoutBackReferencesTakeTimeInProportion(t *testing.T) {
	r, err := Compile(`^(((a*)*)*)*b$`, Options{Extended: true})
	require.NoError(t, err)
	ok, err := r.Matches([]byte(strings.Repeat("a", 100_000)))
	require.NoError(t, err)
	require.False(t, ok)
}

func TestClassKnowsOnlyNamesOfPOSIX(t *testing.T) {
	require.Equal(t, "0123456789", string(Class("digit")))
	require.Equal(t, "\t ", string(Class("blank")))
	require.Nil(t, Class("word"))
	require.Nil(t, Class(""))
}

// FuzzExtendedExpressions compares with Go's package where both know the expression.
func FuzzExtendedExpressions(f *testing.F) {
	for _, pattern := range []string{`a|ab`, `(a*)(b|bc)*`, `^x[^a-c]{1,3}$`, `(^|b)a+?`, `[[:alpha:]_]+`,
		`(a|b|)*c`, `(a`, `[`} {
		f.Add(pattern, "abcxxab_bca")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		_, _ = Compile(pattern, Options{Sed: true, IgnoreCase: true})
		ours, err := Compile(pattern, Options{Extended: true})
		if err != nil {
			return
		}
		loc, err := ours.Match([]byte(text), 0)
		if err != nil || !plain(pattern) || !plain(text) || strings.ContainsAny(pattern, `\`) ||
			regexp.MustCompile(`(^|[(|^$])[*+?{]|[*+?}]([*+?{])|\[\[?[.=:]|\{,|\[[^]]*\[|--|-\]`).MatchString(pattern) {
			return
		}
		theirs, err := regexp.Compile(`(?s)` + pattern)
		if err != nil {
			return
		}
		theirs.Longest()
		want := theirs.FindStringIndex(text)
		if want == nil {
			require.Nil(t, loc, "%q in %q", pattern, text)
			return
		}
		require.NotNil(t, loc, "%q in %q", pattern, text)
		require.Equal(t, want, loc[:2], "%q in %q", pattern, text)
	})
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) < 200
}
