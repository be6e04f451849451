package nodeapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a question for logs, and of one entry of the answer in bytes.
const (
	DefaultLines = 100
	MaxLines     = 10000
	MaxEntry     = 1 << 20
)

// Logs asks for the journal of a unit, or of several together: the last lines of it and, with Follow, what is written
// from then on.
type Logs struct {
	// Unit is the full name of a unit.
	Unit   string
	Lines  int
	Follow bool
	// More are full names of further units.
	More []string
}

// maxUnits is how many units are asked for together.
const maxUnits = 100

// maxUnit is how long the name of a unit may be in bytes (systemd.unit(5)).
const maxUnit = 255

// unitForm is such a name: no pattern, which journalctl would take for several. It has no bound on the length: a
// counted repetition is compiled as many times over, at each start of the agent.
var unitForm = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.(service|socket|target|mount|automount|swap|timer|path|slice|scope|device)$`)

// UnitName completes the name of a unit as systemctl does: what has no type is a service.
func UnitName(name string) (string, error) {
	for _, full := range []string{name, name + ".service"} {
		if len(full) <= maxUnit && unitForm.MatchString(full) {
			return full, nil
		}
	}
	return "", fmt.Errorf("%.64q is not a name of a unit; write it as kafka or kafka.service", name)
}

// Units are all that is asked for.
func (l Logs) Units() []string { return append([]string{l.Unit}, l.More...) }

// Values are the parameters of a question.
func (l Logs) Values() url.Values {
	v := url.Values{"unit": l.Units(), "lines": {strconv.Itoa(l.Lines)}}
	if l.Follow {
		v.Set("follow", "true")
	}
	return v
}

// ParseLogs reads the parameters of a question.
func ParseLogs(v url.Values) (Logs, error) {
	l := Logs{Lines: DefaultLines}
	for name, values := range v {
		if name == "unit" && len(values) > 1 && len(values) <= maxUnits {
			for _, value := range values[1:] {
				unit, err := UnitName(value)
				if err != nil {
					return l, err
				}
				l.More = append(l.More, unit)
			}
			values = values[:1]
		}
		if len(values) != 1 {
			return l, fmt.Errorf("%.64q appears %d times; give it once", name, len(values))
		}
		var err error
		switch value := values[0]; name {
		case "unit":
			l.Unit, err = UnitName(value)
		case "lines":
			if l.Lines, err = strconv.Atoi(value); err != nil || l.Lines < 0 || l.Lines > MaxLines {
				err = fmt.Errorf("lines is %.64q; give 0 to %d", value, MaxLines)
			}
		case "follow":
			if l.Follow, err = strconv.ParseBool(value); err != nil {
				err = fmt.Errorf("follow is %.64q; give true or false", value)
			}
		default:
			err = fmt.Errorf("there is no parameter %.64q; there are unit, lines and follow", name)
		}
		if err != nil {
			return l, err
		}
	}
	if l.Unit == "" {
		return l, errors.New("the unit is missing; give unit=NAME")
	}
	return l, nil
}

// Entry is an entry of the journal.
type Entry struct {
	// Time is when it was written, by the node's clock.
	Time time.Time
	// Identifier is who says it, PID its process.
	Identifier, PID string
	// Priority is 0 (emergency) to 7 (debug).
	Priority int
	Message  string
}

// ParseEntry reads one line of the answer, which is an object as journalctl(1) makes it with --output=json: a field is
// a string; where it is no text an array of its bytes; where there are several of that name an array of those; null
// where it was too long.
func ParseEntry(line []byte) (Entry, error) {
	if len(line) > MaxEntry {
		return Entry{}, fmt.Errorf("an entry of the journal has more than %d bytes", MaxEntry)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return Entry{}, fmt.Errorf("an entry of the journal is malformed: %w", err)
	}
	e := Entry{Priority: 6, Identifier: field(fields["SYSLOG_IDENTIFIER"]), PID: field(fields["_PID"]), Message: field(fields["MESSAGE"])}
	if at, err := strconv.ParseInt(field(fields["__REALTIME_TIMESTAMP"]), 10, 64); err == nil {
		e.Time = time.UnixMicro(at)
	}
	if p, err := strconv.Atoi(field(fields["PRIORITY"])); err == nil && p >= 0 && p <= 7 {
		e.Priority = p
	}
	return e, nil
}

// field is a field's first value.
func field(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return ""
	}
	var data []byte
	for _, p := range parts {
		n, err := strconv.ParseUint(string(bytes.TrimSpace(p)), 10, 8)
		if err != nil {
			return field(parts[0])
		}
		data = append(data, byte(n))
	}
	return string(data)
}

// String is the entry as a line for people, with the time in UTC. What a terminal would obey is shown and not sent to
// it.
func (e Entry) String() string {
	var b strings.Builder
	b.WriteString(e.Time.UTC().Format("2006-01-02 15:04:05.000"))
	b.WriteByte(' ')
	b.WriteString(Harmless(e.Identifier))
	if e.PID != "" {
		b.WriteString("[" + Harmless(e.PID) + "]")
	}
	b.WriteString(": ")
	for i, line := range strings.Split(e.Message, "\n") {
		if i > 0 {
			b.WriteString("\n    ")
		}
		b.WriteString(Harmless(line))
	}
	return b.String()
}

// Harmless is a text without what a terminal would obey.
func Harmless(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// ReadEntries calls each for every line of an answer, which it is given with its entry, until the answer ends.
func ReadEntries(r io.Reader, each func(line []byte, e Entry) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), MaxEntry+1)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 { // The node says that it is still there.
			continue
		}
		e, err := ParseEntry(line)
		if err != nil {
			return err
		}
		if err := each(line, e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("an entry of the journal has more than %d bytes", MaxEntry)
		}
		return fmt.Errorf("read the journal: %w", err)
	}
	return nil
}
