package xz

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"hash/crc64"
)

// check is the integrity check of a stream (section 3.4).
type check struct {
	known bool
	size  int
	id    byte
	crc32 uint32
	crc64 uint64
	hash  hash.Hash
}

// The checks of section 2.1.1.2.
const (
	checkNone   = 0x00
	checkCRC32  = 0x01
	checkCRC64  = 0x04
	checkSHA256 = 0x0a
)

var crc64Table = crc64.MakeTable(crc64.ECMA)

func newCheck(id byte) check {
	c := check{id: id, known: true}
	switch id {
	case checkNone:
	case checkCRC32:
		c.size = 4
	case checkCRC64:
		c.size = 8
	case checkSHA256:
		c.size, c.hash = sha256.Size, sha256.New()
	default:
		c.known = false
	}
	return c
}

func (c *check) reset() {
	c.crc32, c.crc64 = 0, 0
	if c.hash != nil {
		c.hash.Reset()
	}
}

func (c *check) write(b []byte) {
	switch c.id {
	case checkCRC32:
		c.crc32 = crc32.Update(c.crc32, crc32.IEEETable, b)
	case checkCRC64:
		c.crc64 = crc64.Update(c.crc64, crc64Table, b)
	case checkSHA256:
		c.hash.Write(b)
	}
}

// matches compares with the bytes of the file.
func (c *check) matches(want []byte) bool {
	var got []byte
	switch c.id {
	case checkCRC32:
		got = binary.LittleEndian.AppendUint32(nil, c.crc32)
	case checkCRC64:
		got = binary.LittleEndian.AppendUint64(nil, c.crc64)
	case checkSHA256:
		got = c.hash.Sum(nil)
	}
	return bytes.Equal(got, want)
}
