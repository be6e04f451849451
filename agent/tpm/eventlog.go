package tpm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

// Numbers of the event log (TCG PC Client Platform Firmware Profile, sections 10.2 and 10.4).
const (
	noAction     = 0x3        // EV_NO_ACTION: not measured
	driverConfig = 0x80000001 // EV_EFI_VARIABLE_DRIVER_CONFIG
	firstHeader  = 32         // TCG_PCR_EVENT without its data
	maxEvents    = 4096
	maxDigests   = 16
	maxLog       = 16 << 20
	guidSize     = 16
)

// MaxLog bounds an event log, in bytes.
const MaxLog = maxLog

// signature begins the first event of a log with several banks.
var signature = []byte("Spec ID Event03\x00")

// securityDatabase is EFI_IMAGE_SECURITY_DATABASE_GUID as it is stored (UEFI 2.10, section 32.6.1).
var securityDatabase = []byte{0xcb, 0xb2, 0x19, 0xd7, 0x3a, 0x3d, 0x96, 0x45, 0xa3, 0xbc, 0xda, 0xd0, 0x0e, 0x67, 0x65, 0x6f}

// Event is one that was measured.
type Event struct {
	Register int
	Type     uint32
	Digest   Digest
	Data     []byte
}

// Log is what the firmware says that it measured, in order.
type Log []Event

// ParseLog reads a log as the firmware keeps it and the kernel shows it. Events without a SHA-256 are an error.
func ParseLog(data []byte) (Log, error) {
	log, err := parseLog(data)
	if err != nil {
		return nil, fmt.Errorf("read the firmware's event log: %w", err)
	}
	return log, nil
}

var errCut = errors.New("it is cut short")

func parseLog(data []byte) (Log, error) {
	le := binary.LittleEndian
	if len(data) > maxLog {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(data), maxLog)
	}
	if len(data) < firstHeader {
		return nil, errCut
	}
	size := uint64(le.Uint32(data[firstHeader-4:]))
	if le.Uint32(data[4:]) != noAction || size > uint64(len(data)-firstHeader) {
		return nil, errors.New("it does not begin with the list of its banks")
	}
	sizes, err := banks(data[firstHeader : firstHeader+size])
	if err != nil {
		return nil, err
	}
	var out Log
	for data = data[firstHeader+size:]; len(data) > 0; {
		if len(out) == maxEvents {
			return nil, fmt.Errorf("it has more than %d events", maxEvents)
		}
		var e Event
		if e, data, err = parseEvent(data, sizes); err != nil {
			return nil, fmt.Errorf("event %d: %w", len(out), err)
		}
		out = append(out, e)
	}
	return out, nil
}

// banks reads how long the digests are (TCG_EfiSpecIDEvent).
func banks(b []byte) (map[uint16]int, error) {
	const fixed = 28
	le := binary.LittleEndian
	if len(b) < fixed || !bytes.HasPrefix(b, signature) {
		return nil, errors.New("it does not begin with the list of its banks")
	}
	n := le.Uint32(b[fixed-4:])
	if n == 0 || n > maxDigests || len(b) < fixed+int(n)*4 {
		return nil, fmt.Errorf("it says of %d banks", n)
	}
	out := map[uint16]int{}
	for i := range int(n) {
		at := fixed + 4*i
		out[le.Uint16(b[at:])] = int(le.Uint16(b[at+2:]))
	}
	if out[algSHA256] != Size {
		return nil, errors.New("it has no bank of SHA-256")
	}
	return out, nil
}

// parseEvent reads a TCG_PCR_EVENT2.
func parseEvent(b []byte, sizes map[uint16]int) (Event, []byte, error) {
	le := binary.LittleEndian
	if len(b) < 12 {
		return Event{}, nil, errCut
	}
	e := Event{Register: int(le.Uint32(b)), Type: le.Uint32(b[4:])}
	n, found := le.Uint32(b[8:]), false
	if n > maxDigests {
		return Event{}, nil, fmt.Errorf("it has %d digests", n)
	}
	b = b[12:]
	for range n {
		if len(b) < 2 {
			return Event{}, nil, errCut
		}
		kind := le.Uint16(b)
		size, ok := sizes[kind]
		switch {
		case !ok:
			return Event{}, nil, fmt.Errorf("it has a digest of the unknown kind %#x", kind)
		case len(b) < 2+size:
			return Event{}, nil, errCut
		case kind == algSHA256:
			e.Digest, found = Digest(b[2:2+size]), true
		}
		b = b[2+size:]
	}
	if !found {
		return Event{}, nil, errors.New("it has no SHA-256")
	}
	if len(b) < 4 {
		return Event{}, nil, errCut
	}
	size := uint64(le.Uint32(b))
	if size > uint64(len(b)-4) {
		return Event{}, nil, errCut
	}
	e.Data = b[4 : 4+size]
	return e, b[4+size:], nil
}

// Value is what the events leave in a register.
func (l Log) Value(register int) Digest {
	var d Digest
	for _, e := range l {
		if e.Register == register && e.Type != noAction {
			d = d.Extend(e.Digest)
		}
	}
	return d
}

// kernelSection is the hash by which systemd's stub measures that a unified kernel image has a kernel: the name of its
// section with a zero at its end (systemd-stub(7), systemd, src/boot/measure.c).
var kernelSection = sha256.Sum256([]byte(".linux\x00"))

// Images counts the unified kernel images whose stub has measured itself into Image in this start. With more than one
// the register has a value that nobody signed: a stub that fails after it has measured returns to the boot loader, and
// something else was started then.
func (l Log) Images() (n int) {
	for _, e := range l {
		if e.Register == Image && e.Type != noAction && e.Digest == kernelSection {
			n++
		}
	}
	return n
}

// Database is the content of one of the firmware's lists of keys and hashes, db or dbx, as it was at the start.
func (l Log) Database(name string) ([]byte, error) {
	i, err := l.database(name)
	if err != nil {
		return nil, err
	}
	_, _, content, _ := variable(l[i].Data)
	return content, nil
}

// With is the log of a start that differs in nothing but the content of db or dbx.
func (l Log) With(name string, content []byte) (Log, error) {
	i, err := l.database(name)
	if err != nil {
		return nil, err
	}
	old := l[i]
	data := variableData(name, content)
	out := append(Log{}, l...)
	out[i] = Event{Register: old.Register, Type: old.Type, Digest: sha256.Sum256(data), Data: data}
	return out, nil
}

// database finds the one event that measured a list.
func (l Log) database(name string) (int, error) {
	found := -1
	for i, e := range l {
		if e.Register != Keys || e.Type != driverConfig {
			continue
		}
		vendor, of, _, ok := variable(e.Data)
		if !ok || of != name || !bytes.Equal(vendor, securityDatabase) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("the firmware's event log has two events of %s", name)
		}
		if e.Digest != sha256.Sum256(e.Data) {
			return 0, fmt.Errorf("the firmware measured %s in another way than its event log says", name)
		}
		found = i
	}
	if found < 0 {
		return 0, fmt.Errorf("the firmware's event log has no event of %s", name)
	}
	return found, nil
}

// variable takes a UEFI_VARIABLE_DATA apart.
func variable(b []byte) (vendor []byte, name string, content []byte, ok bool) {
	const fixed = guidSize + 16
	le := binary.LittleEndian
	if len(b) < fixed {
		return nil, "", nil, false
	}
	letters, size := le.Uint64(b[guidSize:]), le.Uint64(b[guidSize+8:])
	rest := uint64(len(b) - fixed)
	if letters > 64 || letters*2 > rest || size != rest-letters*2 {
		return nil, "", nil, false
	}
	var units []uint16
	for i := range letters {
		units = append(units, le.Uint16(b[fixed+2*i:]))
	}
	return b[:guidSize], string(utf16.Decode(units)), b[fixed+2*letters:], true
}

func variableData(name string, content []byte) []byte {
	le := binary.LittleEndian
	units := utf16.Encode([]rune(name))
	b := bytes.Clone(securityDatabase)
	b = le.AppendUint64(b, uint64(len(units)))
	b = le.AppendUint64(b, uint64(len(content)))
	for _, u := range units {
		b = le.AppendUint16(b, u)
	}
	return append(b, content...)
}
