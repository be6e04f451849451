package ecma48

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// page is what may pass of a text.
func page(in string) string {
	var p Parser
	var out []byte
	for i := range len(in) {
		out = AppendPage(out, p.Next(in[i]))
	}
	return string(out)
}

func TestALineHasTextAlone(t *testing.T) {
	for in, want := range map[string]string{
		"plain text\twith a tabulator\r\n":                    "plain text\twith a tabulator",
		"\x1b[2J\x1b[01;01HBdsDxe: loading":                   "BdsDxe: loading",
		"\x1b[0;1;31mred\x1b[0m":                              "red",
		"\x1b[=3h\x1b[?25l\x1b(Bx\x1b)0\x1b=\x1b>\x1b7y\x1bc": "xy",
		"a\x1b]0;a title\ab":                                  "ab",
		"a\x1b]52;c;aGk=\x1b\\b":                              "ab",
		"a\x1bPq;a picture\x1b\\b":                            "ab",
		"\x1b\x1b[m[31mtwice":                                 "[31mtwice",
		"\x1b[\x1b[mx":                                        "x",
		"ü €\xc2\x9b31m":                                      "ü €31m",
		"\x9b31m":                                             "\ufffd31m",
		"half \xe2\x82":                                       "half ",
		"a\u202eb\u2066c":                                     "abc",
		"a\x7fb\x00c\x08d":                                    "abcd",
		"broken off \x1b[31":                                  "broken off ",
		"a\x1b]" + strings.Repeat("x", maxString) + "and so on": "aand so on",
	} {
		require.Equal(t, want, Strip([]byte(in)), "%q", in)
	}
}

func TestAPageMovesTheCursorAndNothingElse(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[H\x1b[J\x1b[24;1H\x1b[m\x1b[7m 1 status \x1b[K":  "\x1b[H\x1b[J\x1b[24;1H\x1b[m\x1b[7m 1 status \x1b[K",
		"\x1b[3A\x1b[B\x1b[5C\x1b[1D\x1b[;7H\x1b[0;1m\b\t\r\n": "\x1b[3A\x1b[B\x1b[5C\x1b[1D\x1b[;7H\x1b[0;1m\b\t\r\n",
		// Modes, sets of characters, what saves and resets.
		"\x1b[?1049h\x1b[?1000h\x1b[?2004h\x1b[?25l\x1b[?1h\x1b=\x1b(0\x1b)0\x0e\x1b7\x1bc\x1b[!p\x1b[2;5r\x1b[4h": "",
		// What a terminal answers.
		"\x1b[6n\x1b[c\x1b[>c\x1b[18t\x1b[?u\x1bZ\x05\x1b[0q\x1bP$qm\x1b\\": "",
		// Titles, clipboards, links, messages.
		"a\x1b]0;t\a\x1b]52;c;x\x1b\\\x1b]8;;http://x\x1b\\\x1b_a\x1b\\\x1b^b\x1b\\\x1bXc\x1b\\b": "ab",
		"\x1b[8mhidden\x1b[31mred\x1b[38;5;1m\x1b[4:3m":                                           "hiddenred",
		"\x1b[1000H\x1b[99999999999H\x1b[1;1;1H\x1b[1;2A\x1b[3J\x1b[-1H\x1b[1 H":                  "",
		"\x1b[" + strings.Repeat("1;", maxParameters) + "m":                                       "",
		"\x1b[500b\x1b[5X\x1b[2@\x1b[5L\x1b[5S":                                                   "",
		"ü € \x9b31m \xc2\x9b":                                                                    "? ? 31m ?",
		"a\x1b]0;never ended\nb":                                                                  "a\nb",
		"\x1b[1\x1b[7mx\x1b[\x18y":                                                                "\x1b[7mxy",
	} {
		require.Equal(t, want, page(in), "%q", in)
	}
}

// allowed is what a terminal may get of a page, written anew.
var allowed = regexp.MustCompile(`^(?:[\x08\t\n\r -~]|\x1b\[\d{0,3}[ABCD]|\x1b\[\d{0,3}(?:;\d{0,3})?H|\x1b\[0{0,2}[012]?[JK]|\x1b\[[017;]*m)*$`)

func FuzzPage(f *testing.F) {
	for _, s := range []string{"\x1b[H\x1b[Jx\x1b[m", "\x1b]0;t\a\x1b[6n", "\x1b[?1h\x1b=\x1b[25;81H", "\x9b6n\xc2\x9bc", "\x1b\x1b[[J"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := page(string(in))
		require.Regexp(t, allowed, out)
		require.LessOrEqual(t, len(out), len(in))
		require.Equal(t, out, page(out), "what may pass passes as it is")
	})
}

func FuzzStrip(f *testing.F) {
	for _, s := range []string{"\x1b[31mred\x1b[m", "\x1b\x1b[m[31m", "\x1b]0;t\a", "\x9b\xc2\x9b", "a\u202eb"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := Strip(in)
		require.True(t, utf8.ValidString(out))
		require.NotContains(t, strings.Map(func(r rune) rune {
			if r != '\t' && unicode.IsControl(r) {
				return 'X'
			}
			return '.'
		}, out), "X")
		require.Equal(t, out, Strip([]byte(out)))
	})
}
