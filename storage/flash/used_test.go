package flash

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzUsed never finds more than there is, or nothing.
func FuzzUsed(f *testing.F) {
	super := make([]byte, 2*block)
	copy(super, squashfsMagic)
	binary.LittleEndian.PutUint64(super[40:], block)
	copy(super[block:], verityMagic)
	binary.LittleEndian.PutUint32(super[block+64:], block)
	binary.LittleEndian.PutUint32(super[block+68:], block)
	binary.LittleEndian.PutUint64(super[block+72:], 1)
	f.Add(super, uint32(len(super)))
	f.Add(super[:squashfsSuper], uint32(block))
	f.Add([]byte(verityMagic), uint32(0))
	f.Fuzz(func(t *testing.T, data []byte, size uint32) {
		got := Used(bytes.NewReader(data), typeRoot, int64(size))
		require.LessOrEqual(t, got, int64(size))
		require.True(t, got > 0 || size == 0, got)
	})
}
