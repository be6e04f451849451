package verity_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/format/verity"
)

func TestVeritysetupsTreesLeadToTheRootHash(t *testing.T) {
	for _, blocks := range []int{1, 2, 128, 129, 16384, 16385} {
		hash, root := format(t, blocks, false)
		v, err := verity.Separate(bytes.NewReader(hash), int64(len(hash)), int64(blocks*verity.BlockSize))
		require.NoError(t, err)
		tree, err := v.ReadTree(bytes.NewReader(hash), root)
		require.NoError(t, err)
		data := make([]byte, blocks*verity.BlockSize)
		require.NoError(t, v.CheckData(bytes.NewReader(data), tree))
		data[len(data)-1] ^= 1
		require.ErrorIs(t, v.CheckData(bytes.NewReader(data), tree), verity.ErrBlock)
		require.False(t, tree.Good(int64(blocks), make([]byte, verity.BlockSize)), "there is no such block")
		require.False(t, tree.Good(-1, make([]byte, verity.BlockSize)))
		require.ErrorContains(t, v.CheckData(bytes.NewReader(data[:len(data)-1]), tree), "reading block")
	}
}

func TestAFlippedBitAnywhereInATreeIsFound(t *testing.T) {
	hash, root := format(t, 129, false)
	v, err := verity.Separate(bytes.NewReader(hash), int64(len(hash)), 129*verity.BlockSize)
	require.NoError(t, err)
	for at := verity.BlockSize; at < len(hash); at += 997 {
		bad := bytes.Clone(hash)
		bad[at] ^= 0x10
		_, err := v.ReadTree(bytes.NewReader(bad), root)
		require.ErrorContains(t, err, "does not lead to the root hash", at)
	}
	_, err = v.ReadTree(bytes.NewReader(hash[:len(hash)-1]), root)
	require.ErrorContains(t, err, "reading verity tree")
	_, err = v.ReadTree(bytes.NewReader(hash), root[2:])
	require.ErrorContains(t, err, "internal error: root hash")

	single, root := format(t, 1, false)
	v, err = verity.Separate(bytes.NewReader(single), int64(len(single)), verity.BlockSize)
	require.NoError(t, err)
	v.Salt = append(bytes.Clone(v.Salt[1:]), 7)
	tree, err := v.ReadTree(bytes.NewReader(single), root)
	require.NoError(t, err, "there is no tree above a single block")
	require.ErrorIs(t, v.CheckData(bytes.NewReader(make([]byte, verity.BlockSize)), tree), verity.ErrBlock, "another salt is another hash")
}
