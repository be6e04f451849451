package xz

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
)

// indexReader reads the numbers of an index and sums its bytes.
type indexReader struct {
	in  *input
	crc uint32
	n   int64
}

func (r *indexReader) bytes(n int) ([]byte, error) {
	b, err := r.in.need(n)
	if err != nil {
		return nil, err
	}
	r.crc = crc32.Update(r.crc, crc32.IEEETable, b[:n])
	r.n += int64(n)
	r.in.skip(n)
	return b[:n], nil
}

func (r *indexReader) number() (uint64, error) {
	var b [9]byte
	for i := range b {
		c, err := r.bytes(1)
		if err != nil {
			return 0, err
		}
		if b[i] = c[0]; b[i]&0x80 == 0 {
			if v, n := vli(b[:i+1]); n > 0 {
				return v, nil
			}
			break
		}
	}
	return 0, corrupt("a number in the index")
}

// readIndex reads the index and the stream footer behind it, and compares them with the blocks that were read (sections 4
// and 2.1.2).
func (z *Reader) readIndex() error {
	r := indexReader{in: &z.in}
	if _, err := r.bytes(1); err != nil {
		return err
	}
	count, err := r.number()
	if err != nil {
		return err
	}
	if count != z.blocks {
		return corrupt("the index lists another number of blocks than there are")
	}
	listed := sha256.New()
	for range count {
		unpadded, err := r.number()
		if err != nil {
			return err
		}
		unpacked, err := r.number()
		if err != nil {
			return err
		}
		z.addRecord(listed, unpadded, unpacked)
	}
	if !bytes.Equal(listed.Sum(nil), z.index.Sum(nil)) {
		return corrupt("the index lists blocks of other sizes than they have")
	}
	pad, err := r.bytes(int(-r.n & 3))
	if err != nil {
		return err
	}
	if !allZero(pad) {
		return corrupt("the padding of the index")
	}
	sum := r.crc
	b, err := r.bytes(4)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(b) != sum {
		return corrupt("the checksum of the index")
	}
	return z.readFooter(r.n)
}

func (z *Reader) readFooter(indexSize int64) error {
	b, err := z.in.need(frameSize)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	switch {
	case string(b[10:12]) != footerMagic:
		return corrupt("the end of the stream footer")
	case crc32.ChecksumIEEE(b[4:10]) != le.Uint32(b):
		return corrupt("the checksum of the stream footer")
	case (int64(le.Uint32(b[4:]))+1)*4 != indexSize:
		return corrupt("the size of the index in the stream footer")
	case [2]byte(b[8:10]) != z.flags:
		return corrupt("the stream footer has other flags than the header")
	}
	z.in.skip(frameSize)
	return nil
}
