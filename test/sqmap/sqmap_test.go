package sqmap

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

const blockSize = 128 << 10

// image makes one with mksquashfs: a file with blocks and a fragment, one of whole blocks, and enough others that tables
// have several metadata blocks.
func image(t testing.TB) (path string, content map[string][]byte) {
	dir := t.TempDir()
	rng := rand.NewChaCha8([32]byte{1})
	content = map[string][]byte{}
	add := func(name string, size int) {
		data := make([]byte, size)
		if _, err := rng.Read(data); err != nil {
			t.Fatal(err)
		}
		content[name] = data
		p := filepath.Join(dir, "tree", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, data, 0o644))
	}
	add("usr/bin/big", 2*blockSize+1000)
	add("usr/bin/whole", blockSize)
	add("small", 100)
	for i := range 3000 {
		add(fmt.Sprintf("many/%04d-with-a-rather-long-name", i), 20)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tree/usr/zeros"), make([]byte, 2*blockSize), 0o644))
	require.NoError(t, os.Symlink("small", filepath.Join(dir, "tree/link")))
	path = filepath.Join(dir, "img")
	out, err := exec.Command("mksquashfs", filepath.Join(dir, "tree"), path, "-comp", "zstd", "-b", fmt.Sprint(blockSize), "-always-use-fragments", "-quiet", "-no-progress").CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", out)
	return path, content
}

func TestLocateFindsTheDataThatMksquashfsWrote(t *testing.T) {
	path, content := image(t)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	img, err := Open(f)
	require.NoError(t, err)
	require.EqualValues(t, blockSize, img.BlockSize())
	dec, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer dec.Close()
	read := func(r Range, stored bool) []byte {
		raw, err := io.ReadAll(io.NewSectionReader(f, r.Offset, r.Size))
		require.NoError(t, err)
		if stored {
			return raw
		}
		raw, err = dec.DecodeAll(raw, nil)
		require.NoError(t, err)
		return raw
	}

	big, err := img.Locate("/usr/bin/big")
	require.NoError(t, err)
	require.Len(t, big.Blocks, 2)
	want := content["usr/bin/big"]
	for i, b := range big.Blocks { // random data does not shrink and is stored as it is
		require.True(t, bytes.Equal(want[i*blockSize:(i+1)*blockSize], read(b, b.Size == blockSize)))
	}
	at, err := big.DataAt(blockSize, blockSize+5)
	require.NoError(t, err)
	require.Equal(t, big.Blocks[1], at)
	at, err = big.DataAt(blockSize, 2*blockSize)
	require.NoError(t, err)
	require.Equal(t, big.Fragment, at)
	_, err = big.DataAt(blockSize, big.Size)
	require.ErrorContains(t, err, "of a file of")

	whole, err := img.Locate("usr/bin/whole")
	require.NoError(t, err)
	require.Len(t, whole.Blocks, 1)
	require.Zero(t, whole.Fragment.Size)

	zeros, err := img.Locate("/usr/zeros")
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0}, []int64{zeros.Blocks[0].Size, zeros.Blocks[1].Size})

	walked := 0
	require.NoError(t, img.Walk(func(p string, f File) {
		walked++
		located, err := img.Locate(p)
		require.NoError(t, err)
		require.Equal(t, located, f, p)
	}))
	require.Equal(t, 3004, walked)

	last, err := img.Locate("/many/2999-with-a-rather-long-name")
	require.NoError(t, err)
	require.EqualValues(t, 20, last.Size)
	require.Positive(t, last.Fragment.Size)

	for p, wantErr := range map[string]string{"/usr/bin/none": "file does not exist", "/small/x": "a parent is no directory", "/usr": "not a regular file", "/link": "not a regular file"} {
		_, err := img.Locate(p)
		require.ErrorContains(t, err, wantErr, p)
	}
	_, err = img.Locate("/usr/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestOpenRefuses(t *testing.T) {
	_, err := Open(bytes.NewReader(nil))
	require.ErrorContains(t, err, "superblock")
	_, err = Open(bytes.NewReader(make([]byte, 96)))
	require.ErrorContains(t, err, "no squashfs 4 image")
}

func FuzzLocate(f *testing.F) {
	small, err := smallImage(f)
	require.NoError(f, err)
	f.Add(small, "/a/b")
	f.Fuzz(func(t *testing.T, raw []byte, path string) {
		img, err := Open(bytes.NewReader(raw))
		if err != nil {
			return
		}
		if file, err := img.Locate(path); err == nil {
			require.GreaterOrEqual(t, file.Size, int64(0))
		}
	})
}

func smallImage(t testing.TB) ([]byte, error) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tree/a"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "tree/a/b"), []byte("b"), 0o644); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "img")
	if out, err := exec.Command("mksquashfs", filepath.Join(dir, "tree"), path, "-comp", "zstd", "-quiet", "-no-progress").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(path)
}
