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
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a question for logs, and of one entry of the answer in bytes.
const (
	DefaultLines = 100
	MaxLines     = 10000
	MaxEntry     = 1 << 20
)

// Logs asks for the journal: the last lines of it and, with Follow, what is written from then on.
type Logs struct {
	// Unit is the full name of a unit. Empty, it is the journal of all units and of the kernel.
	Unit   string
	Lines  int
	Follow bool
	// More are full names of further units.
	More []string
	// Since and Until bound when an entry was written, by the node's clock; the zero time is no bound.
	Since, Until time.Time
	// Priority leaves out what is less urgent, by the number of syslog(3) from 0 to 7; empty is all.
	Priority string
	// Grep is an expression of RE2 that the message has to match somewhere; empty is all. With Follow, Lines counts before
	// it.
	Grep string
	// Boot is a start of the machine: 0 is the one that runs, -1 the one before; empty is all.
	Boot string
	// Pod asks for what a pod writes instead of the journal: NAMESPACE/POD, or NAMESPACE/POD/CONTAINER. It goes with
	// Lines, Follow, Since, Until and Grep; such lines have no priority, so that Priority leaves out none.
	Pod string
}

// maxGrep is in bytes. RE2 bounds the time of a match, not the memory of what it compiles.
const maxGrep = 256

// maxBoot is how many starts back a question goes.
const maxBoot = 1000

// priorities are the names of syslog(3), by their numbers.
var priorities = []string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}

// ParsePriority reads a priority as a name or a number, and returns the number.
func ParsePriority(text string) (string, error) {
	if n := slices.Index(priorities, text); n >= 0 {
		return strconv.Itoa(n), nil
	}
	if len(text) == 1 && text >= "0" && text <= "7" {
		return text, nil
	}
	return "", fmt.Errorf("the priority is %.64q; give 0 to 7, or one of %s", text, strings.Join(priorities, ", "))
}

// ParseGrep compiles an expression that messages are searched by (RE2, package regexp/syntax).
func ParseGrep(text string) (*regexp.Regexp, error) {
	if len(text) > maxGrep {
		return nil, fmt.Errorf("the expression has %d bytes; at most %d are possible", len(text), maxGrep)
	}
	e, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the expression %.300q is not one of RE2: %w", text, err)
	}
	return e, nil
}

// ParseBoot reads which start of the machine is asked for.
func ParseBoot(text string) (string, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n > 0 || n < -maxBoot {
		return "", fmt.Errorf("the start is %.64q; give 0 for the one that runs, -1 for the one before, down to -%d", text, maxBoot)
	}
	return strconv.Itoa(n), nil
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

// Units are all that are asked for; none are all of the node.
func (l Logs) Units() []string {
	if l.Unit == "" {
		return nil
	}
	return append([]string{l.Unit}, l.More...)
}

// Values are the parameters of a question.
func (l Logs) Values() url.Values {
	v := url.Values{"lines": {strconv.Itoa(l.Lines)}}
	if units := l.Units(); len(units) > 0 {
		v["unit"] = units
	}
	if l.Follow {
		v.Set("follow", "true")
	}
	for name, t := range map[string]time.Time{"since": l.Since, "until": l.Until} {
		if !t.IsZero() {
			v.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, text := range map[string]string{"priority": l.Priority, "grep": l.Grep, "boot": l.Boot, "pod": l.Pod} {
		if text != "" {
			v.Set(name, text)
		}
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
		case "since":
			l.Since, err = parseMoment(name, value)
		case "until":
			l.Until, err = parseMoment(name, value)
		case "priority":
			l.Priority, err = ParsePriority(value)
		case "grep":
			l.Grep = value
			_, err = ParseGrep(value)
		case "boot":
			l.Boot, err = ParseBoot(value)
		case "pod":
			l.Pod = value
			_, _, _, err = PodParts(value)
		default:
			err = fmt.Errorf("there is no parameter %.64q; there are unit, lines, follow, since, until, priority, grep, boot and pod", name)
		}
		if err != nil {
			return l, err
		}
	}
	if l.Follow && !l.Until.IsZero() {
		return l, errors.New("until bounds what was written, and follow waits for what will be; give one of them")
	}
	if l.Pod != "" && (l.Unit != "" || l.Boot != "") {
		return l, errors.New("a pod's lines are of no unit and of no start of the machine; give pod without unit and boot, and with since")
	}
	return l, nil
}

// parseMoment reads a time as journalctl can be given it: after the begin of 1970, and before the year 2200.
func parseMoment(name, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Unix() <= 0 || t.Year() >= 2200 {
		return time.Time{}, fmt.Errorf("%s is %.64q; give a time such as 2026-11-24T12:00:00Z", name, text)
	}
	return t.UTC().Truncate(time.Microsecond), nil
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
	// Cursor names the entry in the journals of its node; empty where journalctl does not say.
	Cursor string
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
	e.Cursor = field(fields["__CURSOR"])
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
	text, several := value(raw)
	if len(several) > 0 {
		text, _ = value(several[0]) // No array of journalctl is deeper.
	}
	return text
}

// value is a string, or an array of bytes, as text; of an array of something else it is that.
func value(raw json.RawMessage) (text string, several []json.RawMessage) {
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return "", nil
	}
	var data []byte
	for _, p := range parts {
		n, err := strconv.ParseUint(string(bytes.TrimSpace(p)), 10, 8)
		if err != nil {
			return "", parts
		}
		data = append(data, byte(n))
	}
	return string(data), nil
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

// HarmlessJSON is a JSON text with the same meaning, without what a terminal would obey or what would change how the
// rest of a line looks: JSON has only characters below the blank escaped (RFC 8259, section 7), and terminals know
// controls above them, such as U+009B for ESC [, and U+202E, which turns the direction of what follows. Lines between
// values stay lines.
func HarmlessJSON(data []byte) []byte {
	if !bytes.ContainsFunc(data, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f }) {
		return data
	}
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == '\n':
			out = append(out, '\n')
		case r < ' ': // It may stand between values alone, where a blank does the same.
			out = append(out, ' ')
		case r == utf8.RuneError && n == 1: // Whoever reads JSON takes it for U+FFFD.
			out = append(out, `\ufffd`...)
		case unicode.IsPrint(r):
			out = append(out, data[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		data = data[n:]
	}
	return out
}

// WriteJSON writes a value that has texts of nodes as JSON on one line, or with an indent on several; no terminal obeys
// what it writes (see HarmlessJSON). An error is one of w, or of a value that JSON does not have.
func WriteJSON(w io.Writer, value any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(HarmlessJSON(b.Bytes()))
	return err
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
