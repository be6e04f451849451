package journalexport

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrMalformed says that a stream is not in the format. Nothing behind that place can be read.
var ErrMalformed = errors.New("the stream is not in the Journal Export Format")

// A program chooses the names and values of its own fields, and their order in an entry is not fixed. What journald
// says about the program has a room of its own, so that no program can push it out of its entry.
const (
	clientFields  = 92
	trustedFields = 32
	ownFields     = MaxFields - clientFields - trustedFields

	clientBytes  = 192 << 10
	trustedBytes = 60 << 10
	ownBytes     = MaxEntry - clientBytes - trustedBytes
)

// maxRead bounds what is read of one entry, in bytes; journald takes none that is larger (ENTRY_SIZE_MAX).
const maxRead = 1 << 30

// maxInterned bounds how many names are kept from one entry to the next.
const maxInterned = 512

// Reader reads entries of a stream. It holds at most one entry of MaxEntry bytes.
type Reader struct {
	in *bufio.Reader
	// names saves a copy for each name of each entry.
	names map[string]string
	err   error

	fields []part
	values []byte
	rooms  [3]room
	// missing is in bytes. read is what the entry has had so far.
	missing, read uint64
}

// part is a field of the entry that is read; its value ends at end in values.
type part struct {
	name string
	end  int
}

// room is what one kind of field may still take.
type room struct{ fields, bytes int }

// NewReader reads entries from a stream.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 64<<10), names: map[string]string{}}
}

// Next returns the next entry; it belongs to the caller. The error is io.EOF behind the last one, io.ErrUnexpectedEOF
// where the stream ends in an entry, ErrMalformed, or that of the stream. After an error there is no entry any more.
func (r *Reader) Next() (Entry, error) {
	if r.err != nil {
		return nil, r.err
	}
	e, err := r.next()
	r.err = err
	return e, err
}

func (r *Reader) next() (Entry, error) {
	if err := r.skipEmptyLines(); err != nil {
		return nil, err
	}
	r.fields, r.values, r.missing, r.read = r.fields[:0], r.values[:0], 0, 0
	r.rooms = [3]room{{clientFields, clientBytes}, {trustedFields, trustedBytes}, {ownFields - 1, ownBytes}}
	for {
		more, err := r.field()
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if !more {
			return r.entry(), nil
		}
	}
}

func (r *Reader) skipEmptyLines() error {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return err
		}
		if c != '\n' {
			return r.in.UnreadByte()
		}
	}
}

// field reads one field; more is false at the empty line behind the entry.
func (r *Reader) field() (more bool, err error) {
	name, ended, err := r.name()
	if err != nil {
		return false, err
	}
	if name == "" && ended == '\n' {
		return false, nil
	}
	if ended == '=' {
		return true, r.text(name)
	}
	return true, r.binary(name)
}

// name reads up to the '=' or the end of the line. What could not be a name comes back as one that is not valid.
func (r *Reader) name() (name string, ended byte, err error) {
	var buf [MaxName + 1]byte
	n := 0
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return "", 0, err
		}
		if err := r.count(1); err != nil {
			return "", 0, err
		}
		if c == '\n' || c == '=' {
			return r.intern(buf[:n]), c, nil
		}
		if n < len(buf) {
			buf[n] = c
			n++
		} else {
			r.missing++
		}
	}
}

func (r *Reader) intern(name []byte) string {
	if known, ok := r.names[string(name)]; ok {
		return known
	}
	text := string(name)
	if len(r.names) < maxInterned {
		r.names[text] = text
	}
	return text
}

// count adds to what was read of the entry.
func (r *Reader) count(n uint64) error {
	if r.read += n; r.read > maxRead {
		return fmt.Errorf("%w: an entry has more than %d bytes", ErrMalformed, maxRead)
	}
	return nil
}

// text reads a value that ends with its line.
func (r *Reader) text(name string) error {
	keep := r.begin(name)
	for {
		chunk, err := r.in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if err := r.count(uint64(len(chunk))); err != nil {
			return err
		}
		done := err == nil
		r.keep(&keep, bytes.TrimSuffix(chunk, []byte("\n")))
		if done {
			r.end(name, keep)
			return nil
		}
	}
}

// binary reads a value that has its length before it: 64 bits, little endian.
func (r *Reader) binary(name string) error {
	var size [8]byte
	if _, err := io.ReadFull(r.in, size[:]); err != nil {
		return ended(err)
	}
	left := binary.LittleEndian.Uint64(size[:])
	if left > maxRead {
		return fmt.Errorf("%w: the field %.64q has %d bytes", ErrMalformed, name, left)
	}
	if err := r.count(left); err != nil {
		return err
	}
	keep := r.begin(name)
	for left > 0 {
		chunk, err := r.in.Peek(int(min(left, uint64(r.in.Size()))))
		if len(chunk) == 0 {
			return ended(err)
		}
		r.keep(&keep, chunk)
		left -= uint64(len(chunk))
		if _, err := r.in.Discard(len(chunk)); err != nil {
			return ended(err)
		}
	}
	c, err := r.in.ReadByte()
	if err != nil {
		return ended(err)
	}
	if c != '\n' {
		return fmt.Errorf("%w: no end of line follows the value of the field %.64q", ErrMalformed, name)
	}
	r.end(name, keep)
	return nil
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// keeping is a field whose value is read.
type keeping struct {
	room *room
	// left is how many bytes may still be kept; start is where the value begins.
	left, start int
	kept, cut   bool
}

// begin decides how much of a field is kept.
func (r *Reader) begin(name string) keeping {
	k := keeping{room: &r.rooms[kind(name)], start: len(r.values)}
	if !ValidName(name) || k.room.fields == 0 || k.room.bytes < len(name) {
		r.missing += uint64(len(name))
		return k
	}
	k.kept = true
	k.left = min(MaxValue, k.room.bytes-len(name))
	return k
}

// kind is the room that a field takes: 0 what a program wrote, 1 what journald says, 2 what Spore adds.
func kind(name string) int {
	switch {
	case strings.HasPrefix(name, Prefix):
		return 2
	case strings.HasPrefix(name, "_AUDIT_FIELD_"): // They are as many as a process has arguments.
		return 0
	case strings.HasPrefix(name, "_"):
		return 1
	}
	return 0
}

func (r *Reader) keep(k *keeping, chunk []byte) {
	n := min(len(chunk), k.left)
	r.values = append(r.values, chunk[:n]...)
	k.left -= n
	if n < len(chunk) {
		r.missing += uint64(len(chunk) - n)
		k.cut = true
	}
}

// end adds the field to the entry.
func (r *Reader) end(name string, k keeping) {
	if !k.kept {
		return
	}
	if k.cut {
		whole := wholeRunes(r.values[k.start:])
		r.missing += uint64(len(r.values) - k.start - whole)
		r.values = r.values[:k.start+whole]
	}
	k.room.fields--
	k.room.bytes -= len(name) + len(r.values) - k.start
	if name == Cut { // It was cut before, too; there is one sum.
		before, err := strconv.ParseUint(string(r.values[k.start:]), 10, 63)
		if err == nil {
			r.missing += before
		}
		r.values = r.values[:k.start]
		k.room.fields++
		return
	}
	r.fields = append(r.fields, part{name: name, end: len(r.values)})
}

// wholeRunes is the length of a value without the part of a character at its end.
func wholeRunes(value []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(value); back++ {
		at := len(value) - back
		if utf8.RuneStart(value[at]) {
			if !utf8.FullRune(value[at:]) {
				return at
			}
			break
		}
	}
	return len(value)
}

// entry copies what was read.
func (r *Reader) entry() Entry {
	out := make(Entry, 0, len(r.fields)+2) // One is for the cut, one for a field that the caller adds.
	values := bytes.Clone(r.values)
	start := 0
	for _, p := range r.fields {
		out = append(out, Field{Name: p.name, Value: values[start:p.end:p.end]})
		start = p.end
	}
	if r.missing > 0 {
		out = append(out, Field{Name: Cut, Value: strconv.AppendUint(nil, r.missing, 10)})
	}
	return out
}
