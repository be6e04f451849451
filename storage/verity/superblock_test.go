package verity

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// written is the superblock of a tree over blocks.
func written(t testing.TB, blocks int64, o Options) []byte {
	t.Helper()
	var out bytes.Buffer
	_, _, err := Format(bytes.NewReader(noise(blocks*BlockSize)), blocks*BlockSize, &out, o)
	require.NoError(t, err)
	return out.Bytes()
}

func TestASuperblockIsReadAsItWasWritten(t *testing.T) {
	for _, salt := range []int{0, 1, 32} {
		o := options(salt)
		hash := written(t, 129, o)
		s, err := Parse(hash)
		require.NoError(t, err)
		require.EqualValues(t, 129, s.DataBlocks)
		require.Equal(t, o.UUID, s.UUID)
		require.Equal(t, append([]byte(nil), o.Salt...), s.Salt)
		require.EqualValues(t, len(hash)/BlockSize-1, s.TreeBlocks())
	}
}

func TestOtherSuperblocksAreRefused(t *testing.T) {
	good := written(t, 5, options(32))
	set := func(at int, value any) []byte {
		b := bytes.Clone(good)
		var w bytes.Buffer
		_ = binary.Write(&w, binary.LittleEndian, value)
		copy(b[at:], w.Bytes())
		return b
	}
	for want, b := range map[string][]byte{
		"wrong magic":               set(0, uint8('V')),
		"version 2":                 set(8, uint32(2)),
		"hash type 0":               set(12, uint32(0)),
		`hash "md5"`:                set(32, []byte("md5\x00")),
		"blocks of 512 and 4096":    set(64, uint32(512)),
		"blocks of 4096 and 1024":   set(68, uint32(1024)),
		"0 data blocks":             set(72, uint64(0)),
		"268435457 data blocks":     set(72, uint64(maxDataBlocks+1)),
		"a salt of 257 bytes":       set(80, uint16(257)),
		"511 bytes of 512":          good[:511],
		"verity superblock: 0 byte": nil,
	} {
		_, err := Parse(b)
		require.ErrorContains(t, err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(written(f, 3, options(32))[:SuperblockSize])
	f.Add([]byte("verity\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(s.Salt), maxReadSalt)
		require.Positive(t, s.DataBlocks)
		require.Less(t, s.TreeBlocks(), s.DataBlocks)
	})
}
