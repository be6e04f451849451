package origin

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/linktrap"
)

// etcd's user, where the tests run as root.
func etcdUser() (uid, gid int) {
	if os.Geteuid() == 0 {
		return 4242, 4242
	}
	return os.Getuid(), os.Getgid()
}

// all is all that root does in etcd's folder.
func all(d Dir) {
	uid, gid := etcdUser()
	_, _ = d.Settle()
	_, _, _ = d.Member()
	_ = d.Make(form("n1"), uid, gid)
	_ = d.Write(form("n2"))
	_, _ = d.Settle()
	_ = d.PutAside(Removed)
	_ = d.PutAside(GivenUp)
	_ = d.Make(form("n3"), uid, gid)
}

// etcd's user can lay anything into its own folder. Root followed a link named member: it emptied any folder of the
// machine and gave it to etcd.
func TestALinkInEtcdsFolderLeadsNowhere(t *testing.T) {
	for _, name := range []string{"member", "member/wal", "member/" + file, "member/wal/0000000000000000-0000000000000000.wal", Removed, GivenUp, "member/snap"} {
		for _, outside := range [][]string{nil, {"wal/0000000000000000-0000000000000000.wal", "snap/db", file}} {
			for _, kind := range linktrap.Kinds {
				t.Run(fmt.Sprintf("%s is %s, %d files behind it", name, kind, len(outside)), func(t *testing.T) {
					outside := linktrap.New(t, outside...)
					d := newDir(t)
					place(t, d, promised())
					require.NoError(t, d.Write(form("n0")))
					outside.Plant(t, kind, filepath.Join(filepath.Dir(string(d)), name))
					all(d)
					outside.Untouched(t)
				})
			}
		}
	}
}

func TestALinkThatIsSwappedInWhileRootWorksLeadsNowhere(t *testing.T) {
	for _, name := range []string{"member", "member/wal"} {
		t.Run(name, func(t *testing.T) {
			outside := linktrap.New(t)
			d := newDir(t)
			place(t, d, made())
			require.NoError(t, d.Write(form("n0")))
			outside.While(t, filepath.Join(filepath.Dir(string(d)), name), 50, func() { all(d) })
			outside.Untouched(t)
		})
	}
}

func TestWhatIsNoFolderIsSaidAndLeft(t *testing.T) {
	outside := linktrap.New(t)
	d := newDir(t)
	require.NoError(t, os.Symlink(outside.Dir, string(d)))
	_, err := d.Settle()
	require.ErrorContains(t, err, "is not a directory")
	uid, gid := etcdUser()
	require.ErrorContains(t, d.Make(form("n1"), uid, gid), "is not a directory")
}

// A pipe would have root wait for ever, and a device never ends.
func TestAPipeOrADeviceIsNotRead(t *testing.T) {
	for _, target := range []string{"/dev/zero", "/dev/full"} {
		d := newDir(t)
		require.NoError(t, os.MkdirAll(string(d), 0o700))
		require.NoError(t, os.Symlink(target, filepath.Join(string(d), file)))
		_, err := d.Read()
		require.Error(t, err)
	}
	d := newDir(t)
	require.NoError(t, os.MkdirAll(walOf(d), 0o700))
	linktrap.Pipe(t, filepath.Join(string(d), file))
	_, err := d.Read()
	require.ErrorContains(t, err, "is not a file")
	require.NoError(t, os.Remove(filepath.Join(string(d), file)))
	linktrap.Pipe(t, filepath.Join(walOf(d), "0000000000000000-0000000000000000.wal"))
	_, _, err = d.Member()
	require.ErrorContains(t, err, "is not a file")
}
