package rolefiles

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/datadisk"
	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/cluster"
	"spore/cluster/role"
	"spore/cluster/role/render"
)

// me is whoever runs the test, whatever the name is.
func me(owner, group string) (int, int, error) { return os.Getuid(), os.Getgid(), nil }

func file(path, text string) render.File {
	return render.File{Path: path, Data: []byte(text), Mode: 0o640, Owner: "valkey", Group: "valkey"}
}

func TestFilesAreWholeAndHaveTheirMode(t *testing.T) {
	root := t.TempDir()
	list := []render.File{file("/run/valkey/x.conf", "one"), file("/etc/valkey/deep/y.conf", "two")}
	list[1].Mode = 0o600
	for range 2 {
		require.NoError(t, Write(root, list, me))
		for _, f := range list {
			data, err := os.ReadFile(filepath.Join(root, f.Path))
			require.NoError(t, err)
			require.Equal(t, string(f.Data), string(data))
			st, err := os.Stat(filepath.Join(root, f.Path))
			require.NoError(t, err)
			require.Equal(t, f.Mode, st.Mode())
			left, err := os.ReadDir(filepath.Dir(filepath.Join(root, f.Path)))
			require.NoError(t, err)
			require.Len(t, left, 1)
		}
		list[0].Data = []byte("another")
	}
}

func TestAFileThatCannotBeWrittenSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(root string) error
		account Accounts
		want    error
		says    string
	}{
		"a link on the way": {
			prepare: func(root string) error {
				return errors.Join(os.MkdirAll(root+"/run", 0o755), os.MkdirAll(root+"/secret", 0o755), os.Symlink("../secret", root+"/run/valkey"))
			},
			want: syscall.ENOTDIR, says: "write /run/valkey/x for valkey:valkey: open the directory /run/valkey: valkey is not a directory",
		},
		"a file on the way": {
			prepare: func(root string) error {
				return errors.Join(os.MkdirAll(root+"/run", 0o755), os.WriteFile(root+"/run/valkey", nil, 0o644))
			},
			want: syscall.ENOTDIR, says: "valkey is not a directory",
		},
		"a directory of its name": {
			prepare: func(root string) error { return os.MkdirAll(root+"/run/valkey/x", 0o755) },
			says:    "write /run/valkey/x for valkey:valkey: ",
		},
		"a user that there is not": {
			account: func(string, string) (int, int, error) { return 0, 0, errors.New("unknown user valkey") },
			says:    "write /run/valkey/x for valkey:valkey: unknown user valkey",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if tc.prepare != nil {
				require.NoError(t, tc.prepare(root))
			}
			if tc.account == nil {
				tc.account = me
			}
			err := Write(root, []render.File{file("/run/valkey/x", "secret")}, tc.account)
			require.ErrorContains(t, err, tc.says)
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
			}
			left, _ := os.ReadDir(root + "/secret")
			require.Empty(t, left, "nothing went through the link")
		})
	}
}

// A link in the place of the file is replaced, and what it leads to stays.
func TestALinkInThePlaceOfAFileIsReplaced(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(root+"/run/valkey", 0o755))
	require.NoError(t, os.WriteFile(root+"/shadow", []byte("theirs"), 0o600))
	require.NoError(t, os.Symlink("../../shadow", root+"/run/valkey/x"))
	require.NoError(t, Write(root, []render.File{file("/run/valkey/x", "ours")}, me))
	data, err := os.ReadFile(root + "/shadow")
	require.NoError(t, err)
	require.Equal(t, "theirs", string(data))
	st, err := os.Lstat(root + "/run/valkey/x")
	require.NoError(t, err)
	require.True(t, st.Mode().IsRegular())
}

func TestAnAccountIsFoundByItsName(t *testing.T) {
	uid, gid, err := Account("root", "root")
	require.NoError(t, err)
	require.Zero(t, uid+gid)
	_, _, err = Account("nobody-has-this-name", "root")
	require.Error(t, err)
	_, _, err = Account("root", "nobody-has-this-name")
	require.Error(t, err)
}

// edge is edge-01 of examples/own-valkey.
func edge(t *testing.T) *node.Machine {
	m, _ := nodetest.New(t, 1)
	c, report := cluster.LoadDir("../../examples/own-valkey")
	require.False(t, report.Failed(), report.String())
	part, err := cluster.Compile(c)
	require.NoError(t, err)
	for name, data := range part {
		at := filepath.Join(m.Root.At(bootinfo.ClusterDir), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, data, 0o644))
	}
	return m
}

func TestANodeWritesTheFilesOfItsRole(t *testing.T) {
	m, given := edge(t), credentials(t.TempDir())
	t.Setenv("CREDENTIALS_DIRECTORY", string(given))
	nodetest.Is(t, m, "edge-01")
	err := Run(t.Context(), m, "valkey", me)
	require.ErrorContains(t, err, `the bundle of this node does not have the secret "valkey-password"`)
	require.NoFileExists(t, m.Root.At("/etc/valkey/valkey.conf"))
	for _, name := range []string{"valkey-password", "valkey-line-a", "valkey-gateway"} {
		require.NoError(t, os.WriteFile(given.path(name), []byte("S3CRET-"+name), 0o400))
	}
	require.NoError(t, Run(t.Context(), m, "valkey", me))
	text, err := os.ReadFile(m.Root.At("/etc/valkey/valkey.conf"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\nmaxmemory 134217728\n")
	require.Contains(t, string(text), "\nrequirepass S3CRET-valkey-password\n")
	require.Contains(t, string(text), "\nuser line-a on >S3CRET-valkey-line-a ~line-a:* ")
	require.ErrorContains(t, Run(t.Context(), m, "redis", me), `the configuration has no role of its own of this name; it has [gateway valkey]`)
}

func TestARoleWaitsForItsDisks(t *testing.T) {
	m := edge(t)
	d := &role.Definition{Name: "historian"}
	require.NoError(t, disksOf(m, d), "it has none")
	d.Disks = &role.Disks{Use: "historian", At: "/var/lib/historian-disks"}
	require.ErrorContains(t, disksOf(m, d), "the role historian waits for its disks: read what became of the disks (has spore-disks-historian.service run?): ")
	require.NoError(t, datadisk.Write(m.Root, "historian", nil))
	require.EqualError(t, disksOf(m, d), "the role historian waits for its disks: the node's file gives it none")
	require.NoError(t, datadisk.Write(m.Root, "historian", []datadisk.Info{{Number: 1}, {Number: 2, Problem: "historian disk 2: it is not empty"}}))
	require.EqualError(t, disksOf(m, d), "the role historian waits for its disks: historian disk 2: it is not empty")
	require.NoError(t, datadisk.Write(m.Root, "historian", []datadisk.Info{{Number: 1}}))
	require.NoError(t, disksOf(m, d))
}

func TestAMachineThatIsNoNodeWritesNothing(t *testing.T) {
	m := edge(t)
	nodetest.Is(t, m, "")
	require.ErrorIs(t, Run(t.Context(), m, "valkey", Account), detect.ErrUnmatched)
}

func TestASecretOfTheUnit(t *testing.T) {
	dir := credentials(t.TempDir())
	require.NoError(t, os.WriteFile(dir.path("valkey-password"), []byte("hunter2\n"), 0o400))
	value, err := dir.read("valkey-password")
	require.NoError(t, err)
	require.Equal(t, "hunter2", string(value))
	for ref, want := range map[string]string{
		"lost": `the bundle of this node does not have the secret "lost"`, "../shadow": `the secret "../shadow" was not given to this unit`,
	} {
		_, err = dir.read(ref)
		require.EqualError(t, err, want)
	}
	_, err = credentials("").read("valkey-password")
	require.EqualError(t, err, `the secret "valkey-password" was not given to this unit`)
}
