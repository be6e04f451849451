package squashfs

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
	"spore/storage/pieces"
)

// requirePieces compares the pieces that an image names with its bytes.
func requirePieces(t testing.TB, image io.ReaderAt, res Result) {
	t.Helper()
	require.Equal(t, res.Size, res.Pieces.Size())
	var ends []int64
	at := int64(0)
	for _, p := range res.Pieces {
		at += p.Size
		ends = append(ends, at)
	}
	read, err := pieces.Cut(image, res.Size, ends, pieces.MaxPiece)
	require.NoError(t, err)
	require.Equal(t, read, res.Pieces)
}

// mixed is a package with files of each kind, some of them the same in all packages.
func mixed(t *testing.T, name string, seed int64) *tree.Tree {
	t.Helper()
	tr := tree.New()
	for file, data := range map[string][]byte{
		"program": noise(seed, 40*testBlock+5), "text": prose(seed, 9*testBlock), "small": prose(seed+1, 300), "module.ko.xz": xzFile(seed, 500),
		"other.ko.xz": xzFile(seed+2, 600), "zeros": make([]byte, 3*testBlock), "license": prose(1, 2000),
	} {
		require.NoError(t, tr.WriteFile("/usr/"+name+"/"+file, data, 0o644, ""))
	}
	return tr
}

// together lays out packages, each from a pack of its own.
func together(t *testing.T, packages ...*tree.Tree) *tree.Tree {
	t.Helper()
	all := tree.New()
	for _, p := range packages {
		part, _ := packed(t, p, PackOptions{BlockSize: testBlock})
		require.NoError(t, part.Walk(func(path string, n *tree.Inode) error {
			if n.Type == tree.Dir {
				return nil
			}
			return all.Add(path, n)
		}))
	}
	require.NoError(t, all.WriteFile("/etc/made", prose(3, 2*testBlock), 0o644, ""))
	return all
}

func TestAPackageThatChangedLeavesThePiecesOfAllOthers(t *testing.T) {
	for _, first := range [][]string{nil, {"/usr/c/small", "/usr/a/program", "/usr/b/module.ko.xz"}} {
		t.Run(fmt.Sprint(len(first)), func(t *testing.T) {
			link := func(b int64) Result {
				_, res := linkFile(t, together(t, mixed(t, "a", 10), mixed(t, "b", b), mixed(t, "c", 30)), Options{BlockSize: testBlock, First: first})
				return res
			}
			before, again, after := link(20), link(20), link(21)
			require.Equal(t, before.Pieces, again.Pieces)
			fresh := after.Pieces.Beyond(before.Pieces).Size()
			_, alone := linkFile(t, together(t, mixed(t, "b", 21)), Options{BlockSize: testBlock})
			tables := after.Size - after.Copied - after.Fresh
			require.LessOrEqual(t, fresh, alone.Copied+tables)
			require.Greater(t, fresh, alone.Copied/2)
		})
	}
}

func TestAChangeInsideOfAFileLeavesItsOtherPieces(t *testing.T) {
	const blocks = 5 * pieces.MaxPiece / testBlock
	data := noise(1, blocks*testBlock)
	link := func() Result {
		tr := tree.New()
		require.NoError(t, tr.WriteFile("/large", data, 0o644, ""))
		packed, _ := packed(t, tr, PackOptions{BlockSize: testBlock})
		_, res := linkFile(t, packed, Options{BlockSize: testBlock})
		return res
	}
	before := link()
	data = append([]byte{}, data...)
	data[2*pieces.MaxPiece]++
	after := link()
	require.Equal(t, len(before.Pieces), len(after.Pieces))
	var differ []int
	for i := range before.Pieces {
		if before.Pieces[i] != after.Pieces[i] {
			differ = append(differ, i)
		}
	}
	require.Equal(t, []int{3}, differ, "behind the superblock")
}

func TestTheSmallestPiecesAreWholeFiles(t *testing.T) {
	tr := tree.New()
	for i := range 10 {
		require.NoError(t, tr.WriteFile(fmt.Sprintf("/%d.ko.xz", i), xzFile(int64(i), 100+i), 0o644, ""))
	}
	linked, _ := packed(t, tr, PackOptions{BlockSize: testBlock})
	_, res := linkFile(t, linked, Options{BlockSize: testBlock})
	sizes := map[int64]bool{}
	for _, p := range res.Pieces {
		sizes[p.Size] = true
	}
	for i := range int64(10) {
		require.True(t, sizes[100+i], i)
	}
}
