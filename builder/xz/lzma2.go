package xz

import (
	"fmt"
)

const (
	maxPacked   = 64 << 10 // bytes of a chunk once compressed
	maxUnpacked = 2 << 20  // bytes of a chunk
	firstWindow = 256 << 10
	// slideMin and slideMax bound how much room the window has beside the dictionary. A chunk has to fit; more than that
	// saves moving the dictionary.
	slideMin = maxUnpacked
	slideMax = 16 << 20
)

// window is the dictionary and the output in one: what was decoded last is at its end, and is read from there. When it is
// full, the dictionary moves to its beginning.
type window struct {
	buf  []byte
	pos  int // the end of what was decoded
	read int // the end of what was handed out
	base int // where the dictionary was reset; negative, with the right lowest four bits, when that was moved out
	dict int // size of the dictionary in bytes
	max  int // size that the window grows to, without overshoot
}

// start begins a block. known is its size where that is known, else negative.
func (w *window) start(dict uint32, known int64) {
	w.pos, w.read, w.base, w.dict = 0, 0, 0, int(dict)
	w.max = w.dict + 16 + min(max(w.dict/2, slideMin), slideMax)
	if known >= 0 && known < int64(w.max) {
		w.max = int(known)
	}
	if w.buf == nil {
		w.buf = make([]byte, min(w.max, firstWindow)+overshoot)
	}
}

// room makes room for n bytes, at most maxUnpacked. All that was decoded has been read.
func (w *window) room(n int) {
	if w.pos+n+overshoot <= len(w.buf) {
		return
	}
	if w.pos+n > w.max {
		// A multiple of 16 keeps the positions that the models of literals and matches look at.
		by := (w.pos - w.dict) &^ 15
		copy(w.buf, w.buf[by:w.pos])
		w.pos -= by
		w.read = w.pos
		if w.base -= by; w.base < 0 {
			w.base = w.base&15 - 16
		}
		if w.pos+n+overshoot <= len(w.buf) {
			return
		}
	}
	grown := make([]byte, min(max(2*len(w.buf), w.pos+n), w.max)+overshoot)
	copy(grown, w.buf[:w.pos])
	w.buf = grown
}

// lzma2 decodes the chunks of one block (xz specification, section 5.3.1; the format of chunks is that of xz-embedded).
type lzma2 struct {
	lzma      lzma
	win       window
	needDict  bool // the first chunk must reset the dictionary
	needProps bool // the next LZMA chunk must bring properties
}

func (d *lzma2) start(dict uint32, known int64) {
	d.needDict, d.needProps = true, true
	d.win.start(dict, known)
}

// chunk decodes one chunk into the window; done is true at the end of the block. More than left bytes are an error.
func (d *lzma2) chunk(in *input, left int64) (done bool, err error) {
	b, err := in.need(1)
	if err != nil {
		return false, err
	}
	control := b[0]
	if control == 0 {
		in.skip(1)
		return true, nil
	}
	if control > 2 && control < 0x80 {
		return false, corrupt("chunk of unknown type %#x", control)
	}
	newDict := control >= 0xe0 || control == 1
	if d.needDict && !newDict {
		return false, corrupt("the first chunk does not reset the dictionary")
	}
	if newDict {
		d.needDict, d.needProps = false, true
	}
	head := 3
	if control >= 0x80 {
		head = 5
		if control >= 0xc0 {
			head = 6
		}
	}
	if b, err = in.need(head); err != nil {
		return false, err
	}
	unpacked := int(b[1])<<8 + int(b[2]) + 1
	if control >= 0x80 {
		unpacked += int(control&0x1f) << 16
	}
	if int64(unpacked) > left {
		return false, corrupt("a block has more bytes than its header says")
	}
	if newDict {
		// The positions begin anew with the dictionary, and nothing before it is needed any more.
		d.win.pos, d.win.read, d.win.base = 0, 0, 0
	}
	d.win.room(unpacked)
	if control < 0x80 {
		in.skip(head)
		return false, d.stored(in, unpacked)
	}
	packed := int(b[3])<<8 + int(b[4]) + 1
	switch {
	case control >= 0xc0:
		if !d.lzma.setProps(b[5]) {
			return false, corrupt("LZMA properties %#x", b[5])
		}
		d.needProps = false
		d.lzma.reset()
	case d.needProps:
		return false, corrupt("the first LZMA chunk has no properties")
	case control >= 0xa0:
		d.lzma.reset()
	}
	in.skip(head)
	return false, d.packed(in, unpacked, packed)
}

// stored copies a chunk that is not compressed.
func (d *lzma2) stored(in *input, n int) error {
	b, err := in.need(n)
	if err != nil {
		return err
	}
	d.win.pos += copy(d.win.buf[d.win.pos:], b[:n])
	in.skip(n)
	return nil
}

func (d *lzma2) packed(in *input, unpacked, packed int) error {
	b, err := in.need(packed)
	if err != nil {
		return err
	}
	if packed < 5 || b[0] != 0 {
		return errChunkStart
	}
	w := &d.win
	end := w.pos + unpacked
	var why string
	switch d.lzma.decode(w.buf, w.pos, end, w.base, uint32(w.dict), b, packed) {
	case chunkDone:
		w.pos = end
		in.skip(packed)
		return nil
	case badDistance:
		why = "a match begins before the dictionary"
	case badLength:
		why = "a match is longer than its chunk"
	default:
		why = "a chunk does not end where it should"
	}
	return corrupt("%s", why)
}

// errChunkStart means that the range coder does not begin as every encoder lets it begin.
var errChunkStart = corrupt("an LZMA chunk does not begin as one")

// corrupt says what is wrong with the data.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
