// Package powercut makes honest power cuts out of a log of a disk's writes. Killing a virtual machine leaves every write
// that it had completed in the host's memory; a real disk loses what it had not flushed.
//
// The log is the one of Linux's dm-log-writes (Documentation/admin-guide/device-mapper/log-writes.rst) as QEMU's
// blklogwrites driver writes it. Up to the last flush before the cut everything is replayed; of the later writes, pieces
// of 4 KiB are kept or dropped by a seed. Pieces are not torn: disks write a physical sector whole.
package powercut

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Constants of the format: drivers/md/dm-log-writes.c.
const (
	magic   = 0x6a736677736872
	version = 1

	flagFlush   = 1 << 0
	flagFUA     = 1 << 1
	flagDiscard = 1 << 2
	flagMark    = 1 << 3
)

// Bounds of what is accepted.
const (
	minSector  = 512
	maxSector  = 4096
	maxEntries = 1 << 24
)

// Entry is one request to the disk.
type Entry struct {
	// Offset and Length say what is written or discarded, in bytes.
	Offset, Length int64
	// Flush means that everything before is on the medium when the request is done.
	Flush bool
	// FUA means that the data of the request itself is on the medium when it is done.
	FUA bool
	// Discard means that the content of the range is of no use any more.
	Discard bool

	data int64 // where the data is in the log
}

// writes reports whether the request changes the disk.
func (e Entry) writes() bool { return e.Length > 0 && !e.Discard }

// Log is the record of all requests, in order.
type Log struct {
	Entries []Entry
	r       io.ReaderAt
}

// Read reads the log that r of the given size holds. r is needed again by Replay.
func Read(r io.ReaderAt, size int64) (*Log, error) {
	var super [28]byte
	if _, err := r.ReadAt(super[:], 0); err != nil {
		return nil, fmt.Errorf("write log: superblock: %w", err)
	}
	le := binary.LittleEndian
	if le.Uint64(super[0:]) != magic || le.Uint64(super[8:]) != version {
		return nil, errors.New("write log: no superblock of dm-log-writes, version 1")
	}
	count, sector := le.Uint64(super[16:]), int64(le.Uint32(super[24:]))
	if sector < minSector || sector > maxSector || sector&(sector-1) != 0 {
		return nil, fmt.Errorf("write log: sectors of %d bytes", sector)
	}
	if count > maxEntries {
		return nil, fmt.Errorf("write log: %d entries are more than %d", count, maxEntries)
	}
	l := &Log{r: r}
	for pos := sector; uint64(len(l.Entries)) < count; {
		e, next, err := readEntry(r, pos, sector, size)
		if err != nil {
			return nil, fmt.Errorf("write log: entry %d of %d: %w", len(l.Entries), count, err)
		}
		l.Entries = append(l.Entries, e)
		pos = next
	}
	return l, nil
}

// readEntry reads the entry at pos and says where the next one is.
func readEntry(r io.ReaderAt, pos, sector, size int64) (Entry, int64, error) {
	var raw [32]byte
	if _, err := r.ReadAt(raw[:], pos); err != nil {
		return Entry{}, 0, err
	}
	le := binary.LittleEndian
	start, count, flags, extra := le.Uint64(raw[0:]), le.Uint64(raw[8:]), le.Uint64(raw[16:]), le.Uint64(raw[24:])
	limit := uint64(1) << 62 / uint64(sector)
	if start > limit || count > limit-start {
		return Entry{}, 0, fmt.Errorf("%d sectors at %d: no disk is that large", count, start)
	}
	e := Entry{
		Offset: int64(start) * sector, Length: int64(count) * sector,
		Flush: flags&flagFlush != 0, FUA: flags&flagFUA != 0, Discard: flags&flagDiscard != 0, data: pos + sector,
	}
	next := e.data
	if count == 0 && flags == 0 {
		return Entry{}, 0, errors.New("it is empty: QEMU could not write it down, and what follows cannot be found")
	}
	switch {
	case flags&flagMark != 0:
		if extra > uint64(size) {
			return Entry{}, 0, fmt.Errorf("a mark of %d bytes", extra)
		}
		e.Length = 0
		next += (int64(extra) + sector - 1) / sector * sector
	case !e.Discard:
		if e.Length > size-e.data {
			return Entry{}, 0, errors.New("its data lies outside the log")
		}
		next += e.Length
	}
	if next > size {
		return Entry{}, 0, errors.New("it ends outside the log")
	}
	return e, next, nil
}

// Writes is the number of requests that change the disk.
func (l *Log) Writes() int {
	n := 0
	for _, e := range l.Entries {
		if e.writes() {
			n++
		}
	}
	return n
}
