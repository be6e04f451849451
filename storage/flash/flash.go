// Package flash writes a bootable medium: the partitions of an image, or of the medium that a machine was started from, onto a
// disk or a file.
//
// Whatever cuts it off, the disk is either what it was, or not bootable, or whole:
//
//  1. What differs is found by reading. As long as nothing does, nothing is written.
//  2. Before the first change both copies of the partition table are replaced by one that names only the state partition that
//     is kept (the backup first), and the boot code in front is cleared. From here on nothing boots from the disk, and the next
//     run knows what to keep.
//  3. The content is written, flushed, and all of it is read back from the disk itself and compared.
//  4. Only then the table is written that makes it bootable: the backup, what lies in front of the first partition, the primary,
//     and the first sector, each flushed before the next.
//
// It formats nothing and makes no state partition: that is done on the machine.
package flash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"spore/storage/gpt"
)

// Device is what is written to.
type Device interface {
	io.ReaderAt
	io.WriterAt
	// Sync returns once what was written would survive a loss of power.
	Sync() error
	// Size is in bytes, SectorSize that of the logical sectors.
	Size() int64
	SectorSize() int
	// Fresh reads what is on the medium, past the host's memory. The note says why that is not possible, if it is not.
	Fresh() (r io.ReaderAt, note string)
}

// Options say how a medium is written.
type Options struct {
	// Layout is what the disk is to hold.
	Layout Layout
	// EraseState gives up a state partition that is there. Whoever asks for it has named the disk by its serial number.
	EraseState bool
	// Progress, when not nil, is told how far it is, some times a second at most.
	Progress func(Progress)
}

// Phases of writing.
const (
	Writing   = "writing"
	Verifying = "verifying"
)

// Progress is how far it is.
type Progress struct {
	// Phase is Writing or Verifying.
	Phase string
	// Done and Total are the bytes looked at in this phase, Written those that differed.
	Done, Total, Written int64
}

// Report says what was done. Sizes are in bytes.
type Report struct {
	// Content is what the layout holds, Written what of it was not on the disk already.
	Content int64 `json:"content"`
	Written int64 `json:"written"`
	// Kept are the partitions that were kept.
	Kept []gpt.Partition `json:"-"`
	// Note says how the medium was read back where that was not past the host's memory.
	Note string `json:"note,omitempty"`
}

// ErrDiffers is in the error for a medium that does not hold what was written to it.
var ErrDiffers = errors.New("the medium returns other data than was written; it is worn out, or smaller than it claims: use another one")

// Write writes the layout to the device. It can be cut off at any point and run again. Content of the layout that is there
// already is not written.
func Write(ctx context.Context, dev Device, o Options) (Report, error) {
	t, err := plan(dev, o)
	if err != nil {
		return Report{}, err
	}
	fresh, note := dev.Fresh()
	w := &writer{
		ctx: ctx, dev: dev, fresh: fresh, plan: t, say: o.Progress, seed: maphash.MakeSeed(),
		report: Report{Content: t.content, Kept: t.kept, Note: note},
	}
	if err := w.run(); err != nil {
		return w.report, err
	}
	return w.report, nil
}

// Check tells whether the layout could be written to the device, and what of it would be kept. It writes nothing.
func Check(dev Device, o Options) (kept []gpt.Partition, err error) {
	p, err := plan(dev, o)
	if err != nil {
		return nil, err
	}
	return p.kept, nil
}

// Holds tells whether the device has the partitions of the layout, each in its place and with its GUID. Those have the hashes
// of what they hold, but nothing of it is read.
func Holds(dev Device, l Layout) bool {
	t, err := gpt.Read(dev, dev.Size(), dev.SectorSize())
	if err != nil || t.Backup {
		return false
	}
	for _, want := range l.Table.Partitions {
		p, ok := t.ByGUID(want.GUID)
		if !ok || p.Type != want.Type || p.Start != want.Start || p.Size != want.Size {
			return false
		}
	}
	return true
}

// isZero tells whether there is nothing but zeros. (A comparison of arrays would copy the bytes first.)
func isZero(b []byte) bool {
	for len(b) >= len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

var zeros [4096]byte

// mib formats bytes for messages.
func mib(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }
