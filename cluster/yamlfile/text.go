// Package yamlfile has what every reader of YAML in the configuration folder needs: text that no editor shows is
// refused, an error of the syntax gets the line that brings it about, and a value is found by its path. It decodes
// nothing.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"spore/cluster/form"
)

// Fault is a problem that has no severity yet. Line and Column count from 1.
type Fault struct {
	Line, Column int
	Message      string
}

// CheckText refuses what no editor shows: bytes that are not UTF-8, and control characters.
func CheckText(data []byte) *Fault {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return &Fault{line, column, fmt.Sprintf("the byte 0x%02x is not UTF-8; save the file as UTF-8", data[i])}
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return &Fault{line, column, fmt.Sprintf("the control character 0x%02x does not belong in YAML; remove it", data[i])}
		}
		column++
		i += n
	}
	return nil
}

// syntaxLine takes apart the parser's message.
var syntaxLine = form.New(`^yaml: (?:line (\d+): )?(.*)$`)

// maxLocate bounds the files in which the line of a syntax error is searched for by parsing parts of them.
const maxLocate = 256 << 10

// SyntaxFault turns the parser's error into a fault with a position. yaml.v3 gives the line where the surrounding block
// began, one off, or none (go-yaml/yaml#290), so the line is the one whose addition brings the error about.
func SyntaxFault(data []byte, err error) *Fault {
	text, line := err.Error(), 1
	if m := syntaxLine.FindStringSubmatch(text); m != nil {
		text = m[2]
		fmt.Sscan(m[1], &line)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(data) <= maxLocate {
		good, bad := 0, len(lines)
		for bad-good > 1 {
			mid := (good + bad) / 2
			if sameSyntaxError(bytes.Join(lines[:mid], nil), text) {
				bad = mid
			} else {
				good = mid
			}
		}
		line = bad
	}
	line = min(max(line, 1), len(lines))
	// A file that ends too early is reported at its last line with text.
	for line > 1 && len(bytes.TrimSpace(lines[line-1])) == 0 {
		line--
	}
	here := string(lines[line-1])
	column := 1 + len(here) - len(strings.TrimLeft(here, " \t"))
	return &Fault{line, min(column, max(1, len(here))), "not valid YAML: " + text + hint(text, here)}
}

// sameSyntaxError tells whether the documents of a text end with this error.
func sameSyntaxError(data []byte, text string) bool {
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			m := syntaxLine.FindStringSubmatch(err.Error())
			return m != nil && m[2] == text
		}
	}
}

// hint says what to write instead.
func hint(text, line string) string {
	switch {
	case strings.Contains(text, "tab character"):
		return "; indent with spaces"
	case strings.Contains(text, "mapping values are not allowed"):
		return "; indent it like the keys beside it, or put a text with a colon into quotes"
	case strings.Contains(text, "cannot start any token"), strings.Contains(text, "alphabetic or numeric"):
		return "; put the text into quotes"
	case strings.Contains(text, "unknown anchor"):
		return "; aliases are not used here: write the value out, or put a text that begins with * into quotes"
	case strings.Contains(text, "expected ',' or"), strings.Contains(text, "end of stream"):
		return "; close the bracket or quote that is open here"
	case strings.Contains(text, "did not find expected"):
		return "; indent it like its neighbours"
	}
	return ""
}
