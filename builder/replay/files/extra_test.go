package files

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func TestANamedPipeIsMadeWhereNothingIs(t *testing.T) {
	f := New(tree.New())
	require.NoError(t, f.Mkdir("/run", 0o755))
	require.NoError(t, f.Mkfifo("/run/pipe", 0o600))
	n, err := f.Lstat("/run/pipe")
	require.NoError(t, err)
	require.Equal(t, tree.Fifo, n.Type)
	require.Equal(t, uint32(0o600), n.Mode)
	require.Nil(t, n.Content)

	require.ErrorIs(t, f.Mkfifo("/run/pipe", 0o600), fs.ErrExist)
	require.ErrorIs(t, f.Mkfifo("/missing/pipe", 0o600), fs.ErrNotExist)
	require.ErrorIs(t, f.Mkfifo("/proc/pipe", 0o600), ErrRefused)
	require.ErrorIs(t, f.Mkfifo("/dev/pipe", 0o600), ErrRefused)
}
