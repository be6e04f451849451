// Package renderingtest has what tests of renderings share.
package renderingtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/rendering"
)

// Golden compares the files of a program with those in testdata/NAME; UPDATE=1 writes them instead.
func Golden(t *testing.T, name string, files map[string]rendering.File) {
	t.Helper()
	dir := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.RemoveAll(dir))
		for file, f := range files {
			path := filepath.Join(dir, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, f.Data, 0o644))
		}
	}
	found := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		found++
		file, _ := filepath.Rel(dir, path)
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, files, file)
		require.Equal(t, string(want), string(files[file].Data), "%s of %s; UPDATE=1 go test writes it anew", file, name)
		return nil
	}))
	require.Equal(t, len(files), found, "files in %s", dir)
}
