package formation

import (
	"fmt"
	"slices"
	"strings"
)

// Reply is what came of asking a member.
type Reply struct {
	Answer Answer
	Err    error
}

// verdict is what a member makes of the replies of one round.
type verdict struct {
	// state is what the member knows now; it is to be kept before anything is done about it.
	state State
	// join is true when the member joins.
	join bool
	// why says why it forms or joins, or for whom it waits.
	why string
}

// judge decides on the replies of all initial members but the member itself. It changes nothing.
func judge(s State, replies map[string]Reply) verdict {
	if v, done := takeOver(s, replies); done {
		return v
	}
	for _, name := range s.Initial {
		r, asked := replies[name]
		switch {
		case !asked || r.Err != nil:
		case r.Answer.Formed:
			return verdict{state: s, join: true, why: name + " is or was part of this cluster"}
		case r.Answer.Record != nil:
			return verdict{state: s, join: true, why: name + " forms a quorum without this member's data"}
		}
	}
	if waits := waitsFor(s, replies); len(waits) > 0 {
		return verdict{state: s, why: strings.Join(waits, "; ")}
	}
	writer := s.Initial[0]
	if writer != s.Node {
		s.Follows = replies[writer].Answer.Nonce
		return verdict{state: s, why: writer + " is to say who forms the quorum"}
	}
	s.Record = &Record{Writer: s.Node, Members: map[string]string{s.Node: s.Nonce}}
	for name, r := range replies {
		s.Record.Members[name] = r.Answer.Nonce
	}
	return verdict{state: s, why: "all members are empty: " + strings.Join(s.Initial, ", ")}
}

// takeOver takes over a record in which the member stands.
func takeOver(s State, replies map[string]Reply) (verdict, bool) {
	var record *Record
	holder := ""
	for _, name := range s.Initial {
		r, asked := replies[name]
		if !asked || r.Err != nil || r.Answer.Record == nil || !mayForm(s, r.Answer.Record) {
			continue
		}
		if record != nil && !record.same(r.Answer.Record) {
			why := fmt.Sprintf("%s and %s hold different records of who forms the quorum, as after `force` on two members; set one of them back to empty", holder, name)
			return verdict{state: s, why: why}, true
		}
		record, holder = r.Answer.Record, name
	}
	if record == nil {
		return verdict{}, false
	}
	s.Record = record
	return verdict{state: s, why: holder + " says who forms the quorum"}, true
}

// mayForm tells whether a member may form by a record: its own nonce stands in it, and that of the writer that it follows.
func mayForm(s State, r *Record) bool {
	if r.Members[s.Node] != s.Nonce {
		return false
	}
	return r.Forced || r.Writer == s.Initial[0] && r.Members[r.Writer] == s.Follows
}

// waitsFor lists why it is not yet known that all members are empty.
func waitsFor(s State, replies map[string]Reply) []string {
	var out []string
	for _, name := range s.Initial {
		if name == s.Node {
			continue
		}
		r, asked := replies[name]
		switch a := r.Answer; {
		case !asked:
			out = append(out, name+" (not asked)")
		case r.Err != nil:
			out = append(out, fmt.Sprintf("%s (%v)", name, r.Err))
		case !a.Known:
			out = append(out, name+" (it has not looked at its own data yet)")
		case !slices.Equal(a.Initial, s.Initial):
			out = append(out, fmt.Sprintf("%s (its configuration has the members %s, and this one's %s; give both the same)", name, strings.Join(a.Initial, ", "), strings.Join(s.Initial, ", ")))
		case s.Initial[0] == s.Node && a.Follows != s.Nonce:
			out = append(out, name+" (it has not heard of this member yet)")
		}
	}
	return out
}
