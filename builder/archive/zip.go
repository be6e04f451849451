package archive

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// maxDirectory bounds what is read of a zip file before its members are known, in bytes. The list of 100,000 members
// has less.
const maxDirectory = 16 << 20

// encrypted is bit 0 of the general purpose bit flag (APPNOTE.TXT, 4.4.4).
const encrypted = 1

// zip reads a zip archive.
func (t *taker) zip(r io.ReaderAt, size int64) error {
	list := &boundedAt{r: r, left: maxDirectory}
	z, err := zip.NewReader(list, size)
	switch {
	case list.left < 0:
		return fmt.Errorf("the list of its members has more than %d bytes", maxDirectory)
	case err != nil && !errors.Is(err, zip.ErrInsecurePath):
		return fmt.Errorf("it is damaged: %w", err)
	}
	list.free = true
	if len(z.File) > t.members {
		return fmt.Errorf("it has more than %d members", t.members)
	}
	for _, f := range z.File {
		var content io.ReadCloser
		e := entry{name: f.Name, mode: f.Mode(), size: int64(min(f.UncompressedSize64, 1<<62)), open: func() (io.Reader,
			error) {
			if f.Flags&encrypted != 0 {
				return nil, errors.New("it is encrypted")
			}
			var err error
			content, err = f.Open()
			return content, err
		}}
		if f.Mode()&fs.ModeSymlink != 0 {
			e.target = "another file"
		}
		err := t.add(e)
		if content != nil {
			err = errors.Join(err, content.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// boundedAt fails when more than left bytes are read, until it is set free.
type boundedAt struct {
	r    io.ReaderAt
	left int64
	free bool
}

// ReadAt implements io.ReaderAt.
func (b *boundedAt) ReadAt(p []byte, off int64) (int, error) {
	if !b.free {
		if b.left -= int64(len(p)); b.left < 0 {
			return 0, errBomb
		}
	}
	return b.r.ReadAt(p, off)
}
