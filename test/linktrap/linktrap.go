// Package linktrap is for tests of what root does in a folder that another user can write: it plants links that lead
// out of the folder, also while root works, and holds that nothing outside changes owner, mode, content or existence.
package linktrap

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Stranger owns what is outside, where a test runs as root: neither root nor the user of a service.
const Stranger = 4321

// Outside is a folder that nobody who works in another one may change.
type Outside struct {
	Dir    string
	before string
}

// New makes it, with the names in it that a program looks for behind a link; a name with a slash at its end is a
// folder.
func New(t *testing.T, names ...string) *Outside {
	t.Helper()
	o := &Outside{Dir: filepath.Join(t.TempDir(), "outside")}
	require.NoError(t, os.Mkdir(o.Dir, 0o751))
	for _, name := range append([]string{"file", "folder/", "folder/kept"}, names...) {
		path := filepath.Join(o.Dir, name)
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(path, 0o751))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o751))
		require.NoError(t, os.WriteFile(path, []byte("the content of "+name+"\n"), 0o640))
	}
	if os.Geteuid() == 0 {
		require.NoError(t, filepath.WalkDir(o.Dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, Stranger, Stranger)
		}))
	}
	o.before = o.look(t)
	return o
}

// Kinds are what an attacker can lay at a path.
var Kinds = []string{"a link to a folder", "a link to a file", "a link to what is not there yet", "a relative link", "another name of a file"}

// Plant lays one of Kinds at a path, in the place of what is there.
func (o *Outside) Plant(t *testing.T, kind, path string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	switch kind {
	case "a link to a folder":
		require.NoError(t, os.Symlink(o.Dir, path))
	case "a link to a file":
		require.NoError(t, os.Symlink(filepath.Join(o.Dir, "file"), path))
	case "a link to what is not there yet":
		require.NoError(t, os.Symlink(filepath.Join(o.Dir, "absent"), path))
	case "a relative link":
		target, err := filepath.Rel(filepath.Dir(path), o.Dir)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(target, path))
	case "another name of a file": // Where the kernel lets a user make one (fs.protected_hardlinks=0).
		require.NoError(t, os.Link(filepath.Join(o.Dir, "file"), path))
	default:
		require.Fail(t, "unknown kind", kind)
	}
}

// While runs do again and again, and swaps what is at a path for a link to the outside all the time. do may fail; what
// it did is for Untouched.
func (o *Outside) While(t *testing.T, path string, times int, do func()) {
	t.Helper()
	other := filepath.Join(filepath.Dir(path), ".swapped")
	require.NoError(t, os.Symlink(o.Dir, other))
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default: // Where path is not there at the moment, it comes back as a link.
				if unix.Renameat2(unix.AT_FDCWD, other, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE) != nil {
					_ = os.Symlink(o.Dir, path)
				}
			}
		}
	})
	for range times {
		do()
	}
	close(stop)
	swaps.Wait()
}

// Untouched holds that nothing outside has changed.
func (o *Outside) Untouched(t *testing.T) {
	t.Helper()
	require.Equal(t, o.before, o.look(t), "something outside of the folder was changed")
}

func (o *Outside) look(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(o.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %o %d:%d", strings.TrimPrefix(path, o.Dir), st.Mode, st.Uid, st.Gid)
		if e.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", data)
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

// Pipe makes a pipe that nobody writes to: whoever opens it to read waits for ever.
func Pipe(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, unix.Mkfifo(path, 0o666))
}
