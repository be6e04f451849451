package unsquash

import (
	"fmt"
	"io"
)

// Content reads the data of a regular file from its beginning.
func (img *Image) Content(e *Entry) io.Reader { return &content{img: img, e: e, left: e.Size} }

type content struct {
	img  *Image
	e    *Entry
	next int
	left int64 // bytes that are not in buf yet
	buf  []byte
	raw  []byte
	out  []byte
}

func (c *content) Read(p []byte) (int, error) {
	for len(c.buf) == 0 {
		if c.left == 0 {
			return 0, io.EOF
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.buf)
	c.buf = c.buf[n:]
	return n, nil
}

func (c *content) fill() error {
	want := int(min(c.left, int64(c.img.Super.BlockSize)))
	c.left -= int64(want)
	if c.next == len(c.e.Blocks) {
		data, err := c.img.fragment(c.e.Fragment)
		if err != nil {
			return err
		}
		if c.e.FragmentOffset+int64(want) > int64(len(data)) {
			return fmt.Errorf("fragment %d has %d bytes, and the file ends at %d", c.e.Fragment, len(data), c.e.FragmentOffset+int64(want))
		}
		c.buf = data[c.e.FragmentOffset:][:want]
		return nil
	}
	b := c.e.Blocks[c.next]
	c.next++
	var err error
	if c.raw, c.out, err = c.img.decode(b, want, c.raw, c.out); err != nil {
		return err
	}
	if len(c.out) != want {
		return fmt.Errorf("the block at %d has %d bytes instead of %d", b.Offset, len(c.out), want)
	}
	c.buf = c.out
	return nil
}

// decode reads a block into the second of the buffers, which it may make larger; zeros is the size of one of zeros.
func (img *Image) decode(b Block, zeros int, raw, out []byte) ([]byte, []byte, error) {
	if b.Size == 0 {
		out = append(out[:0], make([]byte, zeros)...)
		return raw, out, nil
	}
	raw = append(raw[:0], make([]byte, b.Size)...)
	if _, err := img.r.ReadAt(raw, b.Offset); err != nil {
		return raw, out, fmt.Errorf("read the block at %d: %w", b.Offset, err)
	}
	if b.Stored {
		return raw, append(out[:0], raw...), nil
	}
	out, err := img.dec.DecodeAll(raw, out[:0])
	if err != nil {
		return raw, out, fmt.Errorf("decompress the block at %d: %w", b.Offset, err)
	}
	return raw, out, nil
}

// fragment returns a fragment block. What it returned before stays as it is.
func (img *Image) fragment(i int) ([]byte, error) {
	if img.last.index == i {
		return img.last.data, nil
	}
	_, data, err := img.decode(img.Fragments[i], 0, nil, nil)
	if err != nil {
		return nil, err
	}
	img.last.index, img.last.data = i, data
	return data, nil
}
