package ext4

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadSuperblockRefuses(t *testing.T) {
	_, err := readSuperblock(strings.NewReader(""))
	require.ErrorContains(t, err, "superblock")
	_, err = readSuperblock(strings.NewReader(strings.Repeat("\x00", 4096)))
	require.ErrorContains(t, err, "no ext4 file system")
	b := []byte(strings.Repeat("\x00", 4096))
	b[1024+0x38], b[1024+0x39], b[1024+0x18] = 0x53, 0xef, 99
	_, err = readSuperblock(strings.NewReader(string(b)))
	require.ErrorContains(t, err, "damaged")
}

func FuzzReadSuperblock(f *testing.F) {
	b := make([]byte, 2048)
	b[1024+0x38], b[1024+0x39] = 0x53, 0xef
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		if sb, err := readSuperblock(strings.NewReader(string(data))); err == nil {
			require.GreaterOrEqual(t, sb.blocks, int64(0))
			require.Positive(t, sb.blockSize)
		}
	})
}
