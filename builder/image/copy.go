package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"spore/builder/directio"
)

// minDirect is the least that goes past the page cache, in bytes: less of it is not worth the wait for the disk.
const minDirect = 4 * mib

// Source is a range of bytes in a file.
type Source struct {
	Path string
	// Offset is where the range begins, in bytes.
	Offset int64
	// Size is its length; 0 is all that follows.
	Size int64
}

// open opens the file and returns the length of the range, which the file has.
func (s Source) open() (*os.File, int64, error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	size := s.Size
	if size == 0 {
		size = info.Size() - s.Offset
	}
	if s.Offset < 0 || size < 0 || size > info.Size()-s.Offset {
		f.Close()
		return nil, 0, fmt.Errorf("internal error: bytes %d to %d of %s are taken, and it has %d", s.Offset, s.Offset+size, s.Path, info.Size())
	}
	return f, size, nil
}

// copyRange copies n bytes at an offset of src to an offset of dst, which has nothing there yet, in the cheapest way there
// is: by sharing the blocks (btrfs, XFS), else past the page cache, else inside the kernel, else through memory. Holes of src
// stay holes.
func copyRange(ctx context.Context, dst *os.File, off int64, src *os.File, from, n int64) error {
	err := unix.IoctlFileCloneRange(int(dst.Fd()), &unix.FileCloneRange{
		Src_fd: int64(src.Fd()), Src_offset: uint64(from), Src_length: uint64(n), Dest_offset: uint64(off),
	})
	if err == nil {
		return nil
	}
	for end := from + n; from < end; {
		data, length, err := nextData(src, from, end)
		if err != nil {
			return err
		}
		off += data - from
		if err := copyData(ctx, dst, off, src, data, length); err != nil {
			return err
		}
		off, from = off+length, data+length
	}
	return nil
}

// nextData finds the next piece of a file that is no hole, in the range of bytes from one to another. Where there is none,
// it is empty and lies at the end.
func nextData(f *os.File, from, to int64) (data, length int64, err error) {
	data, err = unix.Seek(int(f.Fd()), from, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO): // nothing but a hole
		return to, 0, nil
	case errors.Is(err, unix.EINVAL): // a file that knows no holes
		return from, to - from, nil
	case err != nil:
		return 0, 0, fmt.Errorf("find the data of %s: %w", f.Name(), err)
	}
	data = min(data, to)
	hole, err := unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
	if err != nil {
		hole = to
	}
	return data, min(hole, to) - data, nil
}

// copyData copies n bytes past the page cache, where they would push out what is used again.
func copyData(ctx context.Context, dst *os.File, off int64, src *os.File, from, n int64) error {
	to, of := directio.New(dst), directio.New(src)
	defer to.Close()
	defer of.Close()
	if n < minDirect || off%directio.Align != 0 || from%directio.Align != 0 || !to.Direct() || !of.Direct() {
		return copyInside(dst, off, src, from, n)
	}
	if err := directio.Reserve(dst, off, n); err != nil {
		return err
	}
	return directio.Copy(ctx, to, off, of, from, n)
}

// copyInside copies n bytes inside the kernel, else through memory.
func copyInside(dst *os.File, off int64, src *os.File, from, n int64) error {
	for n > 0 {
		to, at := off, from
		m, err := unix.CopyFileRange(int(src.Fd()), &at, int(dst.Fd()), &to, int(min(n, 1<<30)), 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m == 0 {
			return copyThrough(dst, off, src, from, n)
		}
		off, from, n = off+int64(m), from+int64(m), n-int64(m)
	}
	return nil
}

// copyThrough copies through memory; a source that became shorter is an error.
func copyThrough(dst *os.File, off int64, src *os.File, from, n int64) error {
	buf := make([]byte, mib)
	m, err := io.CopyBuffer(onlyWriter{io.NewOffsetWriter(dst, off)}, io.NewSectionReader(src, from, n), buf)
	if err == nil && m < n {
		return io.ErrUnexpectedEOF
	}
	return err
}

// onlyWriter hides other methods, so that the buffer is used.
type onlyWriter struct{ io.Writer }
