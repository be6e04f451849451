package recipe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func TestPackagesAreUnpackedThroughMergedLinks(t *testing.T) {
	r := compose(t, Options{},
		pkg("a", "", dirEntry("/lib", 0o755), dirEntry("/lib/a", 0o755), fileEntry("/lib/a/x", "x", 0o644), dirEntry("/bin", 0o755), fileEntry("/bin/a", "a", 0o755)),
		pkg("base-files", "", linkEntry("/bin", "usr/bin"), linkEntry("/lib", "usr/lib")))
	require.Equal(t, "x", text(t, r.Tree, "/usr/lib/a/x"))
	require.Equal(t, "a", text(t, r.Tree, "/usr/bin/a"))
	for _, d := range mergedDirs {
		n, err := r.Tree.Lstat("/" + d)
		require.NoError(t, err)
		require.Equal(t, tree.Symlink, n.Type, d)
	}
}

func TestADirectoryKeepsTheModeOfItsFirstPackage(t *testing.T) {
	r := compose(t, Options{},
		pkg("a", "", dirEntry("/opt", 0o700)),
		pkg("base-files", "", dirEntry("/opt", 0o755)))
	n, err := r.Tree.Stat("/opt")
	require.NoError(t, err)
	require.Equal(t, uint32(0o755), n.Mode)
	require.NotEmpty(t, r.Report.Notes())
}

func TestHardLinksStayHardLinks(t *testing.T) {
	x := fileEntry("/usr/bin/x", "x", 0o755)
	r := compose(t, Options{}, pkg("a", "", x, entry{"/usr/bin/y", x.n}))
	a, err := r.Tree.Lstat("/usr/bin/x")
	require.NoError(t, err)
	b, err := r.Tree.Lstat("/usr/bin/y")
	require.NoError(t, err)
	require.Same(t, a, b)
}

func TestReplaces(t *testing.T) {
	x := func(data string) entry { return fileEntry("/usr/bin/x", data, 0o755) }
	for name, packages := range map[string][]Package{
		"the later package replaces":   {pkg("a", "", x("old")), pkg("b", "Replaces: c, a (<< 2)\n", x("new"))},
		"the earlier package replaces": {pkg("a", "Replaces: b\n", x("new")), pkg("b", "", x("old"))},
		"with an architecture":         {pkg("a", "", x("old")), pkg("b", "Replaces: a:amd64\n", x("new"))},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "new", text(t, compose(t, Options{}, packages...).Tree, "/usr/bin/x"))
		})
	}
}

func TestRefusedPackages(t *testing.T) {
	for name, c := range map[string]struct {
		packages []Package
		message  string
	}{
		"a file of two packages": {
			[]Package{pkg("a", "", fileEntry("/usr/bin/x", "", 0o755)), pkg("b", "", fileEntry("/usr/bin/x", "", 0o755))},
			"/usr/bin/x is also in package a, and neither Replaces the other"},
		"a file of two packages, by another name": {
			[]Package{pkg("a", "", fileEntry("/usr/bin/x", "", 0o755)), pkg("b", "", fileEntry("/bin/x", "", 0o755))},
			"/usr/bin/x is also in package a"},
		"a file where another package has a directory": {
			[]Package{pkg("a", "", dirEntry("/opt/x", 0o755)), pkg("b", "", fileEntry("/opt/x", "", 0o644))},
			"/opt/x is a directory in a"},
		"a directory where another package has a file": {
			[]Package{pkg("a", "", fileEntry("/opt/x", "", 0o644)), pkg("b", "", dirEntry("/opt/x", 0o755))},
			"/opt/x is a file of a"},
		"a directory over a link that leads nowhere": {
			[]Package{pkg("a", "", linkEntry("/opt/x", "nowhere")), pkg("b", "", dirEntry("/opt/x", 0o755))},
			"does not lead to a directory"},
		"a relative path":        {[]Package{pkg("a", "", fileEntry("usr/bin/x", "", 0o755))}, "not a clean absolute path"},
		"a path with ..":         {[]Package{pkg("a", "", fileEntry("/usr/../x", "", 0o755))}, "not a clean absolute path"},
		"an owner without a row": {[]Package{pkg("a", "", entry{"/x", &tree.Inode{Type: tree.Dir, UID: 12345}})}, "belongs to 12345:0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose(c.packages, Options{})
			require.ErrorContains(t, err, c.message)
		})
	}
}
