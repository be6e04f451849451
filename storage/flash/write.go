package flash

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"io"

	"spore/storage/gpt"
)

const (
	// piece is how much is read at once, grain how much is compared and written at once: what flash erases at least.
	piece = 4 << 20
	grain = 128 << 10
	// flushEvery bounds what waits in the host's memory, so that progress is that of the medium.
	flushEvery = 64 << 20
)

// writer is one run.
type writer struct {
	ctx    context.Context
	dev    Device
	fresh  io.ReaderAt
	plan   target
	say    func(Progress)
	report Report
	// begun says that the device is no longer bootable.
	begun bool
	// sums are the sums of the pieces of the content, in order, as they were read from the source: it may be a drive that is
	// too slow to be read twice.
	sums      []uint64
	seed      maphash.Seed
	done      int64
	unflushed int64
}

func (w *writer) run() error {
	for _, e := range w.plan.layout.Extents {
		if err := w.write(e); err != nil {
			return err
		}
	}
	if !w.begun && w.plan.done && w.headIsThere() {
		return nil
	}
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.dev.Sync(); err != nil {
		return fmt.Errorf("flush the content: %w", err)
	}
	if err := w.verify(); err != nil {
		return err
	}
	return w.finish()
}

// write writes what differs of an extent. What lies in the head is left for the end.
func (w *writer) write(e Extent) error {
	source, there := make([]byte, piece), make([]byte, piece)
	for at := e.At; at < e.At+e.Size; {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		n := min(piece, e.At+e.Size-at)
		if at < head {
			n = min(n, head-at)
		}
		want := source[:n]
		if err := readFull(e.Content, want, at-e.At); err != nil {
			return fmt.Errorf("read the image: %w", err)
		}
		w.sums = append(w.sums, w.sum(want))
		if at >= head {
			if err := readFull(w.fresh, there[:n], at); err != nil {
				return fmt.Errorf("read the disk: %w", err)
			}
			if err := w.replace(want, there[:n], at); err != nil {
				return err
			}
		}
		at += n
		w.progress(Writing, n)
	}
	return nil
}

// replace writes the grains of a piece that differ, neighbours at once.
func (w *writer) replace(want, there []byte, at int64) error {
	for i := 0; i < len(want); {
		if bytes.Equal(grainOf(want, i), grainOf(there, i)) {
			i += grain
			continue
		}
		end := i
		for end < len(want) && !bytes.Equal(grainOf(want, end), grainOf(there, end)) {
			end += grain
		}
		end = min(end, len(want))
		if err := w.begin(); err != nil {
			return err
		}
		if _, err := w.dev.WriteAt(want[i:end], at+int64(i)); err != nil {
			return fmt.Errorf("write %d bytes at %d: %w", end-i, at+int64(i), err)
		}
		w.report.Written += int64(end - i)
		w.unflushed += int64(end - i)
		i = end
	}
	if w.unflushed < flushEvery {
		return nil
	}
	w.unflushed = 0
	if err := w.dev.Sync(); err != nil {
		return fmt.Errorf("flush the content: %w", err)
	}
	return nil
}

func grainOf(b []byte, i int) []byte { return b[i:min(i+grain, len(b))] }

// begin makes the device unbootable, once. The backup goes first: while the primary is being written, one of the two names
// the state. Boot code goes next, since it does not ask for the table.
func (w *writer) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	e := w.plan.without
	return w.each("take away the old partition table", []change{
		{e.BackupAt, e.Backup},
		{0, w.sectorOf(e.MBR)},
		{int64(w.dev.SectorSize()), e.Primary},
		{gpt.Reserved(w.dev.SectorSize()), make([]byte, head-gpt.Reserved(w.dev.SectorSize()))},
	})
}

// finish makes it bootable: what was verified is named by the table now.
func (w *writer) finish() error {
	e := w.plan.final
	var front []change
	for _, x := range w.plan.layout.Extents {
		if x.At >= head {
			break
		}
		data := make([]byte, min(x.Size, head-x.At))
		if err := readFull(x.Content, data, 0); err != nil {
			return fmt.Errorf("read the image: %w", err)
		}
		front = append(front, change{x.At, data})
	}
	all := append([]change{{e.BackupAt, e.Backup}}, front...)
	all = append(all, change{int64(w.dev.SectorSize()), e.Primary}, change{0, w.sectorOf(e.MBR)})
	if err := w.each("write the partition table", all); err != nil {
		return err
	}
	for _, c := range all {
		there := make([]byte, len(c.data))
		if err := readFull(w.fresh, there, c.at); err != nil {
			return fmt.Errorf("read back the partition table: %w", err)
		}
		if !bytes.Equal(there, c.data) {
			return fmt.Errorf("partition table: %d bytes at %d: %w", len(c.data), c.at, ErrDiffers)
		}
	}
	return nil
}

// change is something that is written in front or behind of the content.
type change struct {
	at   int64
	data []byte
}

// each writes changes in their order, and flushes each before the next.
func (w *writer) each(what string, list []change) error {
	for _, c := range list {
		if _, err := w.dev.WriteAt(c.data, c.at); err != nil {
			return fmt.Errorf("%s: write %d bytes at %d: %w", what, len(c.data), c.at, err)
		}
		if err := w.dev.Sync(); err != nil {
			return fmt.Errorf("%s: flush: %w", what, err)
		}
	}
	return nil
}

// sectorOf is the MBR as the whole first sector.
func (w *writer) sectorOf(mbr []byte) []byte {
	return append(bytes.Clone(mbr), make([]byte, w.dev.SectorSize()-len(mbr))...)
}

// headIsThere compares what an ISO image has in the head.
func (w *writer) headIsThere() bool {
	for _, x := range w.plan.layout.Extents {
		if x.At >= head {
			break
		}
		want := make([]byte, min(x.Size, head-x.At))
		there := make([]byte, len(want))
		if readFull(x.Content, want, 0) != nil || readFull(w.fresh, there, x.At) != nil || !bytes.Equal(want, there) {
			return false
		}
	}
	return true
}

// verify reads everything back from the medium.
func (w *writer) verify() error {
	w.done = 0
	there, i := make([]byte, piece), 0
	for _, e := range w.plan.layout.Extents {
		for at := e.At; at < e.At+e.Size; i++ {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			n := min(piece, e.At+e.Size-at)
			if at < head {
				n = min(n, head-at)
				at += n
				continue // It is written, and read back, at the end.
			}
			if err := readFull(w.fresh, there[:n], at); err != nil {
				return fmt.Errorf("read back: %w", err)
			}
			if w.sum(there[:n]) != w.sums[i] {
				return fmt.Errorf("%d bytes at %d: %w", n, at, ErrDiffers)
			}
			at += n
			w.progress(Verifying, n)
		}
	}
	return nil
}

// sum is a hash of 64 bits by a seed of this run: it finds what a medium does by accident. SHA-256 takes more than ten times
// as long where a processor has no instructions for it, and was most of what an installation cost it. At each start stage1 and
// the kernel hold the root and the cluster part to their root hashes. Zeros, which most of an ESP is, need no sum.
func (w *writer) sum(b []byte) uint64 {
	if isZero(b) {
		return 0
	}
	return maphash.Bytes(w.seed, b)
}

func (w *writer) progress(phase string, n int64) {
	w.done += n
	if w.say != nil {
		w.say(Progress{phase, w.done, w.plan.content, w.report.Written})
	}
}

// readFull reads all of b.
func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%d bytes at %d: %w", len(b), at, err)
}
