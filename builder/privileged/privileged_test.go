package privileged

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
	"spore/cluster/filecap"
)

// add adds a program to a tree.
func add(t *testing.T, tr *tree.Tree, path string, n tree.Inode) {
	t.Helper()
	n.Type, n.Content = tree.Regular, tree.Bytes("elf")
	require.NoError(t, tr.Add(path, &n))
}

func TestFilesThatGiveRightsAreListed(t *testing.T) {
	set, err := filecap.Parse("cap_net_raw=ep")
	require.NoError(t, err)
	capable := []tree.Xattr{{Name: filecap.Attribute, Value: set.Value()}, {Name: "user.other", Value: []byte("x")}}
	tr := tree.New()
	passwd := "root:x:0:0::/root:/bin/sh\nbroken\n:x:5\ntoor:x:0:0::/:/bin/sh\n"
	require.NoError(t, tr.WriteFile("/etc/passwd", []byte(passwd), 0o644, ""))
	require.NoError(t, tr.WriteFile("/etc/group", []byte("root:x:0:\nshadow:x:42:\n"), 0o644, ""))
	add(t, tr, "/usr/bin/chage", tree.Inode{Mode: 0o2755, GID: 42, Origin: "deb:passwd_1:4.17.4-2"})
	add(t, tr, "/usr/bin/ping", tree.Inode{Mode: 0o755, Xattrs: capable, Origin: "deb:iputils-ping_1"})
	add(t, tr, "/usr/bin/su", tree.Inode{Mode: 0o4755, UID: 7, GID: 8, Origin: "script:python3.13.postinst"})
	add(t, tr, "/usr/bin/sticky", tree.Inode{Mode: 0o1755})
	require.NoError(t, tr.Add("/usr/bin/link", &tree.Inode{Mode: 0o6777, Type: tree.Symlink, Target: "su"}))
	require.NoError(t, tr.Add("/var/log/journal", &tree.Inode{Mode: 0o2755, Type: tree.Dir}))
	add(t, tr, "/usr/bin/none", tree.Inode{Mode: 0o755, Xattrs: []tree.Xattr{{Name: filecap.Attribute, Value: filecap.Set{}.Value()}}})
	add(t, tr, "/usr/bin/other", tree.Inode{Mode: 0o755, Xattrs: []tree.Xattr{{Name: "user.other"}}})
	files, err := List(tr)
	require.NoError(t, err)
	require.Equal(t, []File{
		{Path: "/usr/bin/chage", Owner: "root", Group: "shadow", Mode: "2755", Package: "passwd"},
		{Path: "/usr/bin/ping", Owner: "root", Group: "root", Mode: "0755", Package: "iputils-ping",
			Capabilities: "cap_net_raw=ep"},
		{Path: "/usr/bin/su", Owner: "7", Group: "8", Mode: "4755", Package: "python3.13"},
	}, files)
	require.Equal(t, "0755 root:root cap_net_raw=ep", files[1].String())
	require.Equal(t, "4755 7:8", files[2].String())
}

func TestARootWithoutAccountsHasNumbers(t *testing.T) {
	tr := tree.New()
	add(t, tr, "/usr/bin/su", tree.Inode{Mode: 0o4755, Origin: "overlay:usr/bin/su"})
	files, err := List(tr)
	require.NoError(t, err)
	want := File{Path: "/usr/bin/su", Owner: "0", Group: "0", Mode: "4755", Package: "overlay:usr/bin/su"}
	require.Equal(t, []File{want}, files)
}

func TestCapabilitiesOfAnUnknownFormAreAnError(t *testing.T) {
	tr := tree.New()
	add(t, tr, "/usr/bin/x", tree.Inode{Xattrs: []tree.Xattr{{Name: filecap.Attribute, Value: []byte{1}}}})
	_, err := List(tr)
	require.ErrorContains(t, err, "/usr/bin/x: the attribute security.capability has 1 bytes")
}

func TestPackages(t *testing.T) {
	for origin, want := range map[string]string{
		"deb:su_1": "su", "deb:g++_4:14.2.0-1": "g++",
		"script:nginx.postinst": "nginx", "script:": "", "step:pam": "step:pam", "": "",
	} {
		require.Equal(t, want, Package(origin), origin)
	}
}

func FuzzAccounts(f *testing.F) {
	f.Add([]byte("root:x:0:0::/root:/bin/sh\n"), uint32(0))
	f.Fuzz(func(t *testing.T, passwd []byte, id uint32) {
		file, err := NewAccounts(passwd, passwd).describe("/x", &tree.Inode{UID: id, GID: id})
		require.NoError(t, err)
		require.NotEmpty(t, file.Owner)
		require.NotContains(t, file.Owner, ":")
	})
}
