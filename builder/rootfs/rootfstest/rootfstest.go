// Package rootfstest makes images of trees in memory for tests: roots without a medium.
package rootfstest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/manifest"
	"spore/builder/origins"
	"spore/builder/rootfs"
	"spore/builder/squashfs"
	"spore/builder/tree"
	"spore/builder/uki"
	"spore/builder/unsquash"
	"spore/cluster/spec"
)

// Linked writes a tree and opens it again.
func Linked(t testing.TB, tr *tree.Tree) rootfs.Filesystem {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	res, err := squashfs.Link(f, tr, squashfs.Options{})
	require.NoError(t, err)
	img, err := unsquash.Open(f, res.Size)
	require.NoError(t, err)
	t.Cleanup(img.Close)
	return rootfs.Filesystem{Image: img, Size: res.Size}
}

// Image is an image of a root and a cluster part, with a manifest and a table of origins in the root. Its UKI has no sections.
func Image(t testing.TB, root, cluster *tree.Tree, m manifest.Manifest, leftOut []origins.LeftOut) *rootfs.Image {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, m.Encode(&text))
	require.NoError(t, root.WriteFile(manifest.ImagePath, text.Bytes(), 0o644, "payload:manifest"))
	require.NoError(t, origins.Lay(root, leftOut))
	data, err := root.ReadFile(origins.Path)
	require.NoError(t, err)
	i := &rootfs.Image{Name: t.TempDir(), Format: spec.FormatNetboot, Root: Linked(t, root), Cluster: Linked(t, cluster), UKI: &uki.Info{}, Manifest: &manifest.Manifest{}}
	require.NoError(t, json.Unmarshal(text.Bytes(), i.Manifest))
	i.Table, err = origins.Decode(data)
	require.NoError(t, err)
	i.Origins, err = i.Table.List(len(i.Root.Entries))
	require.NoError(t, err)
	return i
}
