package take

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spore/wire/journalexport"
)

// Fields of an entry that the store reads, and those that it writes.
const (
	cursorField  = "__CURSOR"
	timeField    = "__REALTIME_TIMESTAMP"
	messageField = "MESSAGE"
	sourceField  = journalexport.Prefix + "SOURCE"
	streamField  = "KUBERNETES_STREAM"
	// ownTimeField has the time of an entry whose own could not be kept, or "store" where there was none.
	ownTimeField = journalexport.Prefix + "TIME"
)

// sources are the values of sourceField.
var sources = [...]string{"journal", podSource, "audit"}

const podSource = "pod"

// ofPod tells whether a field says which container wrote an entry. A program can write such a field into the journal
// itself: it would pass for a pod, and each new value would be a stream of VictoriaLogs.
func ofPod(name string) bool {
	switch name {
	case "KUBERNETES_NAMESPACE", "KUBERNETES_POD", "KUBERNETES_CONTAINER", streamField:
		return true
	}
	return false
}

// maxAhead is how far an entry's time may be after the store's.
const maxAhead = 10 * time.Minute

// origin is what the store knows of who brings an entry.
type origin struct {
	cluster, node, roles string
	now                  time.Time
	// kept is for how long the store keeps entries.
	kept time.Duration
}

// appendLine writes an entry as a line of JSON for VictoriaLogs (/insert/jsonline). What the store knows by itself is
// not taken from the entry. clamped tells that the entry's time was not kept as its time.
func (o origin) appendLine(dst []byte, e journalexport.Entry) (line []byte, clamped bool) {
	at, own := o.timeOf(e)
	dst = append(dst, `{"_time":"`...)
	dst = at.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	if own != "" {
		dst = appendField(dst, ownTimeField, own)
	}
	dst = appendField(dst, "cluster", o.cluster)
	dst = appendField(dst, "node", o.node)
	if o.roles != "" {
		dst = appendField(dst, "role", o.roles)
	}
	source := sourceOf(e)
	dst = appendField(dst, sourceField, source)
	message := false
	for i, f := range e {
		name := f.Name
		switch {
		case !kept(name) || has(e[:i], name) || source != podSource && ofPod(name):
			continue
		case name == messageField:
			name, message = "_msg", len(f.Value) > 0
		}
		if len(f.Value) == 0 && !has(e[i+1:], f.Name) { // VictoriaLogs keeps no empty value.
			continue
		}
		dst = append(append(append(dst, `,"`...), name...), `":"`...)
		dst = appendText(dst, f.Value)
		for _, more := range e[i+1:] { // A name may come several times.
			if more.Name == f.Name {
				dst = append(dst, `\n`...)
				dst = appendText(dst, more.Value)
				message = message || name == "_msg"
			}
		}
		dst = append(dst, '"')
	}
	if !message { // VictoriaLogs would write a complaint of its own there.
		dst = appendField(dst, "_msg", "(no message)")
	}
	return append(dst, "}\n"...), own != "" && own != noTime
}

// noTime stands in ownTimeField where the entry had none.
const noTime = "store"

// timeOf is the time by which the store keeps an entry, and what to write of the entry's own where that is another.
// VictoriaLogs would drop an entry far from now, or keep a day for it that nobody removes.
func (o origin) timeOf(e journalexport.Entry) (at time.Time, own string) {
	text, _ := e.Get(timeField)
	micro, err := strconv.ParseInt(text, 10, 64)
	if err != nil || micro <= 0 {
		return o.now, noTime
	}
	at = time.UnixMicro(micro).UTC()
	if at.After(o.now.Add(maxAhead)) || at.Before(o.now.Add(-o.kept)) {
		if at.Year() > 9999 {
			return o.now, strconv.FormatInt(micro, 10)
		}
		return o.now, at.Format(time.RFC3339Nano)
	}
	return at, ""
}

// sourceOf is where an entry is from; a node may say what it likes of itself, in the words that there are.
func sourceOf(e journalexport.Entry) string {
	text, _ := e.Get(sourceField)
	for _, s := range sources {
		if text == s {
			return s
		}
	}
	return sources[0]
}

// kept tells whether a field is kept as it came. Those that begin with two underscores are addresses of the entry, of
// which the cursor says all.
func kept(name string) bool {
	switch {
	case name == cursorField || name == journalexport.Cut:
		return true
	case !journalexport.ValidName(name):
		return false
	}
	return !strings.HasPrefix(name, "__") && !strings.HasPrefix(name, journalexport.Prefix)
}

// has tells whether there is a field of a name.
func has(e journalexport.Entry, name string) bool {
	for _, f := range e {
		if f.Name == name {
			return true
		}
	}
	return false
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(append(append(dst, `,"`...), name...), `":"`...)
	return append(appendText(dst, []byte(value)), '"')
}

const digits = "0123456789abcdef"

// appendText writes a value as it stands between quotes of JSON (RFC 8259, section 7). Bytes that are no UTF-8, and
// zeros, are written as \xNN for whoever reads it.
func appendText(dst, value []byte) []byte {
	for i := 0; i < len(value); {
		c := value[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == 0:
			dst = append(dst, `\\x00`...)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRune(value[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, '\\', '\\', 'x', digits[c>>4], digits[c&15])
				break
			}
			dst = append(dst, value[i:i+n]...)
			i += n
			continue
		}
		i++
	}
	return dst
}

// placeOf is where an entry stands in what its node has: the name of the series, and its number there, which is above 0
// and rises; "" where the cursor says nothing.
//
// A journal's numbers (s, i) go back when a loss of power takes entries that were sent already: those of the next start
// (b) have the same numbers. So each start is a series. Of a container's file each stream is one: a message in parts
// may begin before messages of the other stream, and end behind them.
func placeOf(e journalexport.Entry) (series string, number uint64) {
	cursor, _ := e.Get(cursorField)
	if file := part(cursor, "file"); file != "" {
		stream, _ := e.Get(streamField)
		n, err := strconv.ParseUint(part(cursor, "offset"), 10, 62)
		if err != nil || len(file) > maxSeries || strings.ContainsAny(file+stream, "\t\n") {
			return "", 0
		}
		return "file=" + file + ";" + stream[:min(len(stream), maxStream)], n + 1
	}
	s, b := part(cursor, "s"), part(cursor, "b")
	n, err := strconv.ParseUint(part(cursor, "i"), 16, 64)
	if err != nil || !isID(s) || !isID(b) {
		return "", 0
	}
	return "s=" + s + ";b=" + b, n
}

// maxSeries bounds the name of a file in a cursor, and maxStream that of a stream, in bytes.
const maxSeries, maxStream = 200, 16

// part is a value of a cursor, such as s=…;i=….
func part(cursor, name string) string {
	for p := range strings.SplitSeq(cursor, ";") {
		if value, found := strings.CutPrefix(p, name+"="); found {
			return value
		}
	}
	return ""
}

// isID tells whether a text is a 128-bit identifier of systemd.
func isID(s string) bool {
	if len(s) != 32 {
		return false
	}
	return strings.Trim(s, digits) == ""
}
