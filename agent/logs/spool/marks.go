package spool

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mark is how far one source of lines has come.
type Mark struct {
	// Group is whose source it is, ID the source. Neither has a tab or a line's end.
	Group, ID string
	Value     uint64
}

// Bounds of what is remembered: groups, sources of one group, and bytes of a name.
const (
	maxGroups   = 1024
	MaxSources  = 256
	maxMarkName = 256
)

// marks are the highest values. Of each group those that changed last are remembered.
type marks struct {
	groups map[string]map[string]place
	turn   uint64
}

// place is a value, and when it changed last.
type place struct{ value, turn uint64 }

func (m *marks) get(group, id string) uint64 { return m.groups[group][id].value }

// put remembers a value, where it is higher, and forgets the oldest where there are too many.
func (m *marks) put(k Mark) {
	if m.groups == nil {
		m.groups = map[string]map[string]place{}
	}
	of := m.groups[k.Group]
	if of == nil {
		if len(m.groups) >= maxGroups {
			delete(m.groups, oldest(m.groups, func(of map[string]place) uint64 {
				last := uint64(0)
				for _, p := range of {
					last = max(last, p.turn)
				}
				return last
			}))
		}
		of = map[string]place{}
		m.groups[k.Group] = of
	}
	if _, known := of[k.ID]; !known && len(of) >= MaxSources {
		delete(of, oldest(of, func(p place) uint64 { return p.turn }))
	}
	m.turn++
	of[k.ID] = place{max(of[k.ID].value, k.Value), m.turn}
}

// oldest is the key that changed first.
func oldest[V any](of map[string]V, turn func(V) uint64) string {
	var key string
	least := ^uint64(0)
	for k, v := range of {
		if t := turn(v); t < least {
			key, least = k, t
		}
	}
	return key
}

// all are the marks as put takes them again, those that changed first before the others.
func (m *marks) all() []Mark {
	type dated struct {
		Mark
		turn uint64
	}
	var every []dated
	for group, of := range m.groups {
		for id, p := range of {
			every = append(every, dated{Mark{group, id, p.value}, p.turn})
		}
	}
	slices.SortFunc(every, func(a, b dated) int { return cmp.Compare(a.turn, b.turn) })
	out := make([]Mark, len(every))
	for i, d := range every {
		out[i] = d.Mark
	}
	return out
}

// checkMarks refuses names that would not be read again as they are.
func checkMarks(of []Mark) error {
	for _, m := range of {
		for _, name := range []string{m.Group, m.ID} {
			if len(name) > maxMarkName || strings.ContainsAny(name, "\t\n") {
				return fmt.Errorf("the name %.64q of a source is longer than %d bytes, or has a tab or a line's end",
					name, maxMarkName)
			}
		}
	}
	return nil
}

// appendMarks writes marks one a line: group, tab, source, tab, value.
func appendMarks(dst []byte, of []Mark) []byte {
	for _, m := range of {
		dst = append(append(append(append(dst, m.Group...), '\t'), m.ID...), '\t')
		dst = append(strconv.AppendUint(dst, m.Value, 10), '\n')
	}
	return dst
}

// parseMarks reads them; what is malformed is left out.
func parseMarks(data []byte) []Mark {
	var out []Mark
	for line := range bytes.Lines(data) {
		parts := bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
		if len(parts) != 3 {
			continue
		}
		value, err := strconv.ParseUint(string(parts[2]), 10, 64)
		if err == nil {
			out = append(out, Mark{string(parts[0]), string(parts[1]), value})
		}
	}
	return out
}
