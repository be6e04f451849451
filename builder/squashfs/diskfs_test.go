package squashfs

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"testing"

	backend "github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem"
	diskfs "github.com/diskfs/go-diskfs/filesystem/squashfs"
	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

// requireDiskfsSees compares an image, as go-diskfs reads it, with a tree.
func requireDiskfsSees(t testing.TB, tr *tree.Tree, image string) {
	f, err := os.Open(image)
	require.NoError(t, err)
	defer f.Close()
	st, err := f.Stat()
	require.NoError(t, err)
	img, err := diskfs.Read(backend.New(f, true), st.Size(), 0, 0)
	require.NoError(t, err)
	paths := []string{"/"}
	inodes := map[uint32]*tree.Inode{}
	dirs := []string{"/"}
	for len(dirs) > 0 {
		dir := dirs[0]
		dirs = dirs[1:]
		entries, err := img.ReadDir(path.Clean(dir[1:]))
		require.NoError(t, err, dir)
		for _, e := range entries {
			p := path.Join(dir, e.Name())
			paths = append(paths, p)
			if e.IsDir() {
				dirs = append(dirs, p)
			}
			requireDiskfsEntry(t, tr, p, e, inodes)
		}
	}
	require.ElementsMatch(t, tr.Paths(), paths)
}

func requireDiskfsEntry(t testing.TB, tr *tree.Tree, p string, e fs.DirEntry, inodes map[uint32]*tree.Inode) {
	n, err := tr.Lstat(p)
	require.NoError(t, err)
	info, err := e.Info()
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(n.Mode&0o777)|map[tree.Type]fs.FileMode{tree.Dir: fs.ModeDir, tree.Symlink: fs.ModeSymlink,
		tree.CharDevice: fs.ModeDevice | fs.ModeCharDevice, tree.BlockDevice: fs.ModeDevice, tree.Fifo: fs.ModeNamedPipe}[n.Type], info.Mode(), p)
	require.Equal(t, n.MTime, info.ModTime().Unix(), p)
	sys := info.Sys().(*diskfs.StatT)
	require.Equal(t, n.UID, sys.UID, p)
	require.Equal(t, n.GID, sys.GID, p)
	require.Len(t, sys.Xattrs, len(n.Xattrs), p)
	for _, x := range n.Xattrs {
		_, name, err := xattrType(x.Name)
		require.NoError(t, err)
		require.Equal(t, string(x.Value), sys.Xattrs[name], p) // go-diskfs leaves the namespace out
	}
	if old := inodes[sys.Inode]; old != nil {
		require.Same(t, old, n, "%s: one inode number for two files", p)
	}
	inodes[sys.Inode] = n
	switch n.Type {
	case tree.Symlink:
		require.Equal(t, n.Target, sys.LinkTarget, p)
	case tree.Regular:
		r, err := e.(interface {
			Open() (filesystem.File, error)
		}).Open()
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err, p)
		want, err := tr.ReadFile(p)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s: %d and %d bytes", p, len(want), len(got))
	}
}

func TestDiskfsSeesTheTree(t *testing.T) {
	tr := sampleTree(t)
	addBigDir(t, tr, 2000)
	image, _ := linkFile(t, tr, Options{BlockSize: testBlock})
	requireDiskfsSees(t, tr, image)
}

// treeFromBytes makes a tree of what a fuzzer invents: every byte string is a tree.
func treeFromBytes(data []byte) *tree.Tree {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := int(data[0])
		data = data[1:]
		return b
	}
	tr := tree.New()
	dirs, files := []string{"/"}, []string{}
	for i := 0; len(data) > 0 && i < 80; i++ {
		kind, where, seed := next(), next(), next()
		p := path.Join(dirs[where%len(dirs)], fmt.Sprintf("%c%0*d", 'a'+seed%26, 1+kind/8*7, i))
		n := &tree.Inode{Type: tree.Type(kind % 6), Mode: uint32(next()<<8|next()) & 0o7777, UID: uint32(next()) << (seed % 24), GID: uint32(seed), MTime: int64(next()) << 24}
		if seed%7 == 0 {
			n.Xattrs = []tree.Xattr{{Name: "security.x", Value: prose(int64(seed), seed)}, {Name: "user.y", Value: noise(int64(where), where*20)}}
		}
		switch n.Type {
		case tree.Dir:
			dirs = append(dirs, p)
		case tree.Regular:
			if seed%11 == 0 && len(files) > 0 {
				if tr.Link(files[where%len(files)], p) == nil {
					continue
				}
			}
			n.Content = tree.Bytes(fuzzContent(next(), next(), seed))
			files = append(files, p)
		case tree.Symlink:
			n.Target = "nowhere/" + p
		case tree.CharDevice, tree.BlockDevice:
			n.Major, n.Minor = uint32(next()), uint32(next())<<8
		}
		if err := tr.Add(p, n); err != nil {
			continue
		}
	}
	return tr
}

// fuzzContent has sizes around those of blocks.
func fuzzContent(kind, size, seed int) []byte {
	n := size%6*testBlock + size/6 - 20
	if n < 0 {
		n = size
	}
	switch kind % 4 {
	case 0:
		return make([]byte, n)
	case 1:
		return noise(int64(seed), n)
	case 2:
		return append(make([]byte, n/testBlock*testBlock), prose(int64(seed), n%testBlock)...)
	}
	return prose(int64(seed), n)
}

// FuzzLink links trees that a fuzzer invents, fresh and from a pack, and reads them back with go-diskfs.
func FuzzLink(f *testing.F) {
	f.Add([]byte{})
	for seed := range 8 {
		f.Add(noise(int64(seed), 40+seed*150))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr := treeFromBytes(data)
		fresh, res := linkFile(t, tr, Options{BlockSize: testBlock})
		requireDiskfsSees(t, tr, fresh)
		head, err := os.ReadFile(fresh)
		require.NoError(t, err)
		sb, err := ParseSuperblock(head)
		require.NoError(t, err)
		require.EqualValues(t, res.Used, sb.BytesUsed)
		linked, _ := packed(t, tr, PackOptions{BlockSize: testBlock})
		image, _ := linkFile(t, linked, Options{BlockSize: testBlock})
		requireDiskfsSees(t, tr, image)
	})
}
