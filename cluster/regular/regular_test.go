package regular

import (
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// atOnce fails when f takes so long that it waits for something.
func atOnce(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
}

// special lays what is not a regular file into a folder; the values say what it is.
func special(t *testing.T, dir string) map[string]string {
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "zero")))
	require.NoError(t, os.Symlink("fifo", filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "directory"), 0o755))
	return map[string]string{
		"fifo": "it is a FIFO", "link": "it is a FIFO", "socket": "it is a socket", "zero": "it is a character device", "directory": "it is a directory",
	}
}

func TestWhatIsNotARegularFileIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	for name, want := range special(t, dir) {
		atOnce(t, func() {
			_, err := Open(filepath.Join(dir, name))
			require.EqualError(t, err, "open "+filepath.Join(dir, name)+": "+want)
			if name != "directory" {
				_, err = Folder(dir).Open(name)
				require.EqualError(t, err, "open "+filepath.Join(dir, name)+": "+want)
				_, err = fs.ReadDir(Folder(dir), name)
				require.ErrorIs(t, err, unix.ENOTDIR, name)
			}
		})
	}
}

// What was a file when it was looked at may be a FIFO when it is opened.
func TestAFileThatBecomesAFIFOIsNotOpened(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	first := true
	atOnce(t, func() {
		_, err := open(name, func(info fs.FileInfo) error {
			err := Check(info)
			if first {
				first = false
				require.NoError(t, os.Remove(name))
				require.NoError(t, unix.Mkfifo(name, 0o644))
			}
			return err
		})
		require.EqualError(t, err, "open "+name+": it is a FIFO")
	})
}

func TestFilesAndLinksToThemAreRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "file"), []byte("text"), 0o644))
	require.NoError(t, os.Symlink(filepath.Join("sub", "file"), filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("sub", filepath.Join(dir, "folder")))
	require.NoError(t, fstest.TestFS(Folder(dir), "sub/file"))
	for _, name := range []string{"sub/file", "link", "folder/file"} {
		data, err := fs.ReadFile(Folder(dir), name)
		require.NoError(t, err)
		require.Equal(t, "text", string(data))
		f, err := Open(filepath.Join(dir, name))
		require.NoError(t, err)
		data, err = io.ReadAll(f)
		require.NoError(t, err)
		require.Equal(t, "text", string(data))
		require.NoError(t, f.Close())
	}
	_, err := Open(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Folder(dir).Open("../x")
	require.ErrorIs(t, err, fs.ErrInvalid)
}

func TestLinksOfAFolderCanBeToldFromWhatTheyLeadTo(t *testing.T) {
	dir := t.TempDir()
	special(t, dir)
	fsys := Folder(dir)
	info, err := fs.Lstat(fsys, "link")
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, info.Mode().Type())
	target, err := fs.ReadLink(fsys, "link")
	require.NoError(t, err)
	require.Equal(t, "fifo", target)
	_, err = fs.ReadLink(fsys, "directory")
	require.Error(t, err)
}
