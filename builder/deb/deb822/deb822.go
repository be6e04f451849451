// Package deb822 reads paragraphs of fields as Debian writes them: control files, Packages and Release indexes, apt's
// .sources files. It follows deb822(5) and Debian Policy 5.1. The text is held in memory once; paragraphs and values are
// parts of it. It does not know what any field means, and it does not write.
package deb822

import (
	"fmt"
	"slices"
	"strings"
)

// maxFields bounds a paragraph; those of a Debian archive have some thirty.
const maxFields = 512

// Field is one field of a paragraph.
type Field struct {
	// Name is spelled as in the text; names are compared without regard to case.
	Name string
	// Value is without the white space around it. Continuation lines stay as they are, line feeds included.
	Value string
	// Line is the line of the name in the text, from 1.
	Line int
}

// Paragraph is a block of fields.
type Paragraph struct {
	// Raw is the text of the paragraph as it was, without the empty line after it.
	Raw string
	// Line is the line of its first field in the text, from 1; Offset is where Raw begins in the text, in bytes.
	Line, Offset int
	Fields       []Field
}

// Get is the value of a field, empty when it is not there.
func (p *Paragraph) Get(name string) string {
	v, _ := p.Lookup(name)
	return v
}

// Lookup is the value of a field and whether the field is there.
func (p *Paragraph) Lookup(name string) (string, bool) {
	for i := range p.Fields {
		if n := p.Fields[i].Name; n == name || len(n) == len(name) && n[0]|0x20 == name[0]|0x20 && strings.EqualFold(n, name) {
			return p.Fields[i].Value, true
		}
	}
	return "", false
}

// Scanner goes through the paragraphs of a text.
type Scanner struct {
	text string
	pos  int
	line int // of the line at pos
	par  Paragraph
	err  error
}

// NewScanner returns a Scanner over a text.
func NewScanner(text string) *Scanner { return &Scanner{text: text, line: 1} }

// Paragraph is the paragraph found by the last Next. Its Fields are valid until the following Next.
func (s *Scanner) Paragraph() *Paragraph { return &s.par }

// Err is the first error; the end of the text is none.
func (s *Scanner) Err() error { return s.err }

// Next goes to the next paragraph; false at the end of the text and at an error.
func (s *Scanner) Next() bool {
	if s.err != nil {
		return false
	}
	s.par = Paragraph{Fields: s.par.Fields[:0]}
	begin, end, value := 0, 0, 0 // of the paragraph, and where its last field's value begins
	for s.pos < len(s.text) {
		line, next := cutLine(s.text, s.pos)
		at, from := s.line, s.pos
		s.pos, s.line = next, s.line+1
		if isBlank(line) {
			if len(s.par.Fields) > 0 {
				break
			}
			continue
		}
		switch line[0] {
		case '#':
			continue
		case ' ', '\t':
			if len(s.par.Fields) == 0 {
				return s.fail(at, "a continuation line before any field: %.60q", line)
			}
		default:
			if len(s.par.Fields) == 0 {
				begin, s.par.Line = from, at
			} else {
				s.closeValue(value, end)
			}
			name, _, ok := strings.Cut(line, ":")
			if !ok || !validName(name) {
				return s.fail(at, "not a field (\"Name: value\"): %.60q", line)
			}
			if _, dup := s.par.Lookup(name); dup {
				return s.fail(at, "field %s occurs twice in one paragraph", name)
			}
			if len(s.par.Fields) == maxFields {
				return s.fail(at, "more than %d fields in one paragraph", maxFields)
			}
			s.par.Fields = append(s.par.Fields, Field{Name: name, Line: at})
			value = from + len(name) + 1
		}
		end = from + len(line)
	}
	if len(s.par.Fields) == 0 {
		return false
	}
	s.closeValue(value, end)
	s.par.Raw, s.par.Offset = strings.TrimRight(s.text[begin:end], "\r"), begin
	return true
}

func (s *Scanner) fail(line int, format string, args ...any) bool {
	s.err = fmt.Errorf("line %d: %w", line, fmt.Errorf(format, args...))
	return false
}

// closeValue gives the last field its value: the text between two offsets, without comment lines.
func (s *Scanner) closeValue(from, to int) {
	v := strings.TrimSpace(s.text[from:to])
	if strings.Contains(v, "\n#") {
		lines := strings.Split(v, "\n")
		v = strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") }), "\n")
	}
	s.par.Fields[len(s.par.Fields)-1].Value = v
}

// cutLine is the line at an offset without its line feed, and the offset of the next one.
func cutLine(text string, pos int) (string, int) {
	if i := strings.IndexByte(text[pos:], '\n'); i >= 0 {
		return text[pos : pos+i], pos + i + 1
	}
	return text[pos:], len(text)
}

func isBlank(line string) bool {
	// Most lines begin with a letter.
	return line == "" || line[0] <= ' ' && strings.TrimLeft(line, " \t\r") == ""
}

// validName follows Debian Policy 5.1: printable ASCII without space and colon, not beginning with # or -.
func validName(name string) bool {
	if name == "" || name[0] == '-' || name[0] == '#' {
		return false
	}
	for i := 0; i < len(name); i++ {
		if name[i] <= ' ' || name[i] > '~' {
			return false
		}
	}
	return true
}
