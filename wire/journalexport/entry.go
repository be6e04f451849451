// Package journalexport reads and writes entries in the Journal Export Format of systemd
// (docs/JOURNAL_EXPORT_FORMATS.md), which systemd-journal-upload sends and the stores of logs take. It bounds what one
// entry may have, and cuts what is longer. It leaves out what fields mean.
package journalexport

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// ContentType is the media type of entries in this format.
const ContentType = "application/vnd.fdo.journal"

// Bounds of an entry. MaxEntry is in bytes of names and values.
const (
	MaxName   = 64 // systemd.journal-fields(7)
	MaxValue  = 64 << 10
	MaxFields = 128
	MaxEntry  = 256 << 10
)

// Prefix begins the names of the fields that Spore adds. A program cannot write such a field into the journal: journald
// takes no field of a client that begins with an underscore.
const Prefix = "_SPORE_"

// Cut is the field with the count of bytes that are missing in an entry: of values, and of whole fields.
const Cut = Prefix + "CUT"

// Field is one field of an entry. The value is any bytes.
type Field struct {
	Name  string
	Value []byte
}

// Entry is one entry of a journal. A name may appear several times.
type Entry []Field

// Get returns the first value of a field, and whether there is one.
func (e Entry) Get(name string) (string, bool) {
	for _, f := range e {
		if f.Name == name {
			return string(f.Value), true
		}
	}
	return "", false
}

// Without is the entry without the fields of which drop tells so. It changes e.
func (e Entry) Without(drop func(name string) bool) Entry {
	return slices.DeleteFunc(e, func(f Field) bool { return drop(f.Name) })
}

// ValidName tells whether journald would take a name: capital letters, digits and underscores, no digit first.
func ValidName(name string) bool {
	if name == "" || len(name) > MaxName || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Append writes an entry and the empty line behind it. A field whose name is not valid is left out: it could be read as
// something else.
func Append(dst []byte, e Entry) []byte {
	for _, f := range e {
		if !ValidName(f.Name) {
			continue
		}
		dst = append(dst, f.Name...)
		if isText(f.Value) {
			dst = append(dst, '=')
		} else {
			dst = append(dst, '\n')
			dst = binary.LittleEndian.AppendUint64(dst, uint64(len(f.Value)))
		}
		dst = append(dst, f.Value...)
		dst = append(dst, '\n')
	}
	return append(dst, '\n')
}

// isText tells whether a value may stand behind "NAME=": UTF-8 without control characters other than the tabulator.
func isText(value []byte) bool {
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(value)
}
