package share

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// other is a group that nobody has here.
const other = 54321

func look(t *testing.T, path string) (mode uint32, uid, gid int) {
	t.Helper()
	var st syscall.Stat_t
	require.NoError(t, syscall.Lstat(path, &st))
	return st.Mode & 0o7777, int(st.Uid), int(st.Gid)
}

func needsRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files to another group")
	}
}

func TestTheGroupMayReadWhatIsThereAndWhatComes(t *testing.T) {
	needsRoot(t)
	dir := filepath.Join(t.TempDir(), "pods")
	require.NoError(t, Folder(dir, other), "it is made")
	mode, _, gid := look(t, dir)
	require.EqualValues(t, 0o2750, mode)
	require.Equal(t, other, gid)

	container := filepath.Join(dir, "a_b_c", "d")
	require.NoError(t, os.MkdirAll(container, 0o755)) // As kubelet.
	file := filepath.Join(container, "0.log")
	require.NoError(t, os.WriteFile(file, nil, 0o640)) // As containerd.
	mode, _, gid = look(t, file)
	require.EqualValues(t, 0o640, mode)
	require.Equal(t, other, gid, "it has the group of its folder")

	old := filepath.Join(t.TempDir(), "old")
	deep := filepath.Join(old, "a_b_c", "d")
	require.NoError(t, os.MkdirAll(deep, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(deep, "0.log"), nil, 0o600))
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, nil, 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(deep, "1.log")))
	require.NoError(t, os.Link(secret, filepath.Join(deep, "2.log")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(deep, "3.log"), 0o600))
	for range 2 {
		require.NoError(t, Folder(old, other))
		mode, _, gid = look(t, filepath.Join(deep, "0.log"))
		require.EqualValues(t, 0o640, mode)
		require.Equal(t, other, gid)
		mode, _, _ = look(t, deep)
		require.EqualValues(t, 0o2750, mode)
	}
	mode, _, gid = look(t, secret)
	require.EqualValues(t, 0o600, mode)
	require.NotEqual(t, other, gid, "neither by a symbolic link nor by another name")

	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(old, link))
	require.Error(t, Folder(link, other))
}

func TestAProgramOfTheGroupReadsWithoutACapability(t *testing.T) {
	needsRoot(t)
	top, err := os.MkdirTemp("", "share")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(top)) })
	require.NoError(t, os.Chmod(top, 0o755))
	dir := filepath.Join(top, "pods")
	require.NoError(t, os.Mkdir(dir, 0o750)) // As kubelet.
	require.NoError(t, Folder(dir, other))
	file := filepath.Join(dir, "a_b_c", "d", "0.log")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("a line"), 0o640))
	read := func(gid uint32) (string, error) {
		cmd := exec.Command("/bin/cat", file)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: gid}}
		out, err := cmd.Output()
		return string(out), err
	}
	text, err := read(other)
	require.NoError(t, err)
	require.Equal(t, "a line", text)
	_, err = read(other + 1)
	require.Error(t, err, "who is not of the group may not")
}

func TestTheFileOfAnAccountIsMadeForItsGroup(t *testing.T) {
	needsRoot(t)
	dir := filepath.Join(t.TempDir(), "kubernetes")
	check := func() {
		t.Helper()
		mode, uid, gid := look(t, dir)
		require.EqualValues(t, 0o750, mode)
		require.Equal(t, []int{other, other}, []int{uid, gid})
		mode, uid, gid = look(t, filepath.Join(dir, "audit.log"))
		require.EqualValues(t, 0o640, mode)
		require.Equal(t, []int{other, other}, []int{uid, gid})
	}
	require.NoError(t, File(dir, "audit.log", other, other))
	check()
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "audit.log"), []byte("a record\n"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(dir, "audit.log"), 0o600))
	require.NoError(t, File(dir, "audit.log", other, other))
	check()
	data, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	require.NoError(t, err)
	require.Equal(t, "a record\n", string(data), "what it has stays")

	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, nil, 0o600))
	for _, place := range []func(string, string) error{os.Symlink, os.Link, func(_, at string) error { return syscall.Mkfifo(at, 0o600) }} {
		require.NoError(t, os.Remove(filepath.Join(dir, "audit.log")))
		require.NoError(t, place(secret, filepath.Join(dir, "audit.log")))
		require.Error(t, File(dir, "audit.log", other, other))
	}
	mode, uid, _ := look(t, secret)
	require.EqualValues(t, 0o600, mode)
	require.Zero(t, uid)
}
