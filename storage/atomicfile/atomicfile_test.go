package atomicfile

import (
	"errors"
	"io/fs"
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

func TestAFileIsWrittenWholeOrNotAtAll(t *testing.T) {
	full := errors.New("disk full")
	for _, safety := range []Safety{Unsynced, Whole, Durable} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x")
		says := func(want string, mode os.FileMode) {
			t.Helper()
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, want, string(data))
			st, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, mode, st.Mode())
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "no temporary file stays behind")
		}
		require.NoError(t, Replace(path, []byte("old"), 0o640, safety))
		says("old", 0o640)
		err := Fill(path, 0o644, safety, func(f *os.File) error {
			_, err := f.WriteString("ne")
			return errors.Join(err, full)
		})
		require.ErrorIs(t, err, full)
		require.ErrorContains(t, err, path)
		says("old", 0o640)
		require.NoError(t, Fill(path, 0o644, safety, func(f *os.File) error {
			_, err := f.WriteString("new")
			return err
		}))
		says("new", 0o644)
		require.ErrorIs(t, Replace(filepath.Join(dir, "absent", "x"), nil, 0o600, safety), fs.ErrNotExist, "it makes no directories")
		require.Error(t, Replace(dir, nil, 0o600, safety), "it replaces no directory")
		says("new", 0o644)
	}
}

func TestReplaceWritesAnewWhatSaysTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, Replace(path, []byte("x"), 0o600, Unsynced))
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, Replace(path, []byte("x"), 0o600, Unsynced))
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.False(t, os.SameFile(before, after))
}

func TestAFileThatCouldNotGetItsNameStaysItsWritersOwn(t *testing.T) {
	dir := t.TempDir()
	f, err := os.CreateTemp(dir, "draft-*")
	require.NoError(t, err)
	err = Finish(f, filepath.Join(dir, "absent", "x"), 0o600, Durable)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.FileExists(t, f.Name())
	require.ErrorIs(t, f.Close(), os.ErrClosed)

	f, err = os.CreateTemp(dir, "draft-*")
	require.NoError(t, err)
	require.NoError(t, Finish(f, filepath.Join(dir, "x"), 0o640, Whole))
	require.NoFileExists(t, f.Name())
	st, err := os.Stat(filepath.Join(dir, "x"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), st.Mode())
}

func TestALinkIsExchangedForAnother(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("cut off", filepath.Join(dir, ".link.new")))
	for _, target := range []string{"a", "b"} {
		require.NoError(t, Link(target, path))
		got, err := os.Readlink(path)
		require.NoError(t, err)
		require.Equal(t, target, got)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.Error(t, Link("a", filepath.Join(dir, "folder")))
	require.NoFileExists(t, filepath.Join(dir, ".folder.new"))
	require.ErrorIs(t, Link("a", filepath.Join(dir, "absent", "link")), fs.ErrNotExist)
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

func TestWhatAKilledProcessLeftIsCleared(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	require.NoError(t, Clear(filepath.Join(dir, "absent", "x.json")))
	for _, name := range []string{"x.json", ".x.json-1", ".x.json-23", ".y.json-1", ".x.lock", "x.json-1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".x.json-dir"), 0o700))
	require.NoError(t, Clear(path))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.Equal(t, []string{".x.json-dir", ".x.lock", ".y.json-1", "x.json", "x.json-1"}, left)
}
