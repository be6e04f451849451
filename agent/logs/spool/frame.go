package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A segment is a file: its head, and frames one after the other. All numbers are little-endian.
//
//	head:   8 bytes segmentMagic, 8 bytes of salt
//	frame:  u32 frameMagic, u32 bytes of the payload, u32 bytes of the marks that it begins with, u32 bytes of the lines
//	        before compression, u32 lines, i64 Unix time in ms, u32 checksum of the payload, u32 checksum of all before
//	        the payload (marks, then the lines compressed by zstd)
//
// The checksums are CRC-32C and begin with the segment's salt: bytes that a sender chose, or that were on the disk
// before, are no frames of it.
const (
	segmentMagic = "SPORELG1"
	headSize     = 16
	frameMagic   = 0x664c7053
	frameSize    = 36
	// MaxLines is how many bytes of lines one frame has at most, and so the longest line.
	MaxLines = 2 << 20
	// maxMarks bounds the marks of a frame, and maxPayload the whole: zstd adds little to what does not compress.
	maxMarks   = 16 << 20
	maxPayload = maxMarks + MaxLines + MaxLines/8
)

// errTorn says that a frame is torn.
var errTorn = errors.New("there is no whole frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is what a frame's head says.
type frame struct {
	payload, marks, raw, lines uint32
	at                         time.Time
	sum                        uint32
}

// size is how many bytes the frame has in its segment.
func (f frame) size() int64 { return frameSize + int64(f.payload) }

// appendFrame writes a frame.
func appendFrame(dst []byte, salt uint32, at time.Time, marks, packed []byte, raw, lines int) []byte {
	begin := len(dst)
	for _, n := range []int{frameMagic, len(marks) + len(packed), len(marks), raw, lines} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(at.UnixMilli()))
	sum := crc32.Update(crc32.Update(salt, castagnoli, marks), castagnoli, packed)
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(salt, castagnoli, dst[begin:]))
	return append(append(dst, marks...), packed...)
}

// segment reads frames of a segment as far as an end, which is never beyond what was synced.
type segment struct {
	r    io.ReaderAt
	salt uint32
	end  int64
}

// openSegment reads the head.
func openSegment(r io.ReaderAt, end int64) (segment, error) {
	var head [headSize]byte
	if end < headSize {
		return segment{}, errTorn
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return segment{}, fmt.Errorf("read the head: %w", err)
	}
	if string(head[:len(segmentMagic)]) != segmentMagic {
		return segment{}, errTorn
	}
	return segment{r: r, salt: saltOf(head[len(segmentMagic):]), end: end}, nil
}

// saltOf is what the checksums of a segment begin with.
func saltOf(salt []byte) uint32 { return crc32.Checksum(salt, castagnoli) }

// at reads the head of the frame at a place. errTorn: there is none that is whole.
func (s segment) at(offset int64) (frame, error) {
	var b [frameSize]byte
	if offset < headSize || s.end-offset < frameSize {
		return frame{}, errTorn
	}
	if _, err := s.r.ReadAt(b[:], offset); err != nil {
		return frame{}, fmt.Errorf("read a frame: %w", err)
	}
	n := func(i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
	f := frame{
		payload: n(4), marks: n(8), raw: n(12), lines: n(16),
		at: time.UnixMilli(int64(binary.LittleEndian.Uint64(b[20:]))), sum: n(28),
	}
	switch {
	case n(0) != frameMagic, crc32.Update(s.salt, castagnoli, b[:32]) != n(32),
		f.payload > maxPayload, f.marks > f.payload, f.marks > maxMarks, f.raw > MaxLines, f.lines > f.raw,
		f.size() > s.end-offset:
		return frame{}, errTorn
	}
	return f, nil
}

// payload reads the marks of a frame and its lines, which are still packed.
func (s segment) payload(offset int64, f frame) (marks, packed []byte, err error) {
	b := make([]byte, f.payload)
	if _, err := s.r.ReadAt(b, offset+frameSize); err != nil {
		return nil, nil, fmt.Errorf("read a frame: %w", err)
	}
	if crc32.Update(s.salt, castagnoli, b) != f.sum {
		return nil, nil, errTorn
	}
	return b[:f.marks], b[f.marks:], nil
}

// next is where the next frame after a place that has none begins; the end where there is none.
func (s segment) next(offset int64) (int64, error) {
	magic := binary.LittleEndian.AppendUint32(nil, frameMagic)
	b := make([]byte, 64<<10)
	for offset = max(offset+1, headSize); s.end-offset >= frameSize; {
		part := b[:min(int64(len(b)), s.end-offset)]
		if _, err := s.r.ReadAt(part, offset); err != nil {
			return 0, fmt.Errorf("look for a frame: %w", err)
		}
		i := bytes.Index(part, magic)
		if i < 0 {
			offset += int64(len(part) - len(magic) + 1)
			continue
		}
		offset += int64(i)
		_, err := s.at(offset)
		if err == nil {
			return offset, nil
		}
		if !errors.Is(err, errTorn) {
			return 0, err
		}
		offset++
	}
	return s.end, nil
}

// sound is where the last whole frame of a segment ends. What follows was cut off by a loss of power.
func (s segment) sound() (int64, error) {
	good := int64(headSize)
	for offset := good; offset < s.end; {
		f, err := s.at(offset)
		if err == nil {
			_, _, err = s.payload(offset, f)
		}
		switch {
		case err == nil:
			offset += f.size()
			good = offset
		case errors.Is(err, errTorn):
			if offset, err = s.next(offset); err != nil {
				return 0, err
			}
		default:
			return 0, err
		}
	}
	return good, nil
}

// unpack returns the lines of a frame.
func unpack(d *zstd.Decoder, f frame, packed []byte) ([]byte, error) {
	if f.raw == 0 {
		return nil, nil
	}
	lines, err := d.DecodeAll(packed, make([]byte, 0, f.raw))
	if err != nil {
		return nil, fmt.Errorf("unpack lines: %w", err)
	}
	if len(lines) != int(f.raw) {
		return nil, fmt.Errorf("unpack lines: there are %d bytes instead of %d", len(lines), f.raw)
	}
	return lines, nil
}

// newDecoder reads what newEncoder writes.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxLines),
		zstd.WithDecoderLowmem(true))
}

// newEncoder takes little memory and time: the lines are packed again by who keeps them.
func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
}
