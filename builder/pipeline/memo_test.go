package pipeline

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/store"
)

// A value that was damaged can still be good JSON: only the store's checksum tells.
func TestAMemoIsReadByTheStoresChecksum(t *testing.T) {
	s, err := store.Open(t.TempDir())
	require.NoError(t, err)
	b := &build{Options: Options{Store: s, Tool: "tool"}}
	made := 0
	get := func() (map[string]int, error) {
		return memo(b, "test", []string{"input"}, func() (map[string]int, error) {
			made++
			return map[string]int{"value": 1234}, nil
		})
	}
	want := map[string]int{"value": 1234}
	for range 2 {
		got, err := get()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, 1, made)

	path := s.Path(store.KeyOf("test", "tool", "input"))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, bytes.Replace(data, []byte("1234"), []byte("1235"), 1), 0o600))
	_, err = get()
	require.ErrorIs(t, err, store.ErrDamaged)

	got, err := get()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, 2, made, "made anew, as the damaged one is gone")
}
