// Package bootoption makes and reads the boot options of UEFI firmware: EFI_LOAD_OPTION with the short path of a file
// on a partition (UEFI 2.10, sections 3.1.3, 10.3.5.1 and 10.3.5.4), and the variables Boot####, BootOrder and
// BootNext in efivarfs (section 3.3).
//
// It knows no other path than that of a file on a GPT partition, and leaves options with others as they are.
package bootoption

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"

	"spore/storage/gpt"
)

// Option starts a file from a partition.
type Option struct {
	// Description is what a person reads in the firmware's menu.
	Description string
	// Partition is the EFI partition: its number, place, size and GUID count. SectorSize is that of its disk, in bytes.
	Partition  gpt.Partition
	SectorSize int
	// File is its path on the partition, with slashes.
	File string
}

// Bounds of an option that is read, in bytes.
const (
	maxOption = 16 << 10
	driveSize = 42
)

// active has the firmware try an option of the boot order by itself (LOAD_OPTION_ACTIVE).
const active = 1

// ErrOther is the error for an option that starts something else than a file on a GPT partition.
var ErrOther = errors.New("the boot option does not start a file from a GPT partition")

// Encode is the option as firmware keeps it.
func (o Option) Encode() []byte {
	le := binary.LittleEndian
	drive := []byte{4, 1, driveSize, 0}
	drive = le.AppendUint32(drive, uint32(o.Partition.Number))
	drive = le.AppendUint64(drive, uint64(o.Partition.Start)/uint64(o.SectorSize))
	drive = le.AppendUint64(drive, uint64(o.Partition.Size)/uint64(o.SectorSize))
	drive = append(drive, o.Partition.GUID.OnDisk()...)
	drive = append(drive, 2, 2) // a GPT, named by the GUID of its partition
	name := text(strings.ReplaceAll(o.File, "/", `\`))
	file := le.AppendUint16([]byte{4, 4}, uint16(4+len(name)))
	path := append(append(append(drive, file...), name...), 0x7f, 0xff, 4, 0)
	option := le.AppendUint32(nil, active)
	option = le.AppendUint16(option, uint16(len(path)))
	return append(append(option, text(o.Description)...), path...)
}

// Parse reads an option, whose places are in units of sectors of the given size.
func Parse(b []byte, sectorSize int) (Option, error) {
	o := Option{SectorSize: sectorSize}
	le := binary.LittleEndian
	if len(b) < 6 || len(b) > maxOption || sectorSize < 1 {
		return Option{}, fmt.Errorf("a boot option of %d bytes", len(b))
	}
	size := int(le.Uint16(b[4:]))
	description, rest, ok := untext(b[6:])
	if !ok || size > len(rest) {
		return Option{}, errors.New("a boot option that is cut short")
	}
	o.Description = description
	path := rest[:size]
	if len(path) < driveSize+4 || !bytes.Equal(path[:4], []byte{4, 1, driveSize, 0}) || path[40] != 2 || path[41] != 2 {
		return Option{}, ErrOther
	}
	start, length := le.Uint64(path[8:]), le.Uint64(path[16:])
	if limit := uint64(1<<62) / uint64(sectorSize); start > limit || length > limit {
		return Option{}, fmt.Errorf("a boot option of a partition at sector %d with %d sectors", start, length)
	}
	o.Partition = gpt.Partition{
		Number: int(le.Uint32(path[4:])), GUID: gpt.FromDisk(path[24:40]),
		Start: int64(start) * int64(sectorSize), Size: int64(length) * int64(sectorSize),
	}
	file := path[driveSize:]
	size = int(le.Uint16(file[2:]))
	if file[0] != 4 || file[1] != 4 || size < 6 || size > len(file) {
		return Option{}, ErrOther
	}
	name, after, ok := untext(file[4:size])
	if !ok || len(after) > 0 || !bytes.Equal(file[size:], []byte{0x7f, 0xff, 4, 0}) {
		return Option{}, ErrOther
	}
	o.File = strings.ReplaceAll(name, `\`, "/")
	return o, nil
}

// is tells whether an option that the firmware keeps is this one. Firmware may write options anew, with data of its own
// behind the path; what they are called and what they start stays.
func (o Option) is(kept []byte) bool {
	p, err := Parse(kept, o.SectorSize)
	return err == nil && p.Description == o.Description && p.Partition.GUID == o.Partition.GUID && strings.EqualFold(p.File, o.File)
}

// text is UTF-16 with a zero at its end.
func text(s string) []byte {
	var out []byte
	for _, u := range append(utf16.Encode([]rune(s)), 0) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

// untext reads UTF-16 up to a zero, and returns what follows.
func untext(b []byte) (string, []byte, bool) {
	var units []uint16
	for ; len(b) >= 2; b = b[2:] {
		u := binary.LittleEndian.Uint16(b)
		if u == 0 {
			return string(utf16.Decode(units)), b[2:], true
		}
		units = append(units, u)
	}
	return "", nil, false
}
