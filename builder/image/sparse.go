package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/diskfs/go-diskfs/backend"
)

// pageSize is the unit in which a sparse disk keeps its data.
const pageSize = 64 << 10

// sparse is a disk in memory that keeps only what was written to it. It is go-diskfs's storage for the partition table:
// it writes zeros, and asks for a flush of the whole file, none of which may reach the image. An ISO's own files are in it,
// too.
type sparse struct {
	size  int64
	pages map[int64]*[pageSize]byte
	pos   int64
}

var (
	_ backend.Storage      = (*sparse)(nil)
	_ backend.WritableFile = (*sparse)(nil)
)

var errOutside = errors.New("access outside of the disk")

func newSparse(size int64) *sparse {
	return &sparse{size: size, pages: map[int64]*[pageSize]byte{}}
}

// ReadAt implements io.ReaderAt.
func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errOutside
	}
	if off >= s.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), s.size-off))
	for done := 0; done < n; {
		in := int((off + int64(done)) % pageSize)
		part := p[done:min(n, done+pageSize-in)]
		if page := s.pages[(off+int64(done))/pageSize]; page != nil {
			copy(part, page[in:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt. Zeros written where nothing was cost nothing.
func (s *sparse) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > s.size {
		return 0, errOutside
	}
	for done := 0; done < len(p); {
		in := int((off + int64(done)) % pageSize)
		part := p[done:min(len(p), done+pageSize-in)]
		key := (off + int64(done)) / pageSize
		page := s.pages[key]
		if page == nil && !isZero(part) {
			page = new([pageSize]byte)
			s.pages[key] = page
		}
		if page != nil {
			copy(page[in:], part)
		}
		done += len(part)
	}
	return len(p), nil
}

var zeros [pageSize]byte

func isZero(p []byte) bool { return bytes.Equal(p, zeros[:len(p)]) }

// writeTo writes the pages that hold anything but zeros to the same place of a file.
func (s *sparse) writeTo(w io.WriterAt) error {
	keys := make([]int64, 0, len(s.pages))
	for k, page := range s.pages {
		if !isZero(page[:]) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		n := min(pageSize, s.size-k*pageSize)
		if _, err := w.WriteAt(s.pages[k][:n], k*pageSize); err != nil {
			return err
		}
	}
	return nil
}

// Read implements io.Reader.
func (s *sparse) Read(p []byte) (int, error) {
	n, err := s.ReadAt(p, s.pos)
	s.pos += int64(n)
	return n, err
}

// Seek implements io.Seeker.
func (s *sparse) Seek(offset int64, whence int) (int64, error) {
	base := map[int]int64{io.SeekStart: 0, io.SeekCurrent: s.pos, io.SeekEnd: s.size}[whence]
	if base+offset < 0 {
		return s.pos, fmt.Errorf("seek before the beginning")
	}
	s.pos = base + offset
	return s.pos, nil
}

// Close implements io.Closer.
func (s *sparse) Close() error { return nil }

// Stat implements fs.File.
func (s *sparse) Stat() (fs.FileInfo, error) { return sparseInfo{s}, nil }

// Sys implements backend.Storage: there is no file.
func (s *sparse) Sys() (*os.File, error) { return nil, backend.ErrNotSuitable }

// Writable implements backend.Storage.
func (s *sparse) Writable() (backend.WritableFile, error) { return s, nil }

// Path implements backend.Storage: there is no file.
func (s *sparse) Path() string { return "" }

type sparseInfo struct{ s *sparse }

func (sparseInfo) Name() string       { return "disk" }
func (i sparseInfo) Size() int64      { return i.s.size }
func (sparseInfo) Mode() fs.FileMode  { return 0o644 }
func (sparseInfo) ModTime() time.Time { return time.Time{} }
func (sparseInfo) IsDir() bool        { return false }
func (sparseInfo) Sys() any           { return nil }
