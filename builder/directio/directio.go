// Package directio reads and writes what is large and used once, such as the root in an image, past the page cache (open(2),
// O_DIRECT). Such data costs no memory of the machine, pushes out nothing that is used again, and is not copied to and from
// the kernel. Where a filesystem has no O_DIRECT, and for ranges that are not aligned, all goes through the page cache, with
// the same result.
package directio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Align is what offset, length and memory must be multiples of, in bytes: no disk in use has larger sectors.
const Align = 4096

const (
	// copyPiece is how much Copy moves at once. It is memory that no processor touches, so it may be larger than its caches.
	copyPiece = 4 << 20
	// copiers is how many pieces are on their way: one is read while another is written.
	copiers = 2
)

// Buffer returns n bytes of aligned memory.
func Buffer(n int) []byte {
	b := make([]byte, n+Align)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & (Align - 1))
	return b[skip : skip+n : skip+n]
}

// A File is an open file that is read and written past the page cache where that can be done. It may be used from many
// goroutines at once, and beside the os.File it is made of.
type File struct {
	file    *os.File
	direct  descriptor  // the same file with O_DIRECT; nil where its filesystem has none
	refused atomic.Bool // some filesystems open a file so, and refuse to read or write it
}

type descriptor interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// New makes a File of an open one, which it does not close.
func New(f *os.File) *File {
	d := &File{file: f}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		// By its descriptor, as the name may be another file's by now, or no one's.
		name := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
		if direct, err := os.OpenFile(name, flags&unix.O_ACCMODE|unix.O_DIRECT, 0); err == nil {
			d.direct = direct
		}
	}
	return d
}

// Close gives back what New took.
func (d *File) Close() error {
	if d.direct == nil {
		return nil
	}
	return d.direct.Close()
}

// ReadAt implements io.ReaderAt.
func (d *File) ReadAt(b []byte, off int64) (int, error) {
	if d.past(b, off) {
		n, err := d.direct.ReadAt(b, off)
		if !errors.Is(err, unix.EINVAL) {
			return n, err
		}
		d.refused.Store(true)
	}
	return d.file.ReadAt(b, off)
}

// WriteAt implements io.WriterAt.
func (d *File) WriteAt(b []byte, off int64) (int, error) {
	if d.past(b, off) {
		n, err := d.direct.WriteAt(b, off)
		if !errors.Is(err, unix.EINVAL) {
			return n, err
		}
		d.refused.Store(true)
	}
	return d.file.WriteAt(b, off)
}

// past tells whether a range can go past the page cache.
func (d *File) past(b []byte, off int64) bool {
	return d.Direct() && len(b) > 0 && len(b)%Align == 0 && off%Align == 0 && uintptr(unsafe.Pointer(&b[0]))%Align == 0
}

// Direct tells whether the file goes past the page cache, as far as is known.
func (d *File) Direct() bool { return d.direct != nil && !d.refused.Load() }

// Reserve takes room on the disk for n bytes at an offset, so that a disk that is too small is known before they are made,
// and they lie together. A filesystem that cannot reserve is no error.
func Reserve(f *os.File, off, n int64) error {
	for n > 0 {
		switch err := unix.Fallocate(int(f.Fd()), 0, off, n); {
		case errors.Is(err, unix.EINTR):
		case err == nil, errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		default:
			return fmt.Errorf("reserve %d bytes in %s: %w", n, f.Name(), err)
		}
	}
	return nil
}

// Copy copies n bytes at an offset of src to an offset of dst. A source that is shorter is io.ErrUnexpectedEOF.
func Copy(ctx context.Context, dst *File, to int64, src *File, from, n int64) error {
	g, failed := errgroup.WithContext(ctx)
	buffers := make(chan []byte, copiers)
	for range copiers {
		buffers <- Buffer(int(min(n+Align, copyPiece)))
	}
	for done := int64(0); done < n && failed.Err() == nil; {
		buf := <-buffers
		piece := buf[:min(n-done, copyPiece)]
		if whole := len(piece) / Align * Align; whole > 0 {
			piece = piece[:whole] // what is left of the last block follows by itself, through the page cache
		}
		at := done
		done += int64(len(piece))
		g.Go(func() error {
			defer func() { buffers <- buf }()
			if n, err := src.ReadAt(piece, from+at); n < len(piece) {
				if errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
				return err
			}
			_, err := dst.WriteAt(piece, to+at)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}
