package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// source is one YAML file with the positions of what is in it.
type source struct {
	// path is relative to the configuration folder.
	path string
	data []byte
	// root is the top mapping; nil when the file is empty or could not be parsed.
	root *yaml.Node
	// broken says that the file could not be read or parsed, so that nothing is known of its content.
	broken bool
	// faults holds the positions that Load reported.
	faults map[[2]int]bool
}

// fault is a problem that has no severity yet.
type fault struct {
	line, column int
	message      string
}

// parse reads the YAML of a file into nodes. Nothing is expanded, so the result is never larger than the file.
func (s *source) parse() *fault {
	if f := checkText(s.data); f != nil {
		return f
	}
	dec := yaml.NewDecoder(bytes.NewReader(s.data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return s.syntaxFault(err)
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return &fault{second.Line, second.Column, "a second YAML document begins here; a file holds one: remove the --- line"}
	} else if !errors.Is(err, io.EOF) {
		return s.syntaxFault(err)
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		s.root = root
	case root.ShortTag() == "!!null":
	default:
		return &fault{root.Line, root.Column, "the file is not a mapping; write keys with values, as in `spore init`"}
	}
	return nil
}

// checkText refuses what no editor shows: bytes that are not UTF-8, and control characters.
func checkText(data []byte) *fault {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return &fault{line, column, fmt.Sprintf("the byte 0x%02x is not UTF-8; save the file as UTF-8", data[i])}
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return &fault{line, column, fmt.Sprintf("the control character 0x%02x does not belong in YAML; remove it", data[i])}
		}
		column++
		i += n
	}
	return nil
}

// syntaxLine takes apart the parser's message.
var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// maxLocate bounds the files in which the line of a syntax error is searched for by parsing parts of them.
const maxLocate = 256 << 10

// syntaxFault turns the parser's error into a fault with a position. yaml.v3 gives the line where the surrounding block
// began, one off, or none (go-yaml/yaml#290), so the line is the one whose addition brings the error about.
func (s *source) syntaxFault(err error) *fault {
	text, line := err.Error(), 1
	if m := syntaxLine.FindStringSubmatch(text); m != nil {
		text = m[2]
		fmt.Sscan(m[1], &line)
	}
	lines := bytes.SplitAfter(s.data, []byte("\n"))
	if len(s.data) <= maxLocate {
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
	return &fault{line, min(column, max(1, len(here))), "not valid YAML: " + text + hint(text, here)}
}

func sameSyntaxError(data []byte, text string) bool {
	var n yaml.Node
	err := yaml.Unmarshal(data, &n)
	if err == nil {
		return false
	}
	m := syntaxLine.FindStringSubmatch(err.Error())
	return m != nil && m[2] == text
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

// Path is the path in the configuration folder.
func (s *source) Path() string { return s.path }

// At returns the position of the value at a path of keys (string) and list indexes (int), or of the nearest thing around
// it that exists.
func (s *source) At(path ...any) (line, column int) {
	n := s.root
	if n == nil {
		return 1, 1
	}
	for _, step := range path {
		next := child(n, step)
		if next == nil {
			break
		}
		n = next
	}
	return n.Line, n.Column
}

// Has reports whether there is a value at the path.
func (s *source) Has(path ...any) bool {
	n := s.root
	for _, step := range path {
		if n == nil {
			return false
		}
		n = child(n, step)
	}
	return n != nil
}

func child(n *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	case string:
		if n.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == step {
					return n.Content[i+1]
				}
			}
		}
	}
	return nil
}

// Faulty reports whether Load found a problem at this position already.
func (s *source) Faulty(line, column int) bool { return s.faults[[2]int{line, column}] }
