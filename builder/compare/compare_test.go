package compare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/manifest"
	"spore/builder/rootfs"
	"spore/builder/rootfs/rootfstest"
	"spore/builder/tree"
)

func sample(t testing.TB, cmdline string, m manifest.Manifest, change func(root, cluster *tree.Tree)) *rootfs.Image {
	t.Helper()
	root, cluster := tree.New(), tree.New()
	require.NoError(t, cluster.WriteFile("/cluster.yaml", []byte("a: 1"), 0o644, ""))
	for _, p := range []string{"/a", "/a-b", "/a.d/x", "/usr/bin/keep", "/usr/bin/mode", "/usr/bin/owner", "/usr/bin/content", "/usr/bin/type", "/usr/bin/gone", "/usr/bin/time"} {
		require.NoError(t, root.WriteFile(p, []byte("text of "+p), 0o644, "deb:a_1"))
	}
	require.NoError(t, root.Symlink("keep", "/usr/bin/link", "deb:a_1"))
	change(root, cluster)
	i := rootfstest.Image(t, root, cluster, m, nil)
	i.UKI.Cmdline = cmdline
	return i
}

func TestProgramsThatGiveRightsAreCompared(t *testing.T) {
	root := func(version string, change func(mode map[string]uint32)) *rootfs.Image {
		return sample(t, "", manifest.Manifest{}, func(root, _ *tree.Tree) {
			require.NoError(t, root.WriteFile("/etc/passwd", []byte("root:x:0:0::/root:/bin/sh\n"), 0o644, ""))
			mode := map[string]uint32{"/usr/bin/su": 0o4755, "/usr/bin/passwd": 0o4755, "/usr/bin/crontab": 0o2755}
			change(mode)
			for p, m := range mode {
				require.NoError(t, root.WriteFile(p, []byte(version), m, "deb:b_"+version))
			}
		})
	}
	old := root("1", func(map[string]uint32) {})
	fresh := root("2", func(mode map[string]uint32) {
		mode["/usr/bin/passwd"], mode["/usr/bin/crontab"], mode["/usr/bin/sudo"] = 0o755, 0o6755, 0o4111
	})
	d, err := Images(old, fresh)
	require.NoError(t, err)
	require.Equal(t, []Value{
		{"/usr/bin/crontab", "2755 root:0 of b", "6755 root:0 of b"},
		{"/usr/bin/passwd", "4755 root:0 of b", ""},
		{"/usr/bin/sudo", "", "4111 root:0 of b"},
	}, d.Privileged, "another version alone of /usr/bin/su does not count")
	d, err = Images(old, root("1", func(map[string]uint32) {}))
	require.NoError(t, err)
	require.Empty(t, d.Privileged)
}

func TestImagesAreCompared(t *testing.T) {
	same := func(_, _ *tree.Tree) {}
	m := manifest.Manifest{Kernel: "6.1", Packages: []manifest.Package{{Name: "a", Version: "1"}, {Name: "b", Version: "1"}, {Name: "c", Version: "1"}},
		Payloads: []manifest.Payload{{Name: "p", Version: "v1", SHA256: "1", Modules: []manifest.Module{{Path: "x", Version: "v1"}, {Path: "y", Version: "v1"}}}, {Name: "q", Version: "v1", SHA256: "123456789abcdef"}}}
	n := manifest.Manifest{Kernel: "6.2", Packages: []manifest.Package{{Name: "a", Version: "2"}, {Name: "b", Version: "1"}, {Name: "d", Version: "1"}},
		Payloads: []manifest.Payload{{Name: "p", Version: "v2", SHA256: "2", Modules: []manifest.Module{{Path: "x", Version: "v2"}, {Path: "y", Version: "v1"}}}, {Name: "q", Version: "v1", SHA256: "fedcba987654321"}}}
	old := sample(t, "roothash=1 ro console=tty0", m, same)
	fresh := sample(t, "roothash=2 ro quiet console=ttyS0", n, func(root, cluster *tree.Tree) {
		require.NoError(t, cluster.WriteFile("/cluster.yaml", []byte("a: 2"), 0o644, ""))
		require.NoError(t, cluster.WriteFile("/new.yaml", []byte("secret"), 0o644, ""))
		for p, change := range map[string]func(n *tree.Inode){
			"/usr/bin/mode": func(n *tree.Inode) { n.Mode = 0o755 }, "/usr/bin/owner": func(n *tree.Inode) { n.UID = 5 },
			"/usr/bin/content": func(n *tree.Inode) { n.Content = tree.Bytes("text of /usr/bin/CONTENT") },
			"/usr/bin/time":    func(n *tree.Inode) { n.MTime = 7 }, "/usr/bin/link": func(n *tree.Inode) { n.Target = "mode" },
		} {
			n, err := root.Lstat(p)
			require.NoError(t, err)
			change(n)
		}
		require.NoError(t, root.Remove("/usr/bin/type"))
		require.NoError(t, root.Symlink("x", "/usr/bin/type", "deb:a_1"))
		require.NoError(t, root.Remove("/usr/bin/gone"))
		require.NoError(t, root.WriteFile("/a/../a.d/new", []byte("n"), 0o644, "unit:new"))
	})
	d, err := Images(old, fresh)
	require.NoError(t, err)
	require.Equal(t, []Value{{"a", "1", "2"}, {"c", "1", ""}, {"d", "", "1"}}, d.Packages)
	require.Equal(t, []Payload{{Value{"p", "v1", "v2"}, []Value{{"x", "v1", "v2"}}}, {Value{"q", "v1 (123456789abc)", "v1 (fedcba987654)"}, nil}}, d.Payloads)
	require.Equal(t, []Value{{"kernel", "6.1", "6.2"}}, d.Image)
	require.Equal(t, []Value{{"console", "tty0", "ttyS0"}, {"quiet", "", "set"}}, d.Arguments)
	require.Equal(t, []File{{Path: "/cluster.yaml", Change: Changed, What: []string{"content"}, OldSize: 4, NewSize: 4}, {Path: "/new.yaml", Change: Added, NewSize: 6}}, d.Cluster)
	require.Equal(t, []File{
		{"/a.d/new", Added, nil, 0, 1, "unit:new"},
		{"/usr/bin/content", Changed, []string{"content"}, 24, 24, "deb:a_1"},
		{"/usr/bin/gone", Removed, nil, 21, 0, "deb:a_1"},
		{"/usr/bin/link", Changed, []string{"target"}, 0, 0, "deb:a_1"},
		{"/usr/bin/mode", Changed, []string{"mode"}, 21, 21, "deb:a_1"},
		{"/usr/bin/owner", Changed, []string{"owner"}, 22, 22, "deb:a_1"},
		{"/usr/bin/type", Changed, []string{"type"}, 21, 0, "deb:a_1"},
	}, d.Root)
	require.False(t, d.Same())

	d, err = Images(old, sample(t, "roothash=3 ro console=tty0", m, same))
	require.NoError(t, err)
	require.True(t, d.Same(), "%+v", d)
}
