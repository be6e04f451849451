// Package iso9660 reads small files from the root directory of an ISO 9660 volume (ECMA-119), with their long names by
// Rock Ridge (IEEE P1282 over SUSP, IEEE P1281) or Joliet, and the volume's label.
//
// What it reads is outside data: every length is checked before it is believed, and no pointer is followed more often
// than a fixed number of times. It leaves out folders below the root, files in several extents, interleaved files,
// symbolic links and compression (zisofs), and writes nothing.
package iso9660

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf16"
)

// Sizes of the volume descriptors (ECMA-119, sections 6.2 and 8).
const (
	sector           = 2048
	firstDescriptor  = 16
	primary          = 1
	supplementary    = 2
	terminator       = 255
	recordHeader     = 33
	rootRecord       = 34
	rootRecordOffset = 156
)

// Bounds on what is read.
const (
	maxDescriptors   = 32
	maxRoot          = 1 << 20
	maxFiles         = 4096
	maxContinuations = 8
	maxName          = 255
)

// Flags of a directory record (ECMA-119, section 9.1.6).
const (
	flagDirectory   = 0x02
	flagAssociated  = 0x04
	flagMultiExtent = 0x80
)

// ErrUnsound is in the error for what is no ISO 9660 volume, or a damaged one.
var ErrUnsound = errors.New("not a sound ISO 9660 volume")

// Volume is a volume that is read.
type Volume struct {
	r     io.ReaderAt
	size  int64
	label string
	files []file
}

// file is one of the root directory.
type file struct {
	name        string
	start, size int64
	// problem says why its content cannot be read; empty where it can.
	problem string
}

// descriptor is a volume descriptor that has a root directory.
type descriptor struct {
	label string
	block int64
	root  record
}

// record is a directory record, with its offset in bytes.
type record struct {
	start, size int64
	flags       byte
	interleaved bool
	id, system  []byte
}

// Open reads the descriptors and the root directory of a volume in size bytes.
func Open(r io.ReaderAt, size int64) (*Volume, error) {
	v := &Volume{r: r, size: size}
	main, joliet, err := v.descriptors()
	if err != nil {
		return nil, err
	}
	v.label = main.label
	long, err := v.list(main)
	if err != nil {
		return nil, err
	}
	if !long && joliet != nil {
		// Rock Ridge is taken first, as Linux does; its names are those of the files that were put in.
		if joliet.label != "" && v.label == "" {
			v.label = joliet.label
		}
		return v, v.listJoliet(*joliet)
	}
	return v, nil
}

// Label is the name of a volume in size bytes that may be damaged behind its descriptors; empty where these have none.
func Label(r io.ReaderAt, size int64) string {
	b := make([]byte, sector)
	const at = firstDescriptor * sector
	if _, err := r.ReadAt(b, at); at > size-sector || err != nil || b[0] != primary || string(b[1:6]) != "CD001" {
		return ""
	}
	return primaryLabel(b)
}

// primaryLabel is the name in a primary descriptor.
func primaryLabel(b []byte) string { return strings.TrimRight(string(b[40:72]), " \x00") }

// Label is the name of the volume, without the blanks at its end.
func (v *Volume) Label() string { return v.label }

// Names are those of the files of the root directory, in the volume's order.
func (v *Volume) Names() []string {
	var out []string
	for _, f := range v.files {
		out = append(out, f.name)
	}
	return out
}

// ReadFile reads a file of the root directory by its name, in which capitals and small letters are the same. A file that
// is not there is fs.ErrNotExist; one of more than limit bytes is an error.
func (v *Volume) ReadFile(name string, limit int64) ([]byte, error) {
	for _, f := range v.files {
		if !strings.EqualFold(f.name, name) {
			continue
		}
		switch {
		case f.problem != "":
			return nil, fmt.Errorf("%s: %s", name, f.problem)
		case f.size > limit:
			return nil, fmt.Errorf("%s has %d bytes, more than %d", name, f.size, limit)
		case f.size == 0:
			return nil, nil // Its place may be anything.
		case f.start > v.size-f.size:
			return nil, fmt.Errorf("%s: %w: it lies behind the end", name, ErrUnsound)
		}
		data := make([]byte, f.size)
		if _, err := v.r.ReadAt(data, f.start); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		return data, nil
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

// descriptors finds the primary descriptor and that of Joliet, if there is one.
func (v *Volume) descriptors() (main descriptor, joliet *descriptor, err error) {
	found := false
	b := make([]byte, sector)
	for i := range int64(maxDescriptors) {
		at := (firstDescriptor + i) * sector
		if at > v.size-sector {
			break
		}
		if _, err := v.r.ReadAt(b, at); err != nil {
			return main, nil, fmt.Errorf("read a volume descriptor: %w", err)
		}
		if string(b[1:6]) != "CD001" || b[0] == terminator {
			break
		}
		switch {
		case b[0] == primary && !found:
			found = true
			main, err = v.descriptor(b)
			main.label = primaryLabel(b)
		case b[0] == supplementary && joliet == nil && isJoliet(b[88:120]):
			var d descriptor
			d, err = v.descriptor(b)
			d.label = strings.TrimRight(ucs2(b[40:72]), " \x00")
			joliet = &d
		}
		if err != nil {
			return main, nil, err
		}
	}
	if !found {
		return main, nil, fmt.Errorf("%w: it has no primary volume descriptor", ErrUnsound)
	}
	return main, joliet, nil
}

func (v *Volume) descriptor(b []byte) (d descriptor, err error) {
	d.block = int64(binary.LittleEndian.Uint16(b[128:]))
	if d.block != 512 && d.block != 1024 && d.block != sector {
		return d, fmt.Errorf("%w: it has blocks of %d bytes", ErrUnsound, d.block)
	}
	var ok bool
	if d.root, ok = parse(b[rootRecordOffset:rootRecordOffset+rootRecord], d.block); !ok {
		return d, fmt.Errorf("%w: its root directory has no record", ErrUnsound)
	}
	switch {
	case d.root.size > maxRoot:
		return d, fmt.Errorf("%w: its root directory has %d bytes, more than %d", ErrUnsound, d.root.size, maxRoot)
	case d.root.start > v.size-d.root.size:
		return d, fmt.Errorf("%w: its root directory lies behind the end", ErrUnsound)
	}
	return d, nil
}

// isJoliet tells whether escape sequences are those of one of Joliet's three levels.
func isJoliet(escapes []byte) bool {
	for _, level := range []string{"%/@", "%/C", "%/E"} {
		if bytes.HasPrefix(escapes, []byte(level)) {
			return true
		}
	}
	return false
}

// parse reads a directory record; ok is false for one whose lengths do not fit.
func parse(b []byte, block int64) (rec record, ok bool) {
	if len(b) < rootRecord || int(b[0]) < rootRecord || int(b[0]) > len(b) {
		return rec, false
	}
	b = b[:b[0]]
	end := recordHeader + int(b[32])
	if b[32] == 0 || end > len(b) {
		return rec, false
	}
	le := binary.LittleEndian
	rec = record{
		// An extended attribute record, of b[1] blocks, lies before the content.
		start: (int64(le.Uint32(b[2:])) + int64(b[1])) * block, size: int64(le.Uint32(b[10:])),
		flags: b[25], interleaved: b[26] != 0 || b[27] != 0, id: b[recordHeader:end],
	}
	// A byte fills up to an even length; what follows is for system use.
	if rec.system = b[end:]; b[32]%2 == 0 && len(rec.system) > 0 {
		rec.system = rec.system[1:]
	}
	return rec, true
}

// records reads the records of a root directory.
func (v *Volume) records(d descriptor) ([]record, error) {
	data := make([]byte, d.root.size)
	if _, err := v.r.ReadAt(data, d.root.start); err != nil {
		return nil, fmt.Errorf("read the root directory: %w", err)
	}
	var out []record
	// A record lies in one sector; a length of 0 says that the rest of the sector is empty.
	for len(data) > 0 {
		part := data[:min(sector, len(data))]
		data = data[len(part):]
		for len(part) > 0 && part[0] != 0 {
			rec, ok := parse(part, d.block)
			if !ok {
				return nil, fmt.Errorf("%w: a record of its root directory has wrong lengths", ErrUnsound)
			}
			part = part[part[0]:]
			if out = append(out, rec); len(out) > maxFiles {
				return nil, fmt.Errorf("%w: its root directory has more than %d entries", ErrUnsound, maxFiles)
			}
		}
	}
	return out, nil
}

// itself tells whether a record is that of the directory or of the one above.
func (r record) itself() bool { return len(r.id) == 1 && r.id[0] <= 1 }

// list lists the files by the primary descriptor. long tells whether the names are Rock Ridge's.
func (v *Volume) list(d descriptor) (long bool, err error) {
	records, err := v.records(d)
	if err != nil {
		return false, err
	}
	skip, ridge := 0, false
	for i, rec := range records {
		if i == 0 && rec.itself() {
			skip, ridge = sharing(rec.system)
			continue
		}
		name, problem := plain(rec.id), ""
		if ridge {
			n, p, err := v.ridge(rec.system, skip, d.block)
			if err != nil {
				return false, err
			}
			if n != "" {
				name, long = n, true
			}
			problem = p
		}
		v.add(rec, name, problem)
	}
	return long, nil
}

// listJoliet lists the files by the descriptor of Joliet in place of those found before.
func (v *Volume) listJoliet(d descriptor) error {
	records, err := v.records(d)
	if err != nil {
		return err
	}
	v.files = nil
	for _, rec := range records {
		name, _, _ := strings.Cut(ucs2(rec.id), ";")
		v.add(rec, name, "")
	}
	return nil
}

func (v *Volume) add(rec record, name, problem string) {
	switch {
	case rec.itself() || rec.flags&(flagDirectory|flagAssociated) != 0:
		return
	case rec.flags&flagMultiExtent != 0:
		problem = "it lies in several extents, which is not read"
	case rec.interleaved:
		problem = "it is interleaved, which is not read"
	}
	v.files = append(v.files, file{name: name, start: rec.start, size: rec.size, problem: problem})
}

// plain is a name without Rock Ridge and Joliet, such as META_DAT.;1, without its version and the dot of no extension.
func plain(id []byte) string {
	name, _, _ := strings.Cut(string(id), ";")
	return strings.TrimSuffix(name, ".")
}

func ucs2(b []byte) string {
	var out []uint16
	for i := 0; i+1 < len(b); i += 2 {
		out = append(out, binary.BigEndian.Uint16(b[i:]))
	}
	return string(utf16.Decode(out))
}

// sharing looks for the entry SP in the system use of the root's own record: it begins the fields of SUSP, and says how
// many bytes before them are others' (IEEE P1281, section 5.3).
func sharing(system []byte) (skip int, ok bool) {
	if len(system) < 7 || string(system[:2]) != "SP" || system[2] != 7 || system[4] != 0xbe || system[5] != 0xef {
		return 0, false
	}
	return int(system[6]), true
}

// ridge reads the name that Rock Ridge gives a file, and why its content cannot be read.
func (v *Volume) ridge(system []byte, skip int, block int64) (name, problem string, err error) {
	if skip > len(system) {
		return "", "", nil
	}
	area := system[skip:]
	more := true
	for range maxContinuations {
		// An area has one continuation. Of several, one is read: others would only be there to cost time.
		var goesOn []byte
		for len(area) >= 4 && int(area[2]) >= 4 && int(area[2]) <= len(area) {
			e := area[:area[2]]
			area = area[len(e):]
			switch string(e[:2]) {
			case "NM":
				// Its flags: 1 says that the name goes on in the next, others that it is no name (IEEE P1282, section 4.1.4).
				if len(e) < 5 || !more || e[4]&^1 != 0 {
					continue
				}
				if name += string(e[5:]); len(name) > maxName {
					return "", "", fmt.Errorf("%w: a name has more than %d bytes", ErrUnsound, maxName)
				}
				more = e[4]&1 != 0
			case "ZF":
				problem = "it is compressed, which is not read"
			case "SL":
				problem = "it is a symbolic link, which is not followed"
			case "CE":
				goesOn = e
			case "ST":
				area = nil
			}
		}
		if goesOn == nil {
			return name, problem, nil
		}
		if area, err = v.continuation(goesOn, block); err != nil {
			return "", "", err
		}
	}
	return "", "", fmt.Errorf("%w: the name of a file goes on in more than %d places", ErrUnsound, maxContinuations)
}

// continuation reads where the fields of a file go on (IEEE P1281, section 5.1).
func (v *Volume) continuation(e []byte, block int64) ([]byte, error) {
	if len(e) != 28 {
		return nil, fmt.Errorf("%w: a continuation has %d bytes", ErrUnsound, len(e))
	}
	le := binary.LittleEndian
	in, size := int64(le.Uint32(e[12:])), int64(le.Uint32(e[20:]))
	at := int64(le.Uint32(e[4:]))*block + in
	if in > sector || size > sector || at > v.size-size {
		return nil, fmt.Errorf("%w: a continuation lies outside of it", ErrUnsound)
	}
	out := make([]byte, size)
	if _, err := v.r.ReadAt(out, at); err != nil {
		return nil, fmt.Errorf("read a continuation of the root directory: %w", err)
	}
	return out, nil
}
