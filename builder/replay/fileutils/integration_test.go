//go:build integration

package fileutils

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/builder/replay/files"
	"spore/builder/tree"
)

// TestTheRowsAreWhatTheToolsOfTheHostDo asks coreutils and findutils of the host, which in Debian are those of the
// image. As root owners are compared too.
func TestTheRowsAreWhatTheToolsOfTheHostDo(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to other accounts")
	}
	for _, file := range rowFiles(t) {
		common, rows := readRows(t, file)
		for _, r := range rows {
			if r.host != "" {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".rows")+"/"+r.name, func(t *testing.T) {
				before := r.before
				if len(before) == 0 {
					before = common
				}
				ours := filesOf(t, before)
				dir := t.TempDir()
				toHost(t, ours.Tree(), dir)
				was := list(t, fromHost(t, dir))
				args, stdin := words(r.line)
				if _, err := exec.LookPath(args[0]); err != nil {
					t.Skipf("the host has no %s", args[0])
				}
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir, cmd.Env = dir, []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
				var stdout, stderr bytes.Buffer
				cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
				err := cmd.Run()
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) {
					require.NoError(t, err)
				}
				// Usage texts come behind the messages and are not replayed.
				messages := strings.SplitAfter(stderr.String(), "\n")
				if ours := told(r.result); cmd.ProcessState.ExitCode() != 0 && ours > 0 && ours < len(messages) {
					messages = messages[:ours]
				}
				got := outcome(cmd.ProcessState.ExitCode(), stdout.String(), strings.Join(messages, ""), nil, was,
					list(t, fromHost(t, dir)))
				require.Equal(t, got, r.result, r.line)
			})
		}
	}
}

// told counts the lines of standard error in a result.
func told(result []string) int {
	count := 0
	for _, line := range result {
		if line[0] == '2' {
			count++
		}
	}
	return count
}

// toHost writes what is below /w into a folder of the host.
func toHost(t *testing.T, tr *tree.Tree, dir string) {
	t.Helper()
	first := map[*tree.Inode]string{}
	require.NoError(t, tr.Walk(func(p string, n *tree.Inode) error {
		name, ok := strings.CutPrefix(p, "/w/")
		if !ok {
			return nil
		}
		to := filepath.Join(dir, name)
		if have, ok := first[n]; ok {
			return os.Link(have, to)
		}
		first[n] = to
		switch n.Type {
		case tree.Dir:
			require.NoError(t, os.Mkdir(to, 0o700))
		case tree.Regular:
			data, err := tr.ReadFile(p)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(to, data, 0o600))
		case tree.Symlink:
			require.NoError(t, os.Symlink(n.Target, to))
		case tree.Fifo:
			require.NoError(t, syscall.Mkfifo(to, 0o600))
		}
		require.NoError(t, os.Lchown(to, int(n.UID), int(n.GID)))
		if n.Type != tree.Symlink {
			require.NoError(t, syscall.Chmod(to, n.Mode))
		}
		when := unix.Timespec{Sec: n.MTime}
		return unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW)
	}))
	// What was made in directories changed their time stamps.
	require.NoError(t, tr.Walk(func(p string, n *tree.Inode) error {
		if name, ok := strings.CutPrefix(p, "/w/"); ok && n.Type == tree.Dir {
			return os.Chtimes(filepath.Join(dir, name), time.Unix(n.MTime, 0), time.Unix(n.MTime, 0))
		}
		return nil
	}))
}

// fromHost reads a folder of the host as /w.
func fromHost(t *testing.T, dir string) *files.Files {
	t.Helper()
	tr := tree.New()
	inodes := map[string]*tree.Inode{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		var st syscall.Stat_t
		require.NoError(t, syscall.Lstat(p, &st))
		to := "/w" + strings.TrimPrefix(p, dir)
		key := fmt.Sprintf("%d:%d", st.Dev, st.Ino)
		if have := inodes[key]; have != nil {
			return tr.Add(to, have)
		}
		n := &tree.Inode{Mode: st.Mode & all, UID: st.Uid, GID: st.Gid, MTime: st.Mtim.Sec}
		inodes[key] = n
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			n.Type = tree.Dir
		case syscall.S_IFREG:
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			n.Type, n.Content = tree.Regular, tree.Bytes(data)
			value := make([]byte, 64)
			if length, err := syscall.Getxattr(p, capability, value); err == nil {
				n.Xattrs = []tree.Xattr{{Name: capability, Value: value[:length]}}
			}
		case syscall.S_IFLNK:
			target, err := os.Readlink(p)
			require.NoError(t, err)
			n.Type, n.Target = tree.Symlink, target
		case syscall.S_IFIFO:
			n.Type = tree.Fifo
		}
		return tr.Add(to, n)
	}))
	return files.New(tr)
}
