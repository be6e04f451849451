package cluster

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/cluster/check"
)

// special makes what is not a regular file, by the names that problems have for it.
var special = map[string]func(t *testing.T, path string){
	"a FIFO": func(t *testing.T, path string) { require.NoError(t, unix.Mkfifo(path, 0o644)) },
	"a socket": func(t *testing.T, path string) {
		// The path of a socket is short (sun_path), that of a test's folder is not.
		dir, err := os.MkdirTemp("", "spore")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		l, err := net.Listen("unix", filepath.Join(dir, "s"))
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		require.NoError(t, os.Symlink(filepath.Join(dir, "s"), path))
	},
	"a character device": func(t *testing.T, path string) { require.NoError(t, os.Symlink("/dev/zero", path)) },
	"a directory":        func(t *testing.T, path string) { require.NoError(t, os.Symlink("/", path)) },
}

// loadAtOnce fails when loading takes so long that it waits for something.
func loadAtOnce(t *testing.T, dir string) check.Report {
	t.Helper()
	done := make(chan check.Report, 1)
	go func() { _, report := LoadDir(dir); done <- report }()
	select {
	case report := <-done:
		return report
	case <-time.After(20 * time.Second):
		require.FailNow(t, "loading waits for something")
		return nil
	}
}

func copyFolder(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, goodFolder(t)))
	return dir
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	for what, lay := range special {
		for _, name := range []string{"cluster.yaml", "image.yaml", "services/mqtt.yaml", "nodes/worker-02.yaml", "nodes/another.yaml"} {
			t.Run(what+" as "+name, func(t *testing.T) {
				dir := copyFolder(t)
				path := filepath.Join(dir, name)
				require.NoError(t, os.RemoveAll(path))
				lay(t, path)
				report := loadAtOnce(t, dir)
				require.Contains(t, report.String(), name+":1:1: error: cannot be read: it is "+what+"; put a regular file there, or a link to one\n")
			})
		}
		t.Run(what+" as an archive", func(t *testing.T) {
			dir := copyFolder(t)
			lay(t, filepath.Join(dir, "app.tar"))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "services/kubernetes.yaml"), []byte("images: [app.tar]\n"), 0o644))
			require.Empty(t, loadAtOnce(t, dir))
			c, _ := LoadDir(dir)
			require.Contains(t, Validate(c, Options{}).String(), "error: the archive app.tar cannot be read: it is "+what+"; ")
		})
	}
}

func TestAFolderThatIsNone(t *testing.T) {
	for _, name := range []string{"services", "nodes"} {
		dir := copyFolder(t)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
		require.NoError(t, unix.Mkfifo(filepath.Join(dir, name), 0o644))
		require.Contains(t, loadAtOnce(t, dir).String(), name+":1:1: error: cannot be read: not a directory\n")
	}
}

func TestLinksToFilesAreRead(t *testing.T) {
	dir, elsewhere := copyFolder(t), t.TempDir()
	for _, name := range []string{"cluster.yaml", "services/mqtt.yaml", "nodes/worker-02.yaml"} {
		target := filepath.Join(elsewhere, strings.ReplaceAll(name, "/", "-"))
		require.NoError(t, os.Rename(filepath.Join(dir, name), target))
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	require.Empty(t, loadAtOnce(t, dir))
}
