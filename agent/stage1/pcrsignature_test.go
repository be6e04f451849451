package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASmallFileIsCopiedForEverybody(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "run/systemd/to")
	require.ErrorIs(t, copyPublic(from, to), os.ErrNotExist)
	require.NoFileExists(t, to)
	require.NoError(t, os.WriteFile(from, []byte("{}"), 0o400))
	require.NoError(t, copyPublic(from, to))
	data, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, "{}", string(data))
	st, err := os.Stat(to)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o444), st.Mode().Perm())
}

func TestAFileOfAnySizeIsNotCopied(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, os.WriteFile(from, make([]byte, maxPCRSignature+1), 0o400))
	require.ErrorContains(t, copyPublic(from, to), "more than 65536 bytes")
	require.NoFileExists(t, to)
}
