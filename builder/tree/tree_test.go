package tree

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPathsAreResolvedThroughMergedUsr(t *testing.T) {
	tr := New()
	require.NoError(t, tr.Mkdir("/usr/bin", 0o755))
	require.NoError(t, tr.Symlink("usr/bin", "/bin", "step:usr-merge"))
	require.NoError(t, tr.WriteFile("/bin/sh", []byte("x"), 0o755, "deb:dash_1"))
	require.True(t, tr.Exists("/usr/bin/sh"))

	n, err := tr.Lstat("/bin")
	require.NoError(t, err)
	require.Equal(t, Symlink, n.Type)
}

func TestADirectoryDoesNotReplaceALinkToADirectory(t *testing.T) {
	tr := New()
	require.NoError(t, tr.Mkdir("/usr/lib", 0o755))
	require.NoError(t, tr.Symlink("usr/lib", "/lib", ""))
	require.NoError(t, tr.Add("/lib", &Inode{Type: Dir, Mode: 0o700}))
	n, err := tr.Lstat("/lib")
	require.NoError(t, err)
	require.Equal(t, Symlink, n.Type)
}

func TestRefusals(t *testing.T) {
	for name, do := range map[string]func(*Tree) error{
		"a file in the place of a full directory": func(tr *Tree) error {
			_ = tr.WriteFile("/a/b", nil, 0o644, "")
			return tr.WriteFile("/a", nil, 0o644, "")
		},
		"a file below a file": func(tr *Tree) error {
			_ = tr.WriteFile("/a", nil, 0o644, "")
			return tr.WriteFile("/a/b", nil, 0o644, "")
		},
		"a loop of links": func(tr *Tree) error {
			_ = tr.Symlink("/b", "/a", "")
			_ = tr.Symlink("/a", "/b", "")
			return tr.WriteFile("/a/x", nil, 0o644, "")
		},
		"removing the root": func(tr *Tree) error { return tr.Remove("/") },
		"a hard link to a directory": func(tr *Tree) error {
			_ = tr.Mkdir("/d", 0o755)
			return tr.Link("/d", "/e")
		},
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, do(New())) })
	}
}

func TestWalkOrderIsElementByElement(t *testing.T) {
	tr := New()
	for _, p := range []string{"/a-b", "/a/b", "/a/a", "/a.c"} {
		require.NoError(t, tr.WriteFile(p, nil, 0o644, ""))
	}
	require.Equal(t, []string{"/", "/a", "/a/a", "/a/b", "/a-b", "/a.c"}, tr.Paths())
}

func TestRemoveTakesWhatIsBelow(t *testing.T) {
	tr := New()
	require.NoError(t, tr.WriteFile("/a/b/c", nil, 0o644, ""))
	require.NoError(t, tr.WriteFile("/a/bc", nil, 0o644, ""))
	require.NoError(t, tr.Remove("/a/b"))
	_, err := tr.Stat("/a/b/c")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, []string{"bc"}, tr.Children("/a"))
}
