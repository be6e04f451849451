// Package parcel is what receivers of logs are given: entries, as the store's queue has them, and what became of them.
//
// An entry is a line of JSON, an object of texts (VictoriaLogs, data ingestion, JSON stream): _time, _msg, what the
// store adds (cluster, node, role), and the fields of the journal under their own names.
package parcel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// Entry is one entry.
type Entry struct {
	// Line is its line in the queue, without the end of the line.
	Line []byte
	// Time is when it was written; zero where the line does not say.
	Time time.Time
	// Text is what it says.
	Text   string
	fields map[string]string
}

// Parse reads the lines of a batch. malformed counts those that are not an object; they are left out.
func Parse(lines []byte) (out []Entry, malformed int) {
	for line := range bytes.Lines(lines) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
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

func parse(line []byte) (Entry, error) {
	fields := map[string]string{}
	if err := json.Unmarshal(line, &fields); err != nil {
		if fields, err = anyFields(line); err != nil {
			return Entry{}, err
		}
	}
	if fields == nil {
		return Entry{}, fmt.Errorf("the line is null")
	}
	e := Entry{Line: line, fields: fields, Time: timeOf(fields[storeTime], fields[Stamp])}
	var said bool
	if e.Text, said = fields[storeMessage]; !said {
		e.Text = fields[Message]
	}
	for _, name := range []string{storeTime, storeMessage, Message} {
		delete(fields, name)
	}
	return e, nil
}

// anyFields reads an object with values other than texts, which become texts as they stand.
func anyFields(line []byte) (map[string]string, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, fmt.Errorf("the line is malformed: %w", err)
	}
	out := map[string]string{}
	for name, value := range raw {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		out[name] = text
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

// Get is the value of a field, or empty.
func (e Entry) Get(name string) string { return e.fields[name] }

// Names are the names of its fields, in order, without those of the time and the text.
func (e Entry) Names() []string { return slices.Sorted(maps.Keys(e.fields)) }

// Importance is its PRIORITY, 0 to 7; info where it has none.
func (e Entry) Importance() int {
	p := e.fields[Priority]
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
