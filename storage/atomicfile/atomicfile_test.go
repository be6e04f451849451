package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteTellsWhetherItChangedAnything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	for _, tc := range []struct {
		data    string
		mode    os.FileMode
		changed bool
	}{{"x", 0o644, true}, {"x", 0o644, false}, {"y", 0o644, true}, {"y", 0o600, true}, {"y", 0o600, false}} {
		changed, err := Write(path, []byte(tc.data), tc.mode)
		require.NoError(t, err)
		require.Equal(t, tc.changed, changed, "%s %o", tc.data, tc.mode)
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, tc.mode, st.Mode())
	}
	require.NoError(t, WriteDurable(path, []byte("z"), 0o644))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "z", string(data))
}

func TestALinkIsReplacedAndNotWrittenThrough(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(target, []byte("kept"), 0o644))
	require.NoError(t, os.Symlink(target, link))
	_, err := Write(link, []byte("kept"), 0o644)
	require.NoError(t, err)
	st, err := os.Lstat(link)
	require.NoError(t, err)
	require.True(t, st.Mode().IsRegular())
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left, "no temporary file stays behind")
}

func TestJSONIsReadBackWithinItsBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.json")
	require.NoError(t, WriteJSON(path, map[string]int{"a": 1}))
	var got map[string]int
	require.NoError(t, ReadJSON(path, &got))
	require.Equal(t, map[string]int{"a": 1}, got)
	_, err := ReadLimited(path, 3)
	require.ErrorContains(t, err, "more than 3")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o644))
	require.ErrorContains(t, ReadJSON(path, &got), path)
}
