package main

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Span is a piece of a boot, in seconds since the kernel's start. A piece that only has an end began then.
type Span struct {
	Name       string
	Begin, End float64
}

// Lines of the console, as the kernel and stage1 print them: systemd's with the state of a unit, where the unit's name comes
// before its description (StatusUnitFormat=combined, Debian's default), and stage1's with the time in it.
var (
	unitLine   = regexp.MustCompile(`\[ *(\d+\.\d+)\] systemd\[1\]: ([A-Z][a-z]+(?: on| target)?) ([A-Za-z0-9:_.@\\-]+\.(?:service|target|mount|socket|swap|slice|path|timer|automount))\b`)
	takesTime  = regexp.MustCompile(`\.(service|target)$`)
	stage1Line = regexp.MustCompile(`spore stage1: \[ *(\d+\.\d+)\]`)
)

// begins and ends are systemd's words for the start of a unit and for its end (src/core/unit.c and its siblings).
var (
	begins = map[string]bool{"Starting": true, "Mounting": true}
	ends   = map[string]bool{"Started": true, "Finished": true, "Mounted": true, "Reached target": true, "Listening on": true}
)

// timeline reads the pieces of a boot from the lines of its console: the kernel alone, stage1, systemd until it starts the first
// unit, and its services and mounts in the order of their begin. Sockets, targets and slices take no time, and of them only the
// targets have a piece.
func timeline(console string) []Span {
	var first, last float64
	units := map[string]*Span{}
	var order []*Span
	for line := range strings.Lines(console) {
		if m := stage1Line.FindStringSubmatch(line); m != nil {
			last = seconds(m[1])
			if first == 0 {
				first = last
			}
			continue
		}
		// Where others write at the same time, a line of the console has two messages.
		for _, m := range unitLine.FindAllStringSubmatch(line, -1) {
			at, word, name := seconds(m[1]), m[2], m[3]
			s := units[name]
			switch {
			case begins[word] && s == nil, ends[word] && s == nil && takesTime.MatchString(name):
				s = &Span{Name: name, Begin: at, End: at}
				units[name] = s
				order = append(order, s)
			case ends[word] && s != nil && s.End == s.Begin:
				// A service that is started again keeps its first end.
				s.End = at
			}
		}
	}
	var spans []Span
	if first > 0 {
		spans = append(spans, Span{"kernel", 0, first}, Span{"stage1", first, last})
	}
	slices.SortStableFunc(order, func(a, b *Span) int { return cmp.Compare(a.Begin, b.Begin) })
	if first > 0 && len(order) > 0 {
		// systemd itself: its generators run and its units are loaded before the first of them starts.
		spans = append(spans, Span{"systemd", last, order[0].Begin})
	}
	for _, s := range order {
		spans = append(spans, *s)
	}
	return spans
}

// seconds reads digits with a point, which the patterns have let through.
func seconds(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return v
}
