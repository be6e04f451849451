package kmod

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"spore/builder/tree"
	"spore/builder/xz"
)

// maxModule bounds the size of one module, in bytes. The largest of Debian's kernels, amdgpu, has 28 MB.
const maxModule = 256 << 20

// xzDictMax bounds the memory that an .xz may ask for. The kernel's own decompressor takes up to 64 MiB.
const xzDictMax = 64 << 20

// Decompressor reads modules, compressed or not, one after the other. It keeps its buffers; the zero value is ready.
type Decompressor struct {
	xz   *xz.Reader
	zstd *zstd.Decoder
	buf  bytes.Buffer
}

// Read returns the plain bytes of the module at a path of a tree. They are valid until the next Read.
func (d *Decompressor) Read(t *tree.Tree, p string) ([]byte, error) {
	f, err := t.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := d.reader(f, p)
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", p, err)
	}
	d.buf.Reset()
	if _, err := d.buf.ReadFrom(io.LimitReader(r, maxModule+1)); err != nil {
		return nil, fmt.Errorf("decompress %s: %w", p, err)
	}
	if d.buf.Len() > maxModule {
		return nil, fmt.Errorf("decompress %s: the module is larger than %d bytes", p, maxModule)
	}
	return d.buf.Bytes(), nil
}

func (d *Decompressor) reader(r io.Reader, p string) (_ io.Reader, err error) {
	switch {
	case strings.HasSuffix(p, ".xz"):
		if d.xz == nil {
			d.xz, err = xz.NewReader(r, xz.Options{MaxDict: xzDictMax})
			return d.xz, err
		}
		return d.xz, d.xz.Reset(r)
	case strings.HasSuffix(p, ".zst"):
		if d.zstd == nil {
			d.zstd, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxModule))
			return d.zstd, err
		}
		return d.zstd, d.zstd.Reset(r)
	}
	return r, nil
}
