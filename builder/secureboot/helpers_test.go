package secureboot

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Offsets in a PE32+ file (Microsoft's PE Format).
const (
	dosNewHeader   = 0x3c
	coffHeader     = 4
	magicPE32Plus  = 0x20b
	sectionSize    = 40
	optHeaders     = 60
	optCheckSum    = 64
	optDirectories = 108
)

const (
	testPE       = 128 // where the PE signature is
	testOptional = testPE + 24
	testTable    = testOptional + 240
	testHeaders  = 1024
	testCertRow  = testOptional + 112 + 4*8
)

// makeProgram is a PE32+ file for UEFI with two sections, and bytes behind them.
func makeProgram(extra int) []byte {
	le := binary.LittleEndian
	b := make([]byte, testHeaders)
	copy(b, "MZ")
	le.PutUint32(b[dosNewHeader:], testPE)
	copy(b[testPE:], "PE\x00\x00")
	le.PutUint16(b[testPE+coffHeader:], 0x8664)
	le.PutUint16(b[testPE+coffHeader+2:], 2)
	le.PutUint16(b[testPE+coffHeader+16:], 240)
	le.PutUint16(b[testPE+coffHeader+18:], 0x22e)
	le.PutUint16(b[testOptional:], magicPE32Plus)
	le.PutUint32(b[testOptional+16:], 0x1000)
	le.PutUint64(b[testOptional+24:], 0x140000000)
	le.PutUint32(b[testOptional+32:], 4096)
	le.PutUint32(b[testOptional+36:], 512)
	le.PutUint32(b[testOptional+56:], 0x3000)
	le.PutUint32(b[testOptional+optHeaders:], testHeaders)
	le.PutUint16(b[testOptional+68:], 10) // EFI application
	le.PutUint32(b[testOptional+optDirectories:], 16)
	// The rows are not in the order of the content.
	row := func(i int, name string, address, offset, size uint32) {
		s := b[testTable+i*sectionSize:]
		copy(s, name)
		for j, v := range []uint32{size, address, size, offset} {
			le.PutUint32(s[8+4*j:], v)
		}
		le.PutUint32(s[36:], 0x60000020)
	}
	row(0, ".data", 0x2000, 2048, 512)
	row(1, ".text", 0x1000, 1024, 1024)
	b = append(b, bytes.Repeat([]byte{0xc3}, 1024)...)
	b = append(b, bytes.Repeat([]byte("data"), 128)...)
	return append(b, bytes.Repeat([]byte{7}, extra)...)
}

var testKeys = sync.OnceValues(func() (*Keys, error) {
	return Generate(rand.Reader, Options{Name: "plant", Now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)})
})

func signer(t testing.TB) *Signer {
	t.Helper()
	k, err := testKeys()
	require.NoError(t, err)
	return k.DB
}
