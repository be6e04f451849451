package slot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spore/wire/update"
)

// bootFiles are the working files of UKI, cluster part and boot loader, of which an index lists the pieces as of one
// file.
type bootFiles struct {
	files [3]*os.File
	sizes [3]int64
}

// openBootFiles opens them; where nothing of them is to be kept they begin empty.
func openBootFiles(dir string, h update.Head, keep bool) (_ *bootFiles, err error) {
	b := &bootFiles{sizes: [3]int64{h.UKI.Size, h.Part.Size, h.Loader.Size}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	flags := os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW
	if !keep {
		flags |= os.O_TRUNC
	}
	for i, name := range bootFileNames {
		if b.files[i], err = os.OpenFile(filepath.Join(dir, name), flags, 0o600); err != nil {
			return nil, fmt.Errorf("keep the update: %w", err)
		}
		if err := b.files[i].Truncate(b.sizes[i]); err != nil {
			return nil, fmt.Errorf("keep the update: %w", err)
		}
	}
	return b, nil
}

var bootFileNames = [3]string{"uki", "part", "loader"}

// WriteAt implements outlet.
func (b *bootFiles) WriteAt(p []byte, off int64) (int, error) {
	written := 0
	for i, f := range b.files {
		if off < b.sizes[i] && len(p) > 0 {
			n, err := f.WriteAt(p[:min(int64(len(p)), b.sizes[i]-off)], off)
			if written += n; err != nil {
				return written, err
			}
			p, off = p[n:], off+int64(n)
		}
		off -= b.sizes[i]
	}
	if len(p) > 0 {
		return written, io.ErrShortWrite
	}
	return written, nil
}

// Sync implements outlet.
func (b *bootFiles) Sync() error {
	return errors.Join(b.files[0].Sync(), b.files[1].Sync(), b.files[2].Sync())
}

func (b *bootFiles) source(h update.Head) source {
	content := func(i int) *io.SectionReader { return io.NewSectionReader(b.files[i], 0, b.sizes[i]) }
	return source{Head: h, UKI: content(0), Part: content(1), Loader: content(2)}
}

func (b *bootFiles) close() {
	for _, f := range b.files {
		if f != nil {
			f.Close()
		}
	}
}
