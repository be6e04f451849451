package send

import (
	"slices"
	"strconv"
	"strings"
)

// place is where an entry stands in the journals of a node, by its cursor (systemd, sd-journal.c,
// sd_journal_get_cursor).
type place struct {
	// id is the series of numbers that the entry has one of, boot the start of the machine at which it was written.
	id, boot string
	number   uint64
	// up is how long the machine had been up, in µs.
	up uint64
}

// maxID bounds the names in a cursor; they are 128 bits in hexadecimal.
const maxID = 32

// placeOf reads a cursor.
func placeOf(cursor string) (p place, ok bool) {
	for part := range strings.SplitSeq(cursor, ";") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "s":
			p.id = value
		case "b":
			p.boot = value
		case "i":
			if p.number, ok = hexadecimal(value); !ok {
				return place{}, false
			}
		case "m":
			if p.up, ok = hexadecimal(value); !ok {
				return place{}, false
			}
		}
	}
	if p.id == "" || p.boot == "" || p.number == 0 || len(p.id) > maxID || len(p.boot) > maxID {
		return place{}, false
	}
	return p, true
}

func hexadecimal(text string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 16, 64)
	return n, err == nil
}

// mark is the highest number of a series and a start. Both count: what the disk had not yet when the power was cut is
// gone from the journal, and its numbers are given again after the next start.
type mark struct {
	ID   string `json:"id"`
	Boot string `json:"boot"`
	Last uint64 `json:"last"`
}

// maxMarks bounds how many starts are known. Entries of others come again only where journal-upload has lost its place
// (package position); the store, which knows more starts, leaves them out.
const maxMarks = 16

// marks are how far one store has the journal, the latest first.
type marks []mark

func (m marks) find(p place) int {
	return slices.IndexFunc(m, func(k mark) bool { return k.ID == p.id && k.Boot == p.boot })
}

// has tells whether an entry was taken before.
func (m marks) has(p place) bool {
	i := m.find(p)
	return i >= 0 && p.number <= m[i].Last
}

// begins is how long after the start of the machine, in µs, the first entry that the journal has of it is written at
// the latest.
const begins = 10 * 60 * 1_000_000

// gap is how many entries are missing before one that was not taken before: they were removed from a full journal
// before they were read. Each start of the machine has a series of its own, of which the first number is not known:
// where its begin is missing, nobody knows how many there were, and it counts as one.
func (m marks) gap(p place) uint64 {
	for _, k := range m { // The latest first.
		if k.ID == p.id {
			if p.number <= k.Last { // After a power cut; see mark.
				return 0
			}
			return p.number - k.Last - 1
		}
	}
	if len(m) > 0 && p.up > begins {
		return 1
	}
	return 0
}

// with are the marks when an entry was taken; m stays as it is.
func (m marks) with(p place) marks {
	out := make(marks, 0, maxMarks)
	out = append(out, mark{p.id, p.boot, p.number})
	for _, k := range m {
		if len(out) < maxMarks && (k.ID != p.id || k.Boot != p.boot) {
			out = append(out, k)
		}
	}
	return out
}
