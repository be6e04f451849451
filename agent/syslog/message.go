// Package syslog makes messages of syslog (RFC 5424), and sends them over UDP (RFC 5426), TCP with counted octets (RFC
// 6587, section 3.4.1) or TLS (RFC 5425). It listens to nothing. Alerts and logs go out by it.
//
// Texts are MSG-ANY (section 6.4): without a byte order mark, which receivers show as a part of the text.
package syslog

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Lengths of parts of the header (section 6), and of a name of structured data (section 6.3.2).
const (
	maxHost, maxApplication, maxProcess, maxMessageID, maxName = 255, 48, 128, 32, 32
)

// Least is the smallest bound of a message: its header fits, and some of its text.
const Least = 1024

// Message is one message. What does not fit its place is cut; what may not stand there is left out.
type Message struct {
	// Facility is 0 to 23, Severity 0 to 7 (section 6.2.1). Others become daemon and notice.
	Facility, Severity int
	// Time is told to the microsecond; none is told when it is zero.
	Time time.Time
	// Host, Application, Process and ID are HOSTNAME, APP-NAME, PROCID and MSGID.
	Host, Application, Process, ID string
	// Element is the SD-ID of Params; without Params there is no structured data.
	Element string
	Params  []Param
	Text    string
}

// Param is a pair of structured data. Pairs without a value are left out.
type Param struct{ Name, Value string }

// The facility and severity of what has none that is valid: daemon and notice.
const defaultFacility, defaultSeverity = 3, 5

// Append appends the message, in at most that many bytes; Least holds where less is asked for. Half of them are for
// structured data at most: pairs that do not fit are left out, the last of the text is cut.
func (m Message) Append(b []byte, most int) []byte {
	most = max(most, Least)
	start := len(b)
	facility, severity := m.Facility, m.Severity
	if facility < 0 || facility > 23 {
		facility = defaultFacility
	}
	if severity < 0 || severity > 7 {
		severity = defaultSeverity
	}
	b = fmt.Appendf(b, "<%d>1 ", facility*8+severity)
	b = appendTime(b, m.Time)
	for _, p := range []struct {
		text string
		most int
	}{{m.Host, maxHost}, {m.Application, maxApplication}, {m.Process, maxProcess}, {m.ID, maxMessageID}} {
		b = append(b, ' ')
		b = append(b, word(p.text, p.most)...)
	}
	b = append(b, ' ')
	b = m.appendData(b, start+most/2)
	b = append(b, ' ')
	room := most - (len(b) - start)
	// A character that is replaced has at most three bytes, and becomes one.
	return append(b, cut(clean(cut(m.Text, 3*room)), room)...)
}

// appendTime appends TIMESTAMP (section 6.2.3), whose year has four digits.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return append(b, '-')
	}
	return t.AppendFormat(b, "2006-01-02T15:04:05.000000Z")
}

// appendData appends STRUCTURED-DATA (section 6.3) that ends before a length, or as soon as a name and an end can.
func (m Message) appendData(b []byte, end int) []byte {
	start := len(b)
	b = append(b, '[')
	b = append(b, name(m.Element)...)
	any := false
	for _, p := range m.Params {
		value := escape.Replace(clean(p.Value))
		if value == "" || len(b)+len(p.Name)+len(value)+len(` =""]`) > end {
			continue
		}
		b, any = fmt.Appendf(b, ` %s="%s"`, name(p.Name), value), true
	}
	if !any {
		return append(b[:start], '-')
	}
	return append(b, ']')
}

// escape is for values of structured data (section 6.3.3).
var escape = strings.NewReplacer(`"`, `\"`, `\`, `\\`, `]`, `\]`)

// name is an SD-NAME: a word without what ends it.
func name(s string) string { return word(notInNames.Replace(s), maxName) }

var notInNames = strings.NewReplacer("=", "", "]", "", `"`, "")

// word is a text of visible ASCII (section 6), or - where nothing is left.
func word(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), most)]
}

// clean is a text in one line: valid UTF-8, with control characters as # and three digits, octal, in the way of
// rsyslog, which other receivers take as it is. What changes the direction of what follows on a screen is a question
// mark.
func clean(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case unicode.IsControl(r):
			fmt.Fprintf(&b, "#%03o", r)
		case r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r):
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain tells of the most of all texts that they need no cleaning.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// cut is a text of at most that many bytes, which ends with a whole character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:max(most, 0)]
}
