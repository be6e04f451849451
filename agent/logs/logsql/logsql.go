// Package logsql writes questions to a store of logs in LogsQL, the language of VictoriaLogs (VictoriaLogs
// documentation, LogsQL). Every text of a caller is quoted as Go quotes strings, which is how VictoriaLogs reads them
// (VictoriaLogs, lib/logstorage/parser.go, nextToken): none can leave its quotes. It knows the fields of the journal
// (systemd.journal-fields(7)) and those that this project's senders and stores add; it asks nobody.
package logsql

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"spore/wire/machine"
)

// Names of fields that senders and stores add, and of those that VictoriaLogs has for all entries.
const (
	Node      = "node"
	Cluster   = "cluster"
	Role      = "role"
	Source    = "_SPORE_SOURCE"
	Cut       = "_SPORE_CUT"
	OwnTime   = "_SPORE_TIME"
	Namespace = "KUBERNETES_NAMESPACE"
	Pod       = "KUBERNETES_POD"
	Container = "KUBERNETES_CONTAINER"
	Stream    = "KUBERNETES_STREAM"
	Time      = "_time"
	Message   = "_msg"
)

// MaxQuery is how long VictoriaLogs takes a question to be, in bytes (its flag -search.maxQueryLen).
const MaxQuery = 16 << 10

// Filter chooses entries. What is empty chooses nothing away.
type Filter struct {
	// Nodes and Sources are those of which one has to fit, and Without are nodes that must not.
	Nodes, Sources, Without []string
	// Units are full names of units; a template, as foo@.service, stands for all its instances. What process 1 says of a
	// unit is chosen, too, as journalctl does.
	Units []string
	// Namespace, Pod and Container are of Kubernetes.
	Namespace, Pod, Container string
	// WithoutKernelAudit leaves out the audit records of the kernel, and entries of the journal that do not say how they
	// came into it: such a field can have been cut off.
	WithoutKernelAudit bool
	// Priority leaves out what is less urgent, from "0" to "7". What has none counts as "6", info.
	Priority string
	// Grep is an expression of RE2 for the message. What is chosen has all that match, and may have others: whoever asks
	// has to look again. The store's `.` also stands for the end of a line.
	Grep string
	// Boots are ids of starts of a machine.
	Boots []string
}

// String is the filter in LogsQL.
func (f Filter) String() string {
	var all []string
	var stream []string
	for _, s := range []struct {
		name   string
		values []string
	}{
		{Node, f.Nodes}, {Source, f.Sources}, {Namespace, one(f.Namespace)}, {Pod, one(f.Pod)}, {Container, one(f.Container)},
	} {
		if len(s.values) > 0 {
			stream = append(stream, s.name+" in "+list(s.values))
		}
	}
	if len(f.Without) > 0 {
		stream = append(stream, Node+" not_in "+list(f.Without))
	}
	if len(stream) > 0 {
		all = append(all, "{"+strings.Join(stream, ", ")+"}")
	}
	if len(f.Units) > 0 {
		all = append(all, units(f.Units))
	}
	if f.WithoutKernelAudit {
		all = append(all, "(_TRANSPORT:in"+list(transports())+" or {"+Source+" not_in "+list([]string{machine.LogJournal})+"})")
	}
	if p := priority(f.Priority); p != "" {
		all = append(all, p)
	}
	if len(f.Boots) > 0 {
		all = append(all, "_BOOT_ID:in"+list(f.Boots))
	}
	if f.Grep != "" {
		all = append(all, grep(f.Grep))
	}
	if len(all) == 0 {
		return "*"
	}
	return strings.Join(all, " ")
}

// fields are the fields that an entry is answered with: those that journalctl is asked for on a node, and those that
// say where it comes from.
var fields = []string{
	Time, Message, Node, Cluster, Role, Source, Cut, OwnTime, Namespace, Pod, Container, Stream,
	"__CURSOR", "__REALTIME_TIMESTAMP", "PRIORITY", "SYSLOG_IDENTIFIER", "_PID", "_SYSTEMD_UNIT", "_TRANSPORT", "_BOOT_ID",
}

// Entries is the question for the entries themselves.
func (f Filter) Entries() string { return f.String() + " | fields " + strings.Join(fields, ", ") }

// Newest is the question for the time of the newest entry of each node, in the field newest.
func (f Filter) Newest() string {
	return f.String() + " | stats by (" + Node + ") max(" + Time + ") newest"
}

// BootsOf is the question for the starts of each node, with the time of the last entry of each in the field newest.
func (f Filter) BootsOf() string {
	return f.String() + " _BOOT_ID:* | stats by (" + Node + ", _BOOT_ID) max(" + Time + ") newest"
}

// transports are all ways into the journal but the kernel's audit records (systemd.journal-fields(7), _TRANSPORT).
func transports() []string { return []string{"driver", "journal", "kernel", "stdout", "syslog"} }

func one(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// list is a list of values in parentheses.
func list(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

// units are what units say, and what process 1 says of them.
func units(names []string) string {
	var exact, patterns []string
	for _, n := range names {
		if before, after, template := strings.Cut(n, "@."); template {
			patterns = append(patterns, "^"+regexp.QuoteMeta(before+"@")+".*"+regexp.QuoteMeta("."+after)+"$")
			continue
		}
		exact = append(exact, n)
	}
	var own, of []string
	if len(exact) > 0 {
		own, of = append(own, "_SYSTEMD_UNIT in "+list(exact)), append(of, "UNIT:in"+list(exact))
	}
	for _, p := range patterns {
		own, of = append(own, "_SYSTEMD_UNIT=~"+strconv.Quote(p)), append(of, "UNIT:~"+strconv.Quote(p))
	}
	return `({` + strings.Join(own, " or ") + `} or ({_SYSTEMD_UNIT="init.scope"} (` + strings.Join(of, " or ") + `)))`
}

// priority chooses what is as urgent as this one, or more.
func priority(least string) string {
	n, err := strconv.Atoi(least)
	switch {
	case err != nil || n >= 7:
		return ""
	case n == 6:
		return `!PRIORITY:="7"`
	}
	var urgent []string
	for i := range max(n, 0) + 1 {
		urgent = append(urgent, strconv.Itoa(i))
	}
	return "PRIORITY:in" + list(urgent)
}

// grep is an expression for the message. The store has a Bloom filter of whole words for each block of entries: an
// expression that is a word with \b before and behind it skips what does not have the word without reading it. One that
// is a text is looked for as that, which is faster than an expression, but reads all messages.
func grep(expression string) string {
	e, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return Message + ":~" + strconv.Quote(expression)
	}
	if text, whole := word(e); whole {
		return Message + ":" + strconv.Quote(text)
	}
	if text := literal(e); text != "" {
		return Message + ":*" + strconv.Quote(text) + "*"
	}
	if ofLines(e) {
		return texts(e)
	}
	return oneOf(e) + Message + ":~" + strconv.Quote(expression)
}

// leastText is how long a text is, in bytes, that is worth to be looked for before an expression.
const leastText = 3

// oneOf are texts, one for each alternative of an expression, of which each message has one that matches. The store
// looks for texts first, at a fifth of what the expression takes. Of an expression without alternatives it finds the
// words by itself, and skips what does not have them.
func oneOf(e *syntax.Regexp) string {
	if e.Op == syntax.OpCapture {
		return oneOf(e.Sub[0])
	}
	if e.Op != syntax.OpAlternate {
		return ""
	}
	var all []string
	for _, sub := range e.Sub {
		text := literal(sub)
		if sub.Op == syntax.OpConcat {
			for _, part := range sub.Sub {
				if t := literal(part); len(t) > len(text) {
					text = t
				}
			}
		}
		if len(text) < leastText {
			return ""
		}
		all = append(all, Message+":*"+strconv.Quote(text)+"*")
	}
	return "(" + strings.Join(all, " or ") + ") "
}

// ofLines tells whether an expression has ^ or $ for the bounds of lines (the flag m), which the store takes for those
// of the text (VictoriaMetrics, lib/regexutil, simplifyRegex).
func ofLines(e *syntax.Regexp) bool {
	return e.Op == syntax.OpBeginLine || e.Op == syntax.OpEndLine || slices.ContainsFunc(e.Sub, ofLines)
}

// texts are the texts that each message has that matches; whoever asks has to look for the rest.
func texts(e *syntax.Regexp) string {
	var all []string
	if e.Op == syntax.OpConcat {
		for _, sub := range e.Sub {
			if text := literal(sub); text != "" {
				all = append(all, Message+":*"+strconv.Quote(text)+"*")
			}
		}
	}
	if len(all) == 0 {
		return "*"
	}
	return strings.Join(all, " ")
}

// word is the text of an expression \bTEXT\b whose ends are letters, digits or underscores of ASCII: there, the bounds
// of the store's words are those of RE2, unless a letter of another alphabet stands beside it.
func word(e *syntax.Regexp) (text string, whole bool) {
	if e.Op != syntax.OpConcat || len(e.Sub) != 3 || e.Sub[0].Op != syntax.OpWordBoundary || e.Sub[2].Op != syntax.OpWordBoundary {
		return "", false
	}
	text = literal(e.Sub[1])
	return text, text != "" && syntax.IsWordChar(rune(text[0])) && syntax.IsWordChar(rune(text[len(text)-1]))
}

// literal is the text that an expression stands for; empty where it is more than a text.
func literal(e *syntax.Regexp) string {
	if e.Op != syntax.OpLiteral || e.Flags&syntax.FoldCase != 0 {
		return ""
	}
	return string(e.Rune)
}
