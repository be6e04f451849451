package updateset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/image"
	"spore/builder/squashfs"
	"spore/builder/tree"
	"spore/builder/uki/ukitest"
	"spore/storage/pieces"
	"spore/storage/verity"
	"spore/wire/update"
)

func noise(seed byte, n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never fails
	return data
}

// parts are those of a small image, with a program of a seed in its root. Root and tree are in one file, as on a
// medium.
func parts(t *testing.T, seed byte) Parts {
	t.Helper()
	files := tree.New()
	require.NoError(t, files.WriteFile("/usr/bin/same", noise(1, 3<<20), 0o755, ""))
	require.NoError(t, files.WriteFile("/usr/bin/program", noise(seed, 300_000), 0o755, ""))
	dir := t.TempDir()
	medium, err := os.Create(filepath.Join(dir, "medium"))
	require.NoError(t, err)
	defer medium.Close()
	root, err := squashfs.Prepare(files, squashfs.Options{})
	require.NoError(t, err)
	const at = 12345
	require.NoError(t, root.Write(offsetWriter{medium, at}))
	var hashes bytes.Buffer
	_, size, err := verity.Format(offsetReader{medium, at}, root.Size, &hashes, verity.Derive(root.ContentID[:]))
	require.NoError(t, err)
	index, err := root.Pieces.EncodeBlocks()
	require.NoError(t, err)
	_, err = medium.WriteAt(append(hashes.Bytes(), index...), at+root.Size)
	require.NoError(t, err)
	part := filepath.Join(dir, "part")
	require.NoError(t, os.WriteFile(part, noise(seed, 150_000), 0o644))
	return Parts{
		Root: image.Source{Path: medium.Name(), Offset: at, Size: root.Size}, Tree: image.Source{Path: medium.Name(), Offset: at + root.Size, Size: size},
		UKI: ukitest.Program(0, ".text", ".cmdline"), ClusterFile: part,
	}
}

type offsetWriter struct {
	f  *os.File
	at int64
}

func (w offsetWriter) WriteAt(b []byte, off int64) (int, error) { return w.f.WriteAt(b, w.at+off) }

type offsetReader struct {
	f  *os.File
	at int64
}

func (r offsetReader) ReadAt(b []byte, off int64) (int, error) { return r.f.ReadAt(b, r.at+off) }

func of(t *testing.T, p Parts) *Set {
	t.Helper()
	s, err := Of(p)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// joined is what the objects of an index are together.
func joined(t *testing.T, s *Set, x pieces.Index) []byte {
	t.Helper()
	var out []byte
	for _, p := range x {
		content, err := s.Object(p.Sum)
		require.NoError(t, err)
		require.True(t, p.Same(content))
		out = append(out, content...)
	}
	return out
}

func TestTheObjectsAreTheParts(t *testing.T) {
	p := parts(t, 2)
	s := of(t, p)
	require.True(t, s.Listed)
	medium, err := os.ReadFile(p.Root.Path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(medium[p.Root.Offset:][:p.Root.Size], joined(t, s, s.RootPieces)))
	part, err := os.ReadFile(p.ClusterFile)
	require.NoError(t, err)
	require.True(t, bytes.Equal(append(bytes.Clone(p.UKI), part...), joined(t, s, s.BootPieces)))
	require.Equal(t, p.Root.Size, s.Root.Size)
	require.EqualValues(t, len(p.UKI), s.UKI.Size)
	require.EqualValues(t, len(part), s.Part.Size)

	all := s.All()
	require.Greater(t, len(all), len(s.Boots()))
	require.Equal(t, s.Boots(), all[:len(s.Boots())])
	for i, x := range []pieces.Index{s.RootPieces, s.BootPieces} {
		content, err := s.Object(all[i])
		require.NoError(t, err)
		read, err := pieces.Parse(content)
		require.NoError(t, err)
		require.Equal(t, x, read)
	}
	_, err = s.Object(pieces.Sum{})
	require.ErrorIs(t, err, ErrObject)
}

func TestABootLoaderFollowsTheClusterPart(t *testing.T) {
	p := parts(t, 2)
	without := of(t, p)
	require.Equal(t, update.Blob{}, without.Loader)
	p.Loader = noise(7, 120_000)
	s := of(t, p)
	part, err := os.ReadFile(p.ClusterFile)
	require.NoError(t, err)
	require.True(t, bytes.Equal(slices.Concat(p.UKI, part, p.Loader), joined(t, s, s.BootPieces)))
	want, err := update.Sum(bytes.NewReader(p.Loader))
	require.NoError(t, err)
	require.Equal(t, want, s.Loader)
	require.Equal(t, len(without.BootPieces)+2, len(s.BootPieces))
	require.Equal(t, without.UKI, s.UKI)
	require.Equal(t, without.Part, s.Part)
}

func TestARootWithoutAnIndexIsCutIntoPieces(t *testing.T) {
	p := parts(t, 2)
	require.NoError(t, os.Truncate(p.Tree.Path, p.Tree.Offset+p.Tree.Size))
	s := of(t, p)
	require.False(t, s.Listed)
	require.Equal(t, p.Root.Size, s.RootPieces.Size())
	require.EqualValues(t, rootPiece, s.RootPieces[0].Size)
}

func TestWhatIsNoUpdateIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		change func(t *testing.T, p *Parts)
		want   string
	}{
		"no root":         {func(_ *testing.T, p *Parts) { p.Root.Path += "-" }, "no such file"},
		"no hash tree":    {func(_ *testing.T, p *Parts) { p.Tree.Offset = 0 }, "the root: verity superblock: wrong magic"},
		"no cluster part": {func(_ *testing.T, p *Parts) { p.ClusterFile += "-" }, "no such file"},
		"no program":      {func(_ *testing.T, p *Parts) { p.UKI = []byte("text") }, "the UKI: cut a program into pieces"},
		"an index of another root": {func(t *testing.T, p *Parts) {
			index, err := pieces.Index{{Size: 4096}}.EncodeBlocks()
			require.NoError(t, err)
			write(t, p.Tree.Path, index, p.Tree.Offset+p.Tree.Size)
		}, "build the image anew"},
	} {
		t.Run(name, func(t *testing.T) {
			p := parts(t, 2)
			row.change(t, &p)
			_, err := Of(p)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func write(t *testing.T, name string, data []byte, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(data, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestAPieceThatIsNotWhatTheIndexSaysIsNotGiven(t *testing.T) {
	p := parts(t, 2)
	s := of(t, p)
	write(t, p.Root.Path, []byte("damage"), p.Root.Offset+500_000)
	bad := 0
	for _, x := range s.RootPieces {
		if _, err := s.Object(x.Sum); err != nil {
			require.ErrorContains(t, err, "the image is not what its index of pieces says")
			bad++
		}
	}
	require.Equal(t, 1, bad)
}

// files are those below a folder by their path.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		out[rel], err = os.ReadFile(p)
		return err
	}))
	return out
}

func TestAFolderHasEachObjectByItsHashAndNothingElse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "update")
	ctx := context.Background()
	s := of(t, parts(t, 2))
	require.NoError(t, s.WriteFolder(ctx, dir))
	first := files(t, dir)
	require.Len(t, first, len(s.All())+2)
	for _, sum := range s.All() {
		require.True(t, sha256.Sum256(first[filepath.Join(PiecesDir, sum.String())]) == sum, sum)
	}
	index, err := s.RootPieces.Encode()
	require.NoError(t, err)
	require.True(t, bytes.Equal(index, first[RootIndex]))

	// A head of it stays; one of another update goes, and so do pieces that nothing names any more and the half of a
	// file.
	head := filepath.Join(dir, Head)
	require.NoError(t, os.WriteFile(head, []byte(s.Root.Index.SHA256+" "+s.Boot.SHA256), 0o644))
	torn := filepath.Join(dir, PiecesDir, s.All()[3].String())
	require.NoError(t, os.Truncate(torn, 5))
	require.NoError(t, os.WriteFile(filepath.Join(dir, PiecesDir, ".half-1"), nil, 0o600))
	require.NoError(t, s.WriteFolder(ctx, dir))
	require.FileExists(t, head)
	require.NoError(t, os.Remove(head))
	require.Equal(t, first, files(t, dir))

	same := slices.IndexFunc(s.RootPieces, func(p pieces.Piece) bool { return p.Size == pieces.MaxPiece })
	shared := filepath.Join(dir, PiecesDir, s.RootPieces[same].Sum.String())
	was, err := os.Stat(shared)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(head, []byte(s.Root.Index.SHA256+" "+s.Boot.SHA256), 0o644))
	other := of(t, parts(t, 3))
	require.NoError(t, other.WriteFolder(ctx, dir))
	require.Len(t, files(t, dir), len(other.All())+2)
	is, err := os.Stat(shared)
	require.NoError(t, err, "both roots have the same program")
	require.Equal(t, was.ModTime(), is.ModTime())

	require.NoError(t, s.WriteFolder(ctx, dir))
	require.Equal(t, first, files(t, dir), "the same update, the same files")
	fresh := filepath.Join(t.TempDir(), "update")
	require.NoError(t, s.WriteFolder(ctx, fresh))
	require.Equal(t, first, files(t, fresh))
}

func TestAFolderThatCannotBeWrittenIsAnError(t *testing.T) {
	s := of(t, parts(t, 2))
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	require.ErrorContains(t, s.WriteFolder(context.Background(), name), "write the folder of the update")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.WriteFolder(ctx, filepath.Join(t.TempDir(), "update")), context.Canceled)
}
