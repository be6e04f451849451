// Package parcel is what receivers of logs are given: entries, as the store's queue has them, and what became of them.
//
// An entry is a line of JSON, an object of texts (VictoriaLogs, data ingestion, JSON stream): _time, _msg, what the
// store adds (cluster, node, role), and the fields of the journal under their own names.
package parcel

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Names of fields that receivers know. The journal's are those of systemd.journal-fields(7).
const (
	Cluster, Node, Role        = "cluster", "node", "role"
	Source                     = "_SPORE_SOURCE"
	Cursor, Stamp              = "__CURSOR", "__REALTIME_TIMESTAMP"
	Unit, Identifier, Priority = "_SYSTEMD_UNIT", "SYSLOG_IDENTIFIER", "PRIORITY"
	Facility, Process, ID      = "SYSLOG_FACILITY", "_PID", "MESSAGE_ID"
	Message                    = "MESSAGE"
	Namespace, Pod             = "KUBERNETES_NAMESPACE", "KUBERNETES_POD"
	Container, Stream          = "KUBERNETES_CONTAINER", "KUBERNETES_STREAM"
	storeTime, storeMessage    = "_time", "_msg"
)

// info is the priority of an entry that has none.
const info = 6

// Entry is one entry. Its texts are parts of one copy of the batch.
type Entry struct {
	// Line is its line in the queue, without the end of the line.
	Line string
	// Time is when it was written; zero where the line does not say.
	Time time.Time
	// Text is what it says.
	Text   string
	fields []field
}

type field struct{ name, value string }

// Parse reads the lines of a batch. malformed counts those that are not an object; they are left out.
func Parse(lines []byte) (out []Entry, malformed int) {
	for line := range strings.Lines(string(lines)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		e, err := parse(line)
		if err != nil {
			malformed++
			continue
		}
		out = append(out, e)
	}
	return out, malformed
}

func parse(line string) (Entry, error) {
	fields, plain := texts(line)
	if !plain {
		var err error
		if fields, err = values(line); err != nil {
			return Entry{}, err
		}
	}
	e := Entry{Line: line, fields: fields}
	e.Time = timeOf(e.Get(storeTime), e.Get(Stamp))
	if e.Text = e.Get(Message); e.has(storeMessage) {
		e.Text = e.Get(storeMessage)
	}
	e.fields = slices.DeleteFunc(fields, func(f field) bool {
		return f.name == storeTime || f.name == storeMessage || f.name == Message
	})
	return e, nil
}

// texts reads an object of texts without blanks, as the store writes it: encoding/json takes ten times as long, and
// makes a copy of everything. plain is false for every other line.
func texts(line string) (out []field, plain bool) {
	if !utf8.ValidString(line) {
		return nil, false
	}
	out = make([]field, 0, strings.Count(line, `":"`))
	for i, before := 0, "{"; ; before = "," {
		if !strings.HasPrefix(line[i:], before) {
			return out, line[i:] == "}" && len(out) > 0
		}
		name, next, ok := text(line, i+1)
		if !ok || !strings.HasPrefix(line[next:], ":") {
			return nil, false
		}
		value, next, ok := text(line, next+1)
		if !ok {
			return nil, false
		}
		out, i = append(out, field{name, value}), next
	}
}

// text reads a text in quotes at a place, and returns where it ends.
func text(line string, from int) (value string, next int, ok bool) {
	if from >= len(line) || line[from] != '"' {
		return "", 0, false
	}
	escaped := false
	for i := from + 1; i < len(line); i++ {
		switch c := line[i]; {
		case c < ' ':
			return "", 0, false
		case c == '\\':
			escaped = true
			i++
		case c == '"' && !escaped:
			return line[from+1 : i], i + 1, true
		case c == '"':
			return value, i + 1, json.Unmarshal([]byte(line[from:i+1]), &value) == nil
		}
	}
	return "", 0, false
}

// values reads any object. Values other than texts become texts as they stand.
func values(line string) ([]field, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(line), &raw); err != nil {
		return nil, fmt.Errorf("the line is malformed: %w", err)
	}
	if raw == nil {
		return nil, errors.New("the line is null")
	}
	out := make([]field, 0, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		var text string
		if json.Unmarshal(raw[name], &text) != nil {
			text = string(raw[name])
		}
		out = append(out, field{name, text})
	}
	return out, nil
}

// timeOf is the time of an entry: a text of RFC 3339, or of the Unix time in microseconds.
func timeOf(text, µs string) time.Time {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UTC()
	}
	for _, number := range []string{text, µs} {
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && n > 0 && n < 1<<53 {
			return time.UnixMicro(n).UTC()
		}
	}
	return time.Time{}
}

// Get is the value of a field, or empty. Of several with one name it is that of the last.
func (e Entry) Get(name string) string {
	for _, f := range slices.Backward(e.fields) {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

func (e Entry) has(name string) bool {
	return slices.ContainsFunc(e.fields, func(f field) bool { return f.name == name })
}

// Names are the names of its fields, in order, without those of the time and the text.
func (e Entry) Names() []string {
	out := make([]string, 0, len(e.fields))
	for _, f := range e.fields {
		out = append(out, f.name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Importance is its PRIORITY, 0 to 7; info where it has none.
func (e Entry) Importance() int {
	p := e.Get(Priority)
	if len(p) != 1 || p[0] < '0' || p[0] > '7' {
		return info
	}
	return int(p[0] - '0')
}

// Cut is a text of at most that many bytes, which ends with a whole character.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// First is how many of the entries go out together: at most that many, with at most that many bytes of lines, and at
// least one.
func First(entries []Entry, most, bytes int) int {
	for i, e := range entries {
		if bytes -= len(e.Line); i > 0 && (i >= most || bytes < 0) {
			return i
		}
	}
	return len(entries)
}

// Outcome is what became of entries.
type Outcome struct {
	// Left are those that the receiver does not have yet.
	Left []Entry
	// Refused is how many it will never take.
	Refused int
	// Why is a reason of the last refusal.
	Why string
}

// Later is an error of a receiver that says when it may be asked again.
type Later struct {
	After time.Duration
	Err   error
}

func (l *Later) Error() string { return l.Err.Error() }

func (l *Later) Unwrap() error { return l.Err }

// Rejected is an error of a receiver that calls the first N entries of what is left malformed, all of them together:
// some of them are, or the receiver is not set up as it has to be.
type Rejected struct {
	N int
	// Certain says that the receiver speaks of the entries, such as of their time.
	Certain bool
	Err     error
}

func (r *Rejected) Error() string { return r.Err.Error() }

func (r *Rejected) Unwrap() error { return r.Err }
