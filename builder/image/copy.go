package image

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyRange copies the first n bytes of src to an offset of dst in the cheapest way there is: by sharing the blocks
// (btrfs, XFS), else inside the kernel, else through memory.
func copyRange(dst *os.File, off int64, src *os.File, n int64) error {
	err := unix.IoctlFileCloneRange(int(dst.Fd()), &unix.FileCloneRange{
		Src_fd: int64(src.Fd()), Src_offset: 0, Src_length: uint64(n), Dest_offset: uint64(off),
	})
	if err == nil {
		return nil
	}
	var from int64
	for from < n {
		to := off + from
		at := from
		m, err := unix.CopyFileRange(int(src.Fd()), &at, int(dst.Fd()), &to, int(min(n-from, 1<<30)), 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m == 0 {
			return copyThrough(dst, off+from, src, from, n-from)
		}
		from += int64(m)
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
