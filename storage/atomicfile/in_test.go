package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/linktrap"
)

func TestOnlyFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	linktrap.Pipe(t, pipe)
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "endless")))
	for _, path := range []string{pipe, filepath.Join(dir, "endless"), dir} {
		_, err := ReadLimited(path, 100)
		require.ErrorContains(t, err, "is not a file", path)
	}
	data, err := ReadLimited("/proc/self/comm", 100)
	require.NoError(t, err, "the kernel calls files of /proc empty")
	require.NotEmpty(t, data)
	_, err = ReadLimited("/proc/self/comm", 1)
	require.ErrorContains(t, err, "more than 1")
}

// in does all of this package in a folder of another user, at one name.
func in(t *testing.T, dir, name string) {
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, _ = ReadLimitedIn(root, name, 100)
	_ = WriteDurableIn(root, name, []byte("new"), 0o600)
	_ = WriteDurableIn(root, name+"/below", []byte("new"), 0o600)
	_ = SyncIn(root, name)
	uid := os.Getuid()
	if uid == 0 {
		uid = 4242
	}
	_ = GiveIn(root, name, uid, os.Getgid())
}

func TestInAFolderOfAnotherUserNoLinkLeadsOut(t *testing.T) {
	for _, kind := range linktrap.Kinds {
		t.Run(kind, func(t *testing.T) {
			outside, dir := linktrap.New(t, "below"), t.TempDir()
			outside.Plant(t, kind, filepath.Join(dir, "name"))
			in(t, dir, "name")
			outside.Untouched(t)
		})
	}
	t.Run("swapped while root works", func(t *testing.T) {
		outside, dir := linktrap.New(t, "below"), t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "name"), 0o700))
		outside.While(t, filepath.Join(dir, "name"), 50, func() { in(t, dir, "name") })
		outside.Untouched(t)
	})
}

func TestWhatIsWrittenInAFolderIsWholeAndAlone(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, text := range []string{"first", "second"} {
		require.NoError(t, WriteDurableIn(root, "name", []byte(text), 0o640))
		data, err := ReadLimitedIn(root, "name", 10)
		require.NoError(t, err)
		require.Equal(t, text, string(data))
	}
	st, err := os.Stat(filepath.Join(dir, "name"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), st.Mode())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Error(t, WriteDurableIn(root, "absent/name", nil, 0o600))
	require.ErrorContains(t, GiveIn(root, "name", os.Getuid(), os.Getgid()), "is not a directory")
}
