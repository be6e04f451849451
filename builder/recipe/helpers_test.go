package recipe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

// entry is one path of a package made by a test.
type entry struct {
	path string
	n    *tree.Inode
}

func fileEntry(path, data string, mode uint32) entry {
	return entry{path, &tree.Inode{Type: tree.Regular, Mode: mode, MTime: 1700000000, Content: tree.Bytes(data)}}
}

func dirEntry(path string, mode uint32) entry {
	return entry{path, &tree.Inode{Type: tree.Dir, Mode: mode, MTime: 1700000000}}
}

func linkEntry(path, target string) entry {
	return entry{path, &tree.Inode{Type: tree.Symlink, Mode: 0o777, MTime: 1700000000, Target: target}}
}

// pkg makes a package; fields are further lines of its control paragraph.
func pkg(name string, fields string, entries ...entry) Package {
	return Package{
		Name:    name,
		Version: "1",
		Status:  []byte(fmt.Sprintf("Package: %s\nVersion: 1\nArchitecture: amd64\n%s", name, fields)),
		Entries: func(yield func(string, *tree.Inode) error) error {
			for _, e := range entries {
				if err := yield(e.path, e.n); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func withScript(p Package, name, text string) Package {
	p.Scripts = map[string][]byte{name: []byte(text)}
	return p
}

func compose(t *testing.T, o Options, packages ...Package) *Result {
	t.Helper()
	r, err := Compose(packages, o)
	require.NoError(t, err)
	return r
}

func text(t *testing.T, tr *tree.Tree, path string) string {
	t.Helper()
	data, err := tr.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// dump prints everything of a tree that reaches an image.
func dump(t *testing.T, tr *tree.Tree) string {
	t.Helper()
	var out strings.Builder
	names := map[*tree.Inode]string{}
	require.NoError(t, tr.Walk(func(p string, n *tree.Inode) error {
		if names[n] == "" {
			names[n] = p
		}
		fmt.Fprintf(&out, "%s %d %04o %d:%d %d %q %s %s\n", p, n.Type, n.Mode, n.UID, n.GID, n.MTime, n.Target, n.Origin, names[n])
		if n.Type == tree.Regular {
			data, err := tr.ReadFile(p)
			require.NoError(t, err)
			fmt.Fprintf(&out, "%q\n", data)
		}
		return nil
	}))
	return out.String()
}
