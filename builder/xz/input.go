package xz

import (
	"bytes"
	"io"
)

// input is a buffered reader that hands out its buffer. The slices of need are followed by readAhead bytes of any content,
// so that the LZMA decoder does not look for the end of its input at each byte.
type input struct {
	r    io.Reader
	buf  []byte
	pos  int
	end  int
	off  int64 // of buf[0] in r
	fail error // of r
}

const inputSize = 2 * maxPacked

func (in *input) reset(r io.Reader) {
	if in.buf == nil {
		in.buf = make([]byte, inputSize+readAhead)
	}
	in.r, in.pos, in.end, in.off, in.fail = r, 0, 0, 0, nil
}

// offset is the number of bytes that were used.
func (in *input) offset() int64 { return in.off + int64(in.pos) }

// need returns a slice that begins with the next n bytes, at most maxPacked. Too few are io.ErrUnexpectedEOF.
func (in *input) need(n int) ([]byte, error) {
	if in.end-in.pos < n {
		if err := in.more(n); err != nil {
			return nil, err
		}
	}
	return in.buf[in.pos:], nil
}

// more reads until n bytes are there.
func (in *input) more(n int) error {
	copy(in.buf, in.buf[in.pos:in.end])
	in.off += int64(in.pos)
	in.pos, in.end = 0, in.end-in.pos
	for empty := 0; in.end < n && in.fail == nil; {
		var got int
		got, in.fail = in.r.Read(in.buf[in.end:inputSize])
		in.end += got
		if empty++; got > 0 {
			empty = 0
		} else if empty == 100 {
			in.fail = io.ErrNoProgress
		}
	}
	switch {
	case in.end >= n:
		return nil
	case in.fail == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return in.fail
}

// skip uses n bytes that need has returned.
func (in *input) skip(n int) { in.pos += n }

// atEnd reports whether nothing is left. An error of the reader other than its end is not that.
func (in *input) atEnd() bool {
	if in.pos == in.end {
		_ = in.more(1)
	}
	return in.pos == in.end && in.fail == io.EOF
}

// rest reads what is left, from a number of bytes back on: these have to be in the buffer still.
func (in *input) rest(back int) io.Reader {
	return io.MultiReader(bytes.NewReader(in.buf[in.pos-back:in.end]), &failing{in})
}

// failing reads from what is below an input, unless that has failed already.
type failing struct{ in *input }

func (f *failing) Read(p []byte) (int, error) {
	if f.in.fail != nil {
		return 0, f.in.fail
	}
	return f.in.r.Read(p)
}
