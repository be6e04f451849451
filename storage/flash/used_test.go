package flash

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/pieces"
)

func TestTheIndexBehindAHashTreeIsUsed(t *testing.T) {
	tree := make([]byte, 2*block)
	copy(tree, verityMagic)
	binary.LittleEndian.PutUint32(tree[64:], block)
	binary.LittleEndian.PutUint32(tree[68:], block)
	binary.LittleEndian.PutUint64(tree[72:], 7)
	index, err := make(pieces.Index, 0).EncodeBlocks()
	require.NoError(t, err)
	with := append(bytes.Clone(tree), index...)
	padded := append(bytes.Clone(with), make([]byte, 5*block)...)
	require.EqualValues(t, 3*block, Used(bytes.NewReader(padded), typeVerity, int64(len(padded))))
	require.EqualValues(t, 3*block, Used(bytes.NewReader(with), typeVerity, int64(len(with))))

	none := append(bytes.Clone(tree), make([]byte, 5*block)...)
	require.EqualValues(t, 2*block, Used(bytes.NewReader(none), typeVerity, int64(len(none))))
	require.EqualValues(t, 2*block, Used(bytes.NewReader(tree), typeVerity, int64(len(tree))))

	longer := append(bytes.Clone(tree), "SPOREPX1\x00\x03\xff\xff"...)
	require.EqualValues(t, len(longer), Used(bytes.NewReader(longer), typeVerity, int64(len(longer))), "more than there is counts whole")
}

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
