// Package file gives entries to a file on the store's disk: the lines of the queue, JSON, one after the other. The file
// begins anew when it has half of its bound; the one before stays under the same name with .1 behind it.
//
// Lines are on the disk before the queue is past them. What a power cut left of a line is cut off, and lines that are
// there already when the queue gives them again are not written twice.
package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spore/agent/logs/give/parcel"
	"spore/storage/atomicfile"
)

const (
	mode = 0o640
	// maxAgain is how much at the end of a file may come again after a start: what it was given within the second after
	// which the queue keeps a position, and more.
	maxAgain = 32 << 20
	// maxWrite is how much is written before it is synced.
	maxWrite = 4 << 20
)

// Receiver is one file. It is opened at the first entries, and after each error.
type Receiver struct {
	path        string
	half, floor int64
	free        func(dir string) (int64, error)

	file *os.File
	// size is how long it is, all of it synced.
	size int64
	// there are sums of lines that may come again after a start; nil when none did.
	there map[uint64]bool
	seed  maphash.Seed
}

// New makes a receiver that writes to dir/name.log, and the file before; both have at most that many bytes together.
// Where less than floor, in bytes, would stay free on the disk, it takes nothing: the store needs the rest.
func New(dir, name string, bytes, floor int64) *Receiver {
	return &Receiver{path: filepath.Join(dir, name+".log"), half: max(bytes/2, 1), floor: floor, free: freeSpace}
}

// freeSpace is how many bytes the disk of a folder has for this program.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// Give writes entries, and syncs them. A line with more than half of the bound is refused.
func (r *Receiver) Give(ctx context.Context, entries []parcel.Entry) (parcel.Outcome, error) {
	out := parcel.Outcome{Left: entries}
	if r.file == nil {
		if err := r.open(); err != nil {
			return out, fmt.Errorf("open the file of logs: %w", err)
		}
	}
	again := 0
	for len(out.Left) > 0 {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		n, refused, known, data := r.next(out.Left)
		if err := r.write(data); err != nil {
			r.close()
			return out, fmt.Errorf("write the file of logs: %w", err)
		}
		if out.Refused += refused; refused > 0 {
			out.Why = "the line is longer than half of the file"
		}
		out.Left, again = out.Left[n:], again+known
	}
	if again == 0 {
		r.there = nil // The queue has come to what is new.
	}
	return out, nil
}

// next is how many entries are written at once, how many of them are refused or are there already, and the lines of the
// others.
func (r *Receiver) next(entries []parcel.Entry) (n, refused, known int, data []byte) {
	room := r.half - r.size
	for _, e := range entries {
		size := int64(len(e.Line)) + 1
		switch {
		case r.there != nil && r.there[maphash.String(r.seed, e.Line)]:
			known++
		case size > r.half:
			refused++
		case n > 0 && (int64(len(data))+size > room || len(data) > maxWrite):
			return n, refused, known, data
		default:
			data = append(append(data, e.Line...), '\n')
		}
		n++
	}
	return n, refused, known, data
}

// write appends lines, to a new file where they do not fit.
func (r *Receiver) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if r.size > 0 && r.size+int64(len(data)) > r.half {
		if err := r.rotate(); err != nil {
			return err
		}
	}
	free, err := r.free(filepath.Dir(r.path))
	if err != nil {
		return fmt.Errorf("see how full the disk is: %w", err)
	}
	if free-int64(len(data)) < r.floor {
		return fmt.Errorf("the disk has %d bytes free, and %d stay so; give the file a smaller size, or make room",
			free, r.floor)
	}
	_, err = r.file.WriteAt(data, r.size)
	if err == nil {
		err = r.file.Sync()
	}
	if err != nil {
		// What is there of it goes: nobody reads half a line, and what did not reach the disk does not count as
		// written.
		return errors.Join(err, r.file.Truncate(r.size))
	}
	r.size += int64(len(data))
	return nil
}

func (r *Receiver) rotate() error {
	r.close()
	if err := os.Rename(r.path, r.path+".1"); err != nil {
		return err
	}
	return r.create()
}

func (r *Receiver) close() {
	if r.file != nil {
		_ = r.file.Close() // It is synced, or written again.
		r.file = nil
	}
}

// create opens the file, and makes its name last.
func (r *Receiver) create() error {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", r.path)
	}
	if err == nil {
		err = errors.Join(f.Chmod(mode), atomicfile.SyncDir(filepath.Dir(r.path)))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.size = f, info.Size()
	return nil
}

// open opens the file, cuts off what is not a whole line, and remembers which lines may come again.
func (r *Receiver) open() error {
	dir := filepath.Dir(r.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(filepath.Dir(dir)); err != nil { // It may be new.
		return err
	}
	if err := r.create(); err != nil {
		return err
	}
	if err := r.repair(); err != nil {
		r.close()
		return err
	}
	return nil
}

func (r *Receiver) repair() error {
	r.seed, r.there = maphash.MakeSeed(), map[uint64]bool{}
	whole, err := r.remember(r.file, r.size, maxAgain)
	if err != nil {
		return err
	}
	if whole < r.size {
		if err := errors.Join(r.file.Truncate(whole), r.file.Sync()); err != nil {
			return fmt.Errorf("cut off the line that is not whole: %w", err)
		}
	}
	r.size = whole
	if whole < maxAgain { // What comes again may have begun in the file before.
		return r.before(maxAgain - whole)
	}
	return nil
}

// before remembers lines at the end of the file before.
func (r *Receiver) before(most int64) error {
	f, err := os.OpenFile(r.path+".1", os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	_, err = r.remember(f, info.Size(), most)
	return err
}

// remember keeps the sums of whole lines at the end of a file, and returns where the last of them ends.
func (r *Receiver) remember(f io.ReaderAt, size, most int64) (whole int64, err error) {
	start := max(size-most, 0)
	part := bufio.NewReaderSize(io.NewSectionReader(f, start, size-start), 64<<10)
	whole = start
	var sum maphash.Hash
	sum.SetSeed(r.seed)
	for length := int64(0); ; {
		line, err := part.ReadSlice('\n')
		length += int64(len(line))
		switch {
		case err == nil:
			_, _ = sum.Write(line[:len(line)-1]) // It never fails.
			r.there[sum.Sum64()] = true
			whole, length = whole+length, 0
			sum.Reset()
		case errors.Is(err, bufio.ErrBufferFull):
			_, _ = sum.Write(line)
		case errors.Is(err, io.EOF):
			return whole, nil
		default:
			return 0, err
		}
	}
}
