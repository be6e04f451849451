package page

import (
	"strings"
	"unicode/utf8"
)

// maxText is how much of one text from elsewhere is looked at, in bytes. It is more than a value may take on a page.
const maxText = 4 << 10

// Clean makes a text fit for cells: printable ASCII alone, so that each byte takes one cell in every font and on every
// terminal, and none moves the cursor. A blank stands for what parts words, and a question mark for each other
// character: a combining one, a wide one, one that turns the direction of writing, a byte that is no UTF-8. A text that
// is too long ends with three dots.
func Clean(s string) string {
	cut := len(s) > maxText
	if cut {
		s = s[:maxText]
	}
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			b.WriteByte(' ')
		case r > ' ' && r < 0x7f:
			b.WriteByte(byte(r))
		default:
			b.WriteByte('?')
		}
		s = s[n:]
	}
	if cut {
		b.WriteString("...")
	}
	return b.String()
}

// wrap breaks a clean text between words into lines of at most width cells; a word that is too long is broken. What
// goes beyond so many lines is cut, and the last line ends with three dots.
func wrap(text string, width, lines int) []string {
	width = max(width, 4)
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			out, line = append(out, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
		for len(line) > width {
			out, line = append(out, line[:width]), line[width:]
		}
	}
	if line != "" {
		out = append(out, line)
	}
	if len(out) > lines {
		out = out[:lines]
		last := out[lines-1]
		out[lines-1] = last[:min(len(last), width-3)] + "..."
	}
	return out
}
