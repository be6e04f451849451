// Package unitfile parses unit files and drop-ins of systemd (systemd.syntax(7), systemd.unit(5)) with the line of
// everything, and says what systemd would pass over with a warning in the journal of a machine.
//
// It knows the form and the names of sections. It knows neither the keys of a section nor their values.
package unitfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxSize is the size of a file that is parsed, in bytes. It is also what systemd reads of one line.
const MaxSize = 1 << 20

// maxFaults bounds what is said of one file.
const maxFaults = 20

// Setting is one assignment.
type Setting struct {
	// Line counts from 1; it is the first of several that backslashes join.
	Line int
	// Section is without brackets. Value is without blanks around it; it is empty where the assignment resets a list.
	Section, Key, Value string
}

// Fault is something that systemd would not do as it is written.
type Fault struct {
	// Line and Column count from 1; the column counts characters.
	Line, Column int
	Message      string
}

// sections are those of each kind of unit beside [Unit] and [Install].
var sections = map[string]string{
	".automount": "Automount", ".mount": "Mount", ".path": "Path", ".service": "Service", ".slice": "Slice",
	".socket": "Socket", ".swap": "Swap", ".timer": "Timer", ".target": "",
}

// Kinds are the ends of names of units that systemd loads from files, sorted.
func Kinds() []string {
	out := make([]string, 0, len(sections))
	for kind := range sections {
		out = append(out, kind)
	}
	slices.Sort(out)
	return out
}

// Sections are the sections of a kind of unit, such as ".service".
func Sections(kind string) []string {
	out := []string{"Unit"}
	if s := sections[kind]; s != "" {
		out = append(out, s)
	}
	return append(out, "Install")
}

// Parse reads a unit file of a kind, such as ".service". It goes on after a fault.
func Parse(data []byte, kind string) ([]Setting, []Fault) {
	p := parser{kind: kind}
	if len(data) > MaxSize {
		p.fail(1, 1, "it has more than %d MiB, and systemd reads no such line; make it smaller", MaxSize>>20)
		return nil, p.faults
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if p.line = i + 1; !p.text(line) {
			return p.settings, p.faults
		}
		p.read(strings.TrimSuffix(string(line), "\r"))
	}
	if p.joined != "" {
		p.fail(p.line, 1, `\ at the end of the file joins it with nothing; remove it`)
		p.joined = strings.TrimSpace(p.joined)
		p.assign(p.joined)
	}
	return p.settings, p.faults
}

type parser struct {
	kind string
	line int
	// section is the current one; known says that settings in it count.
	section string
	known   bool
	// joined is what lines with a backslash at their end have so far, first the first of them.
	joined string
	first  int

	settings []Setting
	faults   []Fault
}

func (p *parser) fail(line, column int, format string, args ...any) {
	if len(p.faults) < maxFaults {
		p.faults = append(p.faults, Fault{line, column, fmt.Sprintf(format, args...)})
	}
}

// text refuses what no editor shows. systemd takes a line that is not UTF-8 for an error.
func (p *parser) text(line []byte) bool {
	column := 0
	for i := 0; i < len(line); {
		r, n := utf8.DecodeRune(line[i:])
		column++
		switch {
		case r == utf8.RuneError && n == 1:
			p.fail(p.line, column, "the byte 0x%02x is not UTF-8; save the file as UTF-8", line[i])
			return false
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			p.fail(p.line, column, "the control character 0x%02x does not belong in a unit; remove it", r)
			return false
		}
		i += n
	}
	return true
}

// read takes one line. A comment between joined lines is passed over (systemd.syntax(7)).
func (p *parser) read(line string) {
	trimmed := strings.TrimSpace(line)
	if trimmed != "" && (trimmed[0] == '#' || trimmed[0] == ';') {
		return
	}
	if p.joined == "" {
		p.first = p.line
	}
	if rest, more := strings.CutSuffix(strings.TrimRight(line, " \t"), `\`); more && strings.HasSuffix(line, `\`) {
		p.joined += rest + " "
		return
	}
	whole := strings.TrimSpace(p.joined + line)
	p.joined = ""
	switch {
	case whole == "":
	case whole[0] == '[':
		p.begin(whole)
	default:
		p.assign(whole)
	}
}

// begin enters a section.
func (p *parser) begin(header string) {
	name, closed := strings.CutSuffix(header[1:], "]")
	p.section, p.known = name, true
	if !closed || name == "" || strings.ContainsAny(name, "[]") {
		p.known = false
		p.fail(p.first, 1, "%s is not a section; write one of %s", clip(header), p.list())
		return
	}
	if strings.HasPrefix(name, "X-") || slices.Contains(Sections(p.kind), name) {
		return
	}
	p.known = false
	for other := range sections {
		if sections[other] == name {
			p.fail(p.first, 1, "[%s] is a section of %s units, and this is a %s; write one of %s",
				name, other, p.kind, p.list())
			return
		}
	}
	p.fail(p.first, 1, "the section [%s] is unknown, so that systemd would pass over it; write one of %s",
		clip(name), p.list())
}

func (p *parser) list() string { return "[" + strings.Join(Sections(p.kind), "], [") + "]" }

// assign takes an assignment.
func (p *parser) assign(text string) {
	key, value, ok := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	switch {
	case !ok:
		p.fail(p.first, 1, "the line has no =; write KEY=VALUE, or join it to the line before by a \\ at the end "+
			"of that one")
	case key == "":
		p.fail(p.first, 1, "there is no key before the =; write KEY=VALUE")
	case p.section == "":
		p.fail(p.first, 1, "%s= is above the first section; write it below one of %s", clip(key), p.list())
	case p.known && !strings.HasPrefix(p.section, "X-"):
		p.settings = append(p.settings, Setting{p.first, p.section, key, strings.TrimSpace(value)})
	}
}

// Yes tells whether a value is a boolean that is true (systemd.syntax(7)).
func Yes(value string) bool {
	return slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(value))
}

// clip shortens what a message quotes.
func clip(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
