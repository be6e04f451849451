// Package tail tells which entry of a journal file of systemd was written last, by the head of the file (systemd,
// docs/JOURNAL_FILE_FORMAT.md, "Structure of the Header"). It reads no entries.
package tail

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Entry names an entry as its cursor does, with identifiers of 128 bits in hexadecimal.
type Entry struct {
	// Series is what Number counts in, Boot the start of the machine at which it was written.
	Series, Boot string
	Number       uint64
}

// ErrEmpty is the error of a journal file that has no entry yet.
var ErrEmpty = errors.New("it has no entry")

// Where fields stand in the head, in bytes.
const (
	magic      = "LPKSHHRH"
	bootAt     = 56
	seriesAt   = 72
	entriesAt  = 152
	numberAt   = 160
	headLength = numberAt + 8
)

// Read reads the head of a file. The file may be written meanwhile. An error is ErrEmpty, one of the disk, or that the
// file is no journal.
func Read(path string) (Entry, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	head := make([]byte, headLength)
	if _, err := io.ReadFull(f, head); err != nil {
		return Entry{}, fmt.Errorf("read the head of %s: %w", path, err)
	}
	return parse(head)
}

// parse reads a head of headLength.
func parse(head []byte) (Entry, error) {
	if string(head[:len(magic)]) != magic {
		return Entry{}, errors.New("it is not a journal file")
	}
	e := Entry{
		Series: hex.EncodeToString(head[seriesAt:][:16]), Boot: hex.EncodeToString(head[bootAt:][:16]),
		Number: binary.LittleEndian.Uint64(head[numberAt:]),
	}
	if binary.LittleEndian.Uint64(head[entriesAt:]) == 0 || e.Number == 0 {
		return Entry{}, ErrEmpty
	}
	return e, nil
}
