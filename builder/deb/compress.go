package deb

import (
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"spore/builder/xz"
)

// maxWindow bounds the memory that a stream can make its decompressor take: xz -9 and zstd --ultra need 64 and 128 MiB.
const maxWindow = 128 << 20

// decompress returns the content of a member by the end of its name: "", .gz, .xz or .zst (deb(5)).
func decompress(suffix string, r io.Reader) (io.ReadCloser, error) {
	switch suffix {
	case "":
		return io.NopCloser(r), nil
	case ".gz":
		return gzip.NewReader(r)
	case ".xz":
		z, err := xz.NewReader(r, xz.Options{MaxDict: maxWindow})
		if err != nil {
			return nil, err
		}
		return io.NopCloser(z), nil
	case ".zst":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("compression %q is unknown; supported are gz, xz, zst and none", strings.TrimPrefix(suffix, "."))
}

// limitReader fails, where io.LimitReader would end, when more than left bytes come out of r.
type limitReader struct {
	r    io.Reader
	left int64
	err  error
}

func (l *limitReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if int64(n) > l.left {
		n = int(l.left)
		err = l.err
	}
	l.left -= int64(n)
	return n, err
}
