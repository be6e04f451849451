package unsquash

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	diskfs "github.com/diskfs/go-diskfs/filesystem/squashfs"
	"github.com/stretchr/testify/require"

	"spore/builder/squashfs"
	"spore/builder/tree"
)

const blockSize = 128 << 10

func noise(seed byte, n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never fails
	return data
}

// sample has a file of each kind, and so many that each table has several metadata blocks.
func sample(t testing.TB, many int) *tree.Tree {
	t.Helper()
	tr := tree.New()
	add := func(p string, n *tree.Inode) {
		n.MTime = 1_700_000_000
		require.NoError(t, tr.Add(p, n))
	}
	regular := func(p string, data []byte) {
		add(p, &tree.Inode{Type: tree.Regular, Mode: 0o644, Content: tree.Bytes(data)})
	}
	for _, n := range []int{0, 1, blockSize - 1, blockSize, blockSize + 1, 3*blockSize + 7} {
		regular(fmt.Sprintf("/sizes/text-%d", n), bytes.Repeat([]byte("text of a file\n"), n/15+1)[:n])
		regular(fmt.Sprintf("/sizes/noise-%d", n), noise(1, n))
		regular(fmt.Sprintf("/sizes/zeros-%d", n), make([]byte, n))
	}
	regular("/twice/a", noise(2, 5000))
	regular("/twice/b", noise(2, 5000))
	add("/bin/su", &tree.Inode{Type: tree.Regular, Mode: 0o4755, UID: 12, GID: 70000, Content: tree.Bytes("#!"),
		Xattrs: []tree.Xattr{{Name: "security.capability", Value: noise(3, 20)}, {Name: "user.x", Value: []byte("y")}}})
	require.NoError(t, tr.Link("/bin/su", "/bin/su2"))
	add("/tmp", &tree.Inode{Type: tree.Dir, Mode: 0o1777, Xattrs: []tree.Xattr{{Name: "trusted.d", Value: []byte{0}}}})
	add("/dev/sda", &tree.Inode{Type: tree.BlockDevice, Mode: 0o660, Major: 8, Minor: 300})
	add("/dev/null", &tree.Inode{Type: tree.CharDevice, Mode: 0o666, Major: 1, Minor: 3})
	add("/run/fifo", &tree.Inode{Type: tree.Fifo, Mode: 0o600})
	require.NoError(t, tr.Symlink("bin/su", "/link", ""))
	require.NoError(t, tr.Symlink("/twice", "/dir", ""))
	require.NoError(t, tr.Symlink("loop", "/loop", ""))
	for i := range many {
		regular(fmt.Sprintf("/many/%04d-with-a-rather-long-name", i), fmt.Appendf(nil, "%d", i))
	}
	return tr
}

func link(t testing.TB, tr *tree.Tree) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	require.NoError(t, err)
	defer f.Close()
	_, err = squashfs.Link(f, tr, squashfs.Options{})
	require.NoError(t, err)
	return f.Name()
}

func open(t testing.TB, name string) *Image {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	require.NoError(t, err)
	img, err := Open(f, info.Size())
	require.NoError(t, err)
	t.Cleanup(img.Close)
	return img
}

func TestAnImageIsReadBackAsItWasWritten(t *testing.T) {
	tr := sample(t, 3000)
	img := open(t, link(t, tr))
	var paths []string
	inodes := map[uint32]*tree.Inode{}
	for i := range img.Entries {
		e := &img.Entries[i]
		paths = append(paths, e.Path)
		n, err := tr.Lstat(e.Path)
		require.NoError(t, err)
		require.Equal(t, []any{n.Type, n.Mode, n.UID, n.GID, n.MTime, n.Target, n.Major, n.Minor}, []any{e.Type, e.Mode, e.UID, e.GID, e.MTime, e.Target, e.Major, e.Minor}, e.Path)
		require.Equal(t, n.Xattrs, e.Xattrs, e.Path)
		if old := inodes[e.Inode]; old != nil {
			require.Same(t, old, n, e.Path)
		}
		inodes[e.Inode] = n
		if n.Type != tree.Regular {
			continue
		}
		want, err := tr.ReadFile(e.Path)
		require.NoError(t, err)
		got, err := io.ReadAll(img.Content(e))
		require.NoError(t, err, e.Path)
		require.True(t, bytes.Equal(want, got), e.Path)
		require.EqualValues(t, len(want), e.Size)
	}
	require.Equal(t, tr.Paths(), paths, "in the order of a walk")
	require.Equal(t, img.Lstat("/bin/su").Inode, img.Lstat("/bin/su2").Inode)
	a, b := img.Lstat("/twice/a"), img.Lstat("/twice/b")
	require.NotEqual(t, a.Inode, b.Inode)
	require.Equal(t, []any{a.Fragment, a.FragmentOffset}, []any{b.Fragment, b.FragmentOffset}, "the same data is stored once")
}

func TestLinksAreFollowed(t *testing.T) {
	img := open(t, link(t, sample(t, 0)))
	p, links, err := img.Resolve("/dir/a")
	require.NoError(t, err)
	require.Equal(t, "/twice/a", p)
	require.Equal(t, []Link{{"/dir", "/twice"}}, links)
	p, links, err = img.Resolve("/twice/../link")
	require.NoError(t, err)
	require.Equal(t, "/bin/su", p)
	require.Len(t, links, 1)
	p, _, err = img.Resolve("/dir/none")
	require.NoError(t, err)
	require.Equal(t, "/twice/none", p)
	_, _, err = img.Resolve("/loop")
	require.ErrorContains(t, err, "too many levels")

	data, err := img.ReadFile("/link", 10)
	require.NoError(t, err)
	require.Equal(t, "#!", string(data))
	_, err = img.ReadFile("/dir/a", 10)
	require.ErrorContains(t, err, "has 5000 bytes, and 10 are the most")
	_, err = img.ReadFile("/dir/none", 10)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = img.ReadFile("/dir", 10)
	require.ErrorContains(t, err, "not a regular file")
}

// TestDiskfsSeesTheSame asks another reader.
func TestDiskfsSeesTheSame(t *testing.T) {
	name := link(t, sample(t, 200))
	img := open(t, name)
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	other, err := diskfs.Read(file.New(f, true), int64(img.Super.BytesUsed), 0, 0)
	require.NoError(t, err)
	seen := 0
	require.NoError(t, fs.WalkDir(other, ".", func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		seen++
		e := img.Lstat(filepath.Join("/", p))
		require.NotNil(t, e, p)
		if d.Type().IsRegular() {
			want, err := fs.ReadFile(other, p)
			require.NoError(t, err)
			got, err := img.ReadFile(e.Path, 1<<30)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), p)
		}
		return nil
	}))
	require.Len(t, img.Entries, seen)
}

// TestMksquashfsIsRead reads what another writer made, and finds the data where the image says it is.
func TestMksquashfsIsRead(t *testing.T) {
	dir := t.TempDir()
	content := map[string][]byte{"/usr/bin/big": noise(4, 2*blockSize+1000), "/usr/bin/whole": noise(5, blockSize), "/small": noise(6, 100), "/zeros": make([]byte, 2*blockSize)}
	for i := range 1200 {
		content[fmt.Sprintf("/many/%04d-with-a-rather-long-name", i)] = noise(byte(i), 20+i)
	}
	for p, data := range content {
		to := filepath.Join(dir, "tree", p)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, data, 0o644))
	}
	name := filepath.Join(dir, "image")
	out, err := exec.Command("mksquashfs", filepath.Join(dir, "tree"), name, "-comp", "zstd", "-b", fmt.Sprint(blockSize), "-always-use-fragments", "-quiet", "-no-progress").CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", out)
	img := open(t, name)
	for p, want := range content {
		e := img.Lstat(p)
		require.NotNil(t, e, p)
		got, err := io.ReadAll(img.Content(e))
		require.NoError(t, err)
		require.Equal(t, sha256.Sum256(want), sha256.Sum256(got), p)
	}
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	big := img.Lstat("/usr/bin/big")
	require.Len(t, big.Blocks, 2)
	for i, b := range big.Blocks { // Noise does not shrink and is stored as it is.
		require.True(t, b.Stored)
		require.True(t, bytes.Equal(content["/usr/bin/big"][i*blockSize:][:blockSize], raw[b.Offset:][:b.Size]))
	}
	require.GreaterOrEqual(t, big.Fragment, 0)
	require.Equal(t, []Block{{}, {}}, slices.Collect(func(yield func(Block) bool) {
		for _, b := range img.Lstat("/zeros").Blocks {
			b.Offset = 0
			if !yield(b) {
				return
			}
		}
	}))
}

func TestADamagedImageIsRefused(t *testing.T) {
	raw, err := os.ReadFile(link(t, sample(t, 0)))
	require.NoError(t, err)
	for _, tt := range []struct {
		name   string
		damage func(b []byte) []byte
		want   string
	}{
		{"nothing", func([]byte) []byte { return nil }, "superblock"},
		{"another file", func(b []byte) []byte { b[0] = 'x'; return b }, "no squashfs magic"},
		{"another compressor", func(b []byte) []byte { b[20] = 1; return b }, "is not zstd"},
		{"cut short", func(b []byte) []byte { return b[:len(b)/2] }, "bytes, and"},
		{"a damaged inode table", func(b []byte) []byte {
			at := open(t, link(t, sample(t, 0))).Super.InodeTable
			copy(b[at+2:], make([]byte, 64))
			return b
		}, "metadata block"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.damage(slices.Clone(raw))
			_, err := Open(bytes.NewReader(b), int64(len(b)))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func FuzzOpen(f *testing.F) {
	raw, err := os.ReadFile(link(f, sample(f, 0)))
	require.NoError(f, err)
	f.Add(raw)
	small := tree.New()
	require.NoError(f, small.WriteFile("/a/b", []byte("b"), 0o644, ""))
	raw, err = os.ReadFile(link(f, small))
	require.NoError(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		img, err := Open(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return
		}
		defer img.Close()
		for i := range img.Entries {
			e := &img.Entries[i]
			if e.Type == tree.Regular && e.Size < 1<<24 {
				n, err := io.Copy(io.Discard, img.Content(e))
				if err == nil && n != e.Size {
					t.Fatalf("%s: %d bytes of %d", e.Path, n, e.Size)
				}
			}
			if _, _, err := img.Resolve(e.Path); err != nil {
				continue
			}
		}
	})
}
