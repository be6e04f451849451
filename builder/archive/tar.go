package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"spore/builder/xz"
)

// maxWindow bounds the memory that a stream can make its decompressor take: xz -9 and zstd --ultra need 64 and 128 MiB.
const maxWindow = 128 << 20

// compressions are told by the first bytes of a file (RFC 1952, The .xz File Format 1.2.1, RFC 8878).
var compressions = []struct {
	name, magic string
	open        func(io.Reader) (io.ReadCloser, error)
}{
	{"gzip", "\x1f\x8b", func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }},
	{"xz", "\xfd7zXZ\x00", func(r io.Reader) (io.ReadCloser, error) {
		z, err := xz.NewReader(r, xz.Options{MaxDict: maxWindow})
		if err != nil {
			return nil, err
		}
		return io.NopCloser(z), nil
	}},
	{"zstd", "\x28\xb5\x2f\xfd", func(r io.Reader) (io.ReadCloser, error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}},
}

// errBomb ends a stream that is longer than is allowed.
var errBomb = errors.New("the stream is too long")

// tar reads a tar archive. compression is the name of what it was compressed with.
func (t *taker) tar(r io.Reader, compression string) error {
	bounded := &bounded{r, t.unpacked}
	for in := tar.NewReader(bounded); ; {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case bounded.left < 0:
			return t.tooLarge()
		case err != nil && len(t.seen) == 0 && compression != "":
			return fmt.Errorf("what is compressed in it (%s) is not a tar archive: %w", compression, err)
		case err != nil:
			return fmt.Errorf("it is damaged: %w", err)
		}
		e := entry{name: h.Name, mode: h.FileInfo().Mode(), size: h.Size, open: func() (io.Reader, error) { return in, nil }}
		if h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeLink {
			e.target = h.Linkname
		}
		if err := t.add(e); bounded.left < 0 {
			return t.tooLarge()
		} else if err != nil {
			return err
		}
	}
}

// bounded fails when more than left bytes come out of a stream; left is negative then.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errBomb
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, errBomb
	}
	return n, err
}
