// Package pechecksum computes the checksum in the header of PE files, which some firmware compares (Microsoft's PE Format,
// "Optional Header Windows-Specific Fields", CheckSum; ImageHlp's CheckSumMappedFile).
package pechecksum

import "encoding/binary"

// Size is that of the field in bytes.
const Size = 4

// Set writes the checksum of a file into its field, whose offset is given and lies inside the file: the sum of all 16-bit
// words with the carry folded in, the field itself taken as zero and an odd byte at the end as a word, plus the file's length.
func Set(pe []byte, field int) {
	le := binary.LittleEndian
	le.PutUint32(pe[field:], 0)
	// Sums of longer words fold to the same: 2^16 is 1 modulo 2^16 - 1. Two sums of 32 bits do not overflow below 32 GiB.
	var low, high uint64
	rest := pe
	for ; len(rest) >= 8; rest = rest[8:] {
		word := le.Uint64(rest)
		low += word & 0xffffffff
		high += word >> 32
	}
	var last [8]byte
	copy(last[:], rest)
	sum := low + high + uint64(le.Uint32(last[:])) + uint64(le.Uint32(last[4:]))
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	le.PutUint32(pe[field:], uint32(sum)+uint32(len(pe)))
}
