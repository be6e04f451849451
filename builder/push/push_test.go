package push

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/customize"
	"spore/builder/manifest"
	"spore/builder/updateset"
	"spore/storage/pieces"
	"spore/wire/update"
)

func TestWhatIsSigned(t *testing.T) {
	p := newOperator(t)
	root := noise(1, 1<<20)
	c := built(t, root, "part", true)
	c.Manifest.Payloads = []manifest.Payload{{Name: "etcd", Version: "v3.6.1"}}
	for _, o := range []Options{{}, {Force: true, Valid: 90 * 24 * time.Hour}} {
		u := p.update(o, c)
		h, err := update.Read(bufio.NewReader(bytes.NewReader(u.Signed)), p.keys)
		require.NoError(t, err)
		require.Equal(t, u.Head, h)
		require.Equal(t, o.Force, h.Force)
		require.Equal(t, []string{"edge-01", "edge-02", "edge-03"}, h.Nodes)
		require.Equal(t, now, h.Issued)
		require.Equal(t, p.tree.Serial, h.Serial)
		require.Equal(t, clusterID, h.Cluster)
		require.Equal(t, c.RootHash, h.RootHash)
		require.EqualValues(t, len(root), h.Root.Size)
		require.EqualValues(t, buildTime, h.Root.BuildTime)
		require.EqualValues(t, len(c.UKI), h.UKI.Size)
		require.Equal(t, map[string]string{"etcd": "v3.6.1"}, h.Root.Versions)
		if o.Valid == 0 {
			require.Zero(t, h.Until, "it is new for ever")
			continue
		}
		require.Equal(t, time.Date(2027, 2, 20, 3, 0, 0, 0, time.UTC), h.Until)
	}
	c.Manifest.Payloads = append(c.Manifest.Payloads, manifest.Payload{Name: "etcd", Version: "v3.7.0"})
	_, err := p.try(Options{}, c)
	require.ErrorContains(t, err, `find the version of etcd in the manifest of an image: it has two, "v3.6.1" and "v3.7.0"`)
}

func TestTheIndexOfARootIsThatOfItsImage(t *testing.T) {
	p := newOperator(t)
	root := noise(1, 1<<20)
	u := p.update(Options{}, built(t, root, "part", true))
	require.Len(t, u.set.RootPieces, 64, "16 KiB each")
	require.Empty(t, u.Notes)

	u = p.update(Options{}, built(t, root, "part", false))
	require.Len(t, u.set.RootPieces, 4, "256 KiB each")
	require.Contains(t, u.Notes[0], "without an index of pieces")
	u = p.update(Options{}, atTheEnd(t, built(t, root, "part", false)))
	require.Len(t, u.set.RootPieces, 4, "a file that ends behind its tree has none either")
}

// atTheEnd cuts off what is behind a hash tree.
func atTheEnd(t *testing.T, c customize.Content) customize.Content {
	info, err := os.Stat(c.Tree.Path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(c.Tree.Path, info.Size()-int64(len("the disk behind it"))))
	return c
}

func TestWhatIsNoImageIsSaid(t *testing.T) {
	p := newOperator(t)
	root := noise(1, 1<<20)
	for want, spoil := range map[string]func(*customize.Content){
		"verity superblock: wrong magic": func(c *customize.Content) { c.Tree.Offset++ },
		"read the superblock":            func(c *customize.Content) { c.Tree.Offset = 1 << 30 },
		"no such file":                   func(c *customize.Content) { c.ClusterFile += ".gone" },
		"the UKI: cut a program":         func(c *customize.Content) { c.UKI = []byte("text") },
		"the root: read 262144 bytes": func(c *customize.Content) {
			*c = built(t, root, "part", false)
			require.NoError(t, os.Truncate(c.Root.Path, 1<<19))
		},
		"its index of pieces is of 1052672 bytes, and the root has 1048576": func(c *customize.Content) {
			longer := built(t, noise(1, 1<<20+4096), "part", true)
			data, err := os.ReadFile(longer.Tree.Path)
			require.NoError(t, err)
			own, err := os.ReadFile(c.Tree.Path)
			require.NoError(t, err)
			index := []byte("SPOREPX1")
			data = append(own[:bytes.Index(own, index)], data[bytes.Index(data, index):]...)
			require.NoError(t, os.WriteFile(c.Tree.Path, data, 0o600))
		},
	} {
		c := built(t, root, "part", true)
		spoil(&c)
		_, err := p.try(Options{}, c)
		require.ErrorContains(t, err, want)
	}
}

func TestEveryObjectOfAnUpdateIsFound(t *testing.T) {
	p := newOperator(t)
	c := built(t, noise(1, 1<<20), "part", true)
	u := p.update(Options{}, c)
	for _, b := range []update.Blob{u.Head.Root.Index, u.Head.Boot} {
		sum, err := pieces.ParseSum(b.SHA256)
		require.NoError(t, err)
		data, err := u.Object(context.Background(), sum)
		require.NoError(t, err)
		require.EqualValues(t, b.Size, len(data))
		x, err := pieces.Parse(data)
		require.NoError(t, err)
		for _, piece := range x {
			content, err := u.Object(context.Background(), piece.Sum)
			require.NoError(t, err)
			require.True(t, piece.Same(content))
		}
	}
	_, err := u.Object(context.Background(), pieces.Sum{1})
	require.ErrorIs(t, err, updateset.ErrObject)

	f, err := os.OpenFile(c.Root.Path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("changed"), 20<<10)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = u.Object(context.Background(), u.set.RootPieces[0].Sum)
	require.NoError(t, err)
	_, err = u.Object(context.Background(), u.set.RootPieces[1].Sum)
	require.ErrorContains(t, err, "the image is not what its index of pieces says")
}
