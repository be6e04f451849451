package killat

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProcessIsKilledBeforeEachOfItsChanges(t *testing.T) {
	var seen []string
	n := Each(t, func(t *testing.T, dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "name"), []byte("old"), 0o600))
	}, func(t *testing.T, dir string) error {
		f, err := os.Create(filepath.Join(dir, "new"))
		if err != nil {
			return err
		}
		if _, err := f.WriteString("new"); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		return os.Rename(f.Name(), filepath.Join(dir, "name"))
	}, func(t *testing.T, dir string) {
		old, err := os.ReadFile(filepath.Join(dir, "name"))
		require.NoError(t, err)
		is := "name is " + string(old)
		if fresh, err := os.ReadFile(filepath.Join(dir, "new")); err == nil {
			is += ", new is " + string(fresh)
		}
		seen = append(seen, is)
	})
	require.Equal(t, 4, n, "open, write, sync and rename")
	require.Equal(t, []string{"name is old", "name is old, new is ", "name is old, new is new", "name is old, new is new"}, seen)
}
