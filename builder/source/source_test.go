package source

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	require.NoError(t, os.MkdirAll(deep, 0o755))
	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("// x\n\nmodule spore\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(other, "go.mod"), []byte("module other\n"), 0o644))

	got, err := Find("", other, deep)
	require.NoError(t, err)
	require.Equal(t, root, got)

	_, err = Find(other)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = Find("", other)
	require.ErrorIs(t, err, ErrNotFound)
}
