package pechecksum

import (
	"encoding/binary"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// definition is the checksum word for word: add with end-around carry, then the length.
func definition(pe []byte) uint32 {
	var sum uint32
	for i := 0; i < len(pe); i += 2 {
		word := [2]byte{pe[i]}
		if i+1 < len(pe) {
			word[1] = pe[i+1]
		}
		sum += uint32(binary.LittleEndian.Uint16(word[:]))
		sum = sum&0xffff + sum>>16
	}
	return sum + uint32(len(pe))
}

func TestSetIsTheDefinition(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, size := range []int{4, 5, 7, 8, 9, 15, 16, 17, 511, 512, 4099, 1 << 20, 1<<20 + 6} {
		for _, fill := range []func([]byte){
			func(b []byte) { clear(b) },
			func(b []byte) {
				for i := range b {
					b[i] = 0xff
				}
			},
			func(b []byte) { r.Read(b) },
		} {
			pe := make([]byte, size)
			fill(pe)
			field := r.Intn(size - Size + 1)
			want := append([]byte(nil), pe...)
			clear(want[field : field+Size])
			Set(pe, field)
			require.Equal(t, definition(want), binary.LittleEndian.Uint32(pe[field:]), "%d bytes, the field at %d", size, field)
			clear(pe[field : field+Size])
			require.Equal(t, want, pe, "nothing but the field is written")
		}
	}
}

func BenchmarkSet(b *testing.B) {
	pe := make([]byte, 20<<20)
	b.SetBytes(int64(len(pe)))
	for b.Loop() {
		Set(pe, 64)
	}
}
