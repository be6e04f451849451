// Package ukitest makes programs for tests of what is made of stubs and kernels.
package ukitest

import (
	"bytes"
	"encoding/binary"
)

// Program is a PE32+ program for x86-64 with the sections of names, each of one 512-byte page of its name's second letter; extra is how
// much larger it is in memory than in the file.
func Program(extra uint32, names ...string) []byte {
	le := binary.LittleEndian
	const newHeader, headers = 128, 2048
	b := make([]byte, headers)
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], newHeader)
	copy(b[newHeader:], "PE\x00\x00")
	coff, opt := newHeader+4, newHeader+24
	le.PutUint16(b[coff:], 0x8664)
	le.PutUint16(b[coff+2:], uint16(len(names)))
	le.PutUint16(b[coff+16:], 240)
	le.PutUint16(b[opt:], 0x20b)
	le.PutUint32(b[opt+32:], 4096)
	le.PutUint32(b[opt+36:], 512)
	le.PutUint32(b[opt+60:], headers)
	le.PutUint32(b[opt+108:], 16)
	for i, name := range names {
		row := b[opt+240+i*40:]
		copy(row[:8], name)
		for j, v := range []uint32{512 + extra, uint32(i+1) << 12, 512, uint32(len(b))} {
			le.PutUint32(row[8+4*j:], v)
		}
		b = append(b, bytes.Repeat([]byte(name[1:2]), 512)...)
	}
	le.PutUint32(b[opt+56:], uint32(len(names)+1)<<12+extra)
	return b
}
