package size

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/rootfs"
	"spore/builder/rootfs/rootfstest"
	"spore/builder/squashfs"
	"spore/builder/tree"
)

const blockSize = squashfs.DefaultBlockSize

func noise(seed byte, n int) tree.Bytes {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never fails
	return data
}

// opened links a tree and opens it as the root of an image.
func opened(t *testing.T, tr *tree.Tree) *rootfs.Image {
	t.Helper()
	i := &rootfs.Image{Root: rootfstest.Linked(t, tr)}
	for _, e := range i.Root.Entries {
		n, err := tr.Lstat(e.Path)
		require.NoError(t, err)
		i.Origins = append(i.Origins, n.Origin)
	}
	return i
}

func TestEachByteIsCountedOnce(t *testing.T) {
	tr := tree.New()
	add := func(p, origin string, data tree.Bytes) {
		require.NoError(t, tr.Add(p, &tree.Inode{Type: tree.Regular, Mode: 0o644, Content: data, Origin: origin}))
	}
	for i := range 300 {
		add(fmt.Sprintf("/usr/lib/small/%d", i), fmt.Sprintf("deb:small%d_1", i%3), noise(byte(i), 50+i*7))
	}
	add("/usr/bin/large", "payload:large", noise(1, 3*blockSize+99))
	add("/usr/bin/large-too", "deb:other_1", noise(1, 3*blockSize+99))
	// Zeros take no room: the block of text has the offset of the one before it.
	add("/usr/lib/sparse", "overlay:sparse", append(make(tree.Bytes, 2*blockSize), noise(2, blockSize)...))
	add("/usr/lib/small-too", "step:made", noise(9, 50+9*7))
	require.NoError(t, tr.Link("/usr/bin/large", "/usr/bin/larger"))

	r := root(opened(t, tr))
	require.Zero(t, r.Unused, "all data belongs to a file")
	require.Equal(t, r.Bytes, r.Data+r.Metadata+r.Padding)
	for name, items := range map[string][]Item{"by owner": append(append(append([]Item{}, r.Packages...), r.Payloads...), r.Own...), "by directory": r.Directories, "by file": r.Files} {
		var bytes, size int64
		files := 0
		for _, i := range items {
			bytes, size, files = bytes+i.Bytes, size+i.Size, files+i.Files
		}
		require.Equal(t, r.Data, bytes, name)
		require.Equal(t, r.Size, size, name)
		require.Equal(t, 304, files, name)
	}
	require.Equal(t, Item{"large", 3*blockSize + 99, 3*blockSize + 99, 1}, r.Payloads[0])
	require.Equal(t, Item{"other", 0, 3*blockSize + 99, 1}, r.Packages[len(r.Packages)-1], "stored with the other one")
	require.Equal(t, 2, r.Duplicates.Files)
	require.InDelta(t, 3*blockSize+99+50+9*7, r.Duplicates.Bytes, 2)
	byName := map[string]Item{}
	for _, i := range r.Own {
		byName[i.Name] = i
	}
	require.EqualValues(t, blockSize, byName["overlay"].Bytes)
	require.Contains(t, byName, "made by the build: made")
}

func TestABlockIsDividedByLengthWithoutALeftOver(t *testing.T) {
	for _, stored := range []int64{0, 1, 7, 100, 99_991} {
		e := &ends{share: map[end]int64{}, taken: map[end]bool{}}
		pieces := []end{{0, 0, 1}, {0, 1, 500}, {0, 501, 3}, {0, 504, 1000}}
		e.divide(stored, pieces)
		var sum int64
		for _, p := range pieces {
			sum += e.share[p]
			require.InDelta(t, float64(stored*p.size)/1504, e.share[p], 1)
		}
		require.Equal(t, stored, sum)
	}
}

func TestDirectoriesAreThreeLevelsDeep(t *testing.T) {
	for p, want := range map[string]string{"/a": "/", "/usr/bin/a": "/usr/bin", "/usr/lib/modules/6/kernel/x": "/usr/lib/modules", "/usr/lib/x": "/usr/lib"} {
		require.Equal(t, want, directory(p), p)
	}
}

func TestWhoAFileBelongsTo(t *testing.T) {
	for origin, want := range map[string][2]string{
		"deb:bash_5.2": {"package", "bash"}, "payload:coredns": {"payload", "coredns"}, "step:pam": {"own", "made by the build: pam"},
		"unit:a.service": {"own", "unit"}, "configuration:programs/gateway.yaml": {"payload", "programs/gateway"},
		"configuration:overlay/etc/a": {"own", "of the configuration"},
	} {
		kind, name := owner(origin)
		require.Equal(t, want, [2]string{kind, name}, origin)
	}
}
