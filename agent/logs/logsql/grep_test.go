package logsql

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// chosen is whether the store has a message by what grep asks (VictoriaLogs documentation, LogsQL: substring filter, phrase
// filter, regexp filter; and for its own `.`, (?s)).
func chosen(t *testing.T, query, message string) bool {
	t.Helper()
	if query == "*" {
		return true
	}
	if inner, ok := strings.CutPrefix(query, "("); ok {
		any := false
		for {
			text, rest := quotedAfter(t, inner, Message+":*")
			any = any || strings.Contains(message, text)
			rest, ok = strings.CutPrefix(rest, "*")
			require.True(t, ok, query)
			if inner, ok = strings.CutPrefix(rest, " or "); ok {
				continue
			}
			inner, ok = strings.CutPrefix(rest, ") ")
			require.True(t, ok, query)
			return any && chosen(t, inner, message)
		}
	}
	switch {
	case strings.HasPrefix(query, Message+":~"):
		text, rest := quotedAfter(t, query, Message+":~")
		require.Empty(t, rest)
		return regexp.MustCompile("(?s)" + text).MatchString(message)
	case strings.HasPrefix(query, Message+":*"):
		text, rest := quotedAfter(t, query, Message+":*")
		rest, ok := strings.CutPrefix(rest, "*")
		require.True(t, ok, query)
		more, another := strings.CutPrefix(rest, " ")
		require.True(t, another || rest == "", query)
		return strings.Contains(message, text) && (!another || chosen(t, more, message))
	}
	text, rest := quotedAfter(t, query, Message+":")
	require.Empty(t, rest)
	return hasPhrase(message, text)
}

func quotedAfter(t *testing.T, query, before string) (text, rest string) {
	t.Helper()
	rest, ok := strings.CutPrefix(query, before)
	require.True(t, ok, query)
	prefix, err := strconv.QuotedPrefix(rest)
	require.NoError(t, err, query)
	text, err = strconv.Unquote(prefix)
	require.NoError(t, err)
	return text, rest[len(prefix):]
}

// hasPhrase is the phrase filter: no part of a word of the store's stands before or behind the text.
func hasPhrase(message, text string) bool {
	part := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for at := 0; ; at++ {
		next := strings.Index(message[at:], text)
		if next < 0 {
			return false
		}
		at += next
		before, _ := utf8.DecodeLastRuneInString(message[:at])
		behind, _ := utf8.DecodeRuneInString(message[at+len(text):])
		if (at == 0 || !part(before)) && (at+len(text) == len(message) || !part(behind)) {
			return true
		}
	}
}

// checkGrep checks that no message that an expression matches is left out.
func checkGrep(t *testing.T, expression, message string) {
	t.Helper()
	e, err := regexp.Compile(expression)
	if err != nil || !utf8.ValidString(message) || strings.ContainsRune(message, utf8.RuneError) || !e.MatchString(message) {
		return
	}
	query := grep(expression)
	if strings.HasPrefix(query, Message+`:"`) && strings.ContainsFunc(message, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return // Beside such a letter the store finds no word (docs/logs.md).
	}
	require.True(t, chosen(t, query, message), "%q matches %q, which %s leaves out", expression, message, query)
}

// expression is a random expression of RE2.
func expression(r *rand.Rand, deep int) string {
	texts := []string{
		"foo", "bar", "foobar", "FOO", "a", "ab", "abc", "", "é", "ß", "Kelvin", "ſet", "µs", `\.`, `\*x\*`, `"q"`, "`", `\\`, `\n`, `\x41bc`,
		"[abc]", "[f]oo", ".", "x+", "(?i)foo", "^", "$", `\A`, `\z`, `\b`, `\bfoo\b`, `\B`, `\w+`, `\Qa|b\E`, "(?i:bar)", "(?s).", "(?m)^foo$",
	}
	if deep == 0 || r.IntN(4) == 0 {
		return texts[r.IntN(len(texts))]
	}
	one := func() string { return expression(r, deep-1) }
	switch r.IntN(9) {
	case 0, 1, 2:
		return one() + "|" + one()
	case 3, 4:
		return one() + one()
	case 5:
		return "(" + one() + ")" + []string{"", "?", "*", "+", "{0}", "{0,1}", "{2}"}[r.IntN(7)]
	case 6:
		return "(?:" + one() + "|" + one() + "|" + one() + ")"
	case 7:
		return "(?" + []string{"i", "m", "s", "U", "im", "-i"}[r.IntN(6)] + ":" + one() + ")"
	default:
		return []string{"(?i)", "(?m)", "(?s)", "(?im)", "(?-i)"}[r.IntN(5)] + one()
	}
}

// message is a random text of what expressions are made of.
func message(r *rand.Rand) string {
	texts := []string{
		"foo", "bar", "Foo", "fOO", "BAR", "foobar", "a", "b", "c", "abc", "é", "É", "ß", "ẞ", "K", "elvin", "ſ", "set", "µs", "Μs", ".",
		"*x*", `"q"`, "`", `\`, "\n", "Abc", "x", " ", "_", "a|b", "",
	}
	var b strings.Builder
	for range r.IntN(7) {
		b.WriteString(texts[r.IntN(len(texts))])
	}
	return b.String()
}

// What the store is asked for an expression has every message that the expression matches.
func TestNoMessageThatAnExpressionMatchesIsLeftOut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	alternatives := 0
	for range 6_000 {
		e := expression(r, 3)
		if _, err := regexp.Compile(e); err != nil {
			continue
		}
		if strings.HasPrefix(grep(e), "(") {
			alternatives++
		}
		for range 10 {
			checkGrep(t, e, message(r))
		}
	}
	require.Greater(t, alternatives, 100)
}

func FuzzNoMessageThatAnExpressionMatchesIsLeftOut(f *testing.F) {
	for _, s := range [][2]string{
		{"foo|bar", "a bar"}, {"(?i)foo|bar", "BAR"}, {"foo|", "x"}, {`\bfoo\b`, "foo-bar"}, {"(?m)^foo$|bar", "x\nfoo\ny"},
		{`foo\.x|(?:bar)+`, "foo.x"}, {"(foo|foobar)", "foobar"}, {"(?i)Kelvin|ſet", "KELVIN"}, {`a\nb|"quoted"`, "a\nb"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(checkGrep)
}
