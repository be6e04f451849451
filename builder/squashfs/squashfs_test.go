package squashfs

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/builder/tree"
)

// testBlock keeps the data of tests small.
const testBlock = 4 << 10

// noise is data that does not compress, and always the same.
func noise(seed int64, n int) []byte {
	b := make([]byte, n)
	rand.New(rand.NewSource(seed)).Read(b)
	return b
}

// prose is data that compresses.
func prose(seed int64, n int) []byte {
	r := rand.New(rand.NewSource(seed))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "line %d of the text\n", r.Intn(50))
	}
	return b.Bytes()[:n]
}

func sparse(blocks int) []byte {
	b := make([]byte, blocks*testBlock)
	copy(b[2*testBlock:], prose(9, testBlock/2))
	return b
}

// sampleTree has every kind of inode and the sizes at the edges of blocks.
func sampleTree(t testing.TB) *tree.Tree {
	tr := tree.New()
	add := func(p string, n *tree.Inode) { require.NoError(t, tr.Add(p, n)) }
	file := func(p string, data []byte) {
		add(p, &tree.Inode{Mode: 0o644, Type: tree.Regular, Content: tree.Bytes(data), MTime: 1700000000})
	}
	add("/", &tree.Inode{Type: tree.Dir, Mode: 0o755, MTime: 1600000000})
	for _, n := range []int{0, 1, testBlock - 1, testBlock, testBlock + 1, 2*testBlock - 1, 2 * testBlock, 2*testBlock + 1, 20*testBlock + 7} {
		file(fmt.Sprintf("/sizes/prose-%d", n), prose(int64(n), n))
		file(fmt.Sprintf("/sizes/noise-%d", n), noise(int64(n), n))
		file(fmt.Sprintf("/sizes/zeros-%d", n), make([]byte, n))
	}
	file("/sparse/hole", sparse(5))
	file("/sparse/hole-and-tail", append(sparse(5), "tail"...))
	file("/sparse/zero-tail", append(sparse(5), 0, 0, 0))
	file("/same/a", prose(1, 9000))
	file("/same/b", prose(1, 9000))
	file("/same/small-a", prose(1, 90))
	file("/same/small-b", prose(1, 90))
	file("/xz/module.ko.xz", append([]byte("\xfd7zXZ\x00"), prose(3, 3*testBlock)...))
	file("/xz/small.ko.xz", append([]byte("\xfd7zXZ\x00"), prose(4, 100)...))
	add("/bin/su", &tree.Inode{Type: tree.Regular, Mode: 0o4755, UID: 0, GID: 65534, Content: tree.Bytes("setuid")})
	add("/bin/ping", &tree.Inode{Type: tree.Regular, Mode: 0o755, Content: tree.Bytes("ping"), Xattrs: []tree.Xattr{
		{Name: "security.capability", Value: []byte("\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")}}})
	add("/bin/arping", &tree.Inode{Type: tree.Regular, Mode: 0o755, Content: tree.Bytes("arping"), Xattrs: []tree.Xattr{
		{Name: "security.capability", Value: []byte("\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")},
		{Name: "user.long", Value: noise(5, 3000)}}})
	require.NoError(t, tr.Link("/bin/ping", "/sbin/ping-again"))
	require.NoError(t, tr.Link("/bin/su", "/bin/a-su"))
	require.NoError(t, tr.Symlink("su", "/bin/sulink", ""))
	require.NoError(t, tr.Symlink(strings.Repeat("x/", 2047), "/bin/far", ""))
	add("/dev/null", &tree.Inode{Type: tree.CharDevice, Mode: 0o666, Major: 1, Minor: 3})
	add("/dev/far", &tree.Inode{Type: tree.BlockDevice, Mode: 0o660, GID: 6, Major: maxMajor, Minor: maxMinor})
	add("/dev/fifo", &tree.Inode{Type: tree.Fifo, Mode: 0o600, UID: 1234567})
	add("/xdir", &tree.Inode{Type: tree.Dir, Mode: 0o1777, UID: 33, MTime: 1<<32 - 1, Xattrs: []tree.Xattr{{Name: "trusted.t", Value: []byte{0}}, {Name: "user.u", Value: nil}}})
	require.NoError(t, tr.Mkdir("/empty", 0o700))
	file("/"+strings.Repeat("n", 255), []byte("long name"))
	file("/"+strings.Repeat("deep/", 100)+"end", []byte("deep"))
	file("/odd/\xff\x01 name\n", []byte("odd"))
	file("/odd/\u00e9", []byte("accent"))
	file("/odd/zz", []byte("plain"))
	return tr
}

// addBigDir adds a directory whose listing needs an index.
func addBigDir(t testing.TB, tr *tree.Tree, n int) {
	for i := range n {
		require.NoError(t, tr.WriteFile(fmt.Sprintf("/big/%06d-%s", i, strings.Repeat("y", i%60)), []byte{byte(i), byte(i >> 8)}, 0o600, ""))
	}
}

// addManyOfAll adds so much that each table has more than one metadata block.
func addManyOfAll(t testing.TB, tr *tree.Tree) {
	for i := range 2500 {
		n := &tree.Inode{Type: tree.Regular, Mode: 0o644, UID: uint32(i) * 1000, Content: tree.Bytes(noise(int64(i), 10))}
		if i < 700 {
			n.Content = tree.Bytes(noise(int64(i), testBlock/2+1))
			n.Xattrs = []tree.Xattr{{Name: "user.n", Value: noise(int64(i), 30)}}
		}
		require.NoError(t, tr.Add(fmt.Sprintf("/many/%d/%d", i%7, i), n))
	}
}

// linkFile links a tree into a new file.
func linkFile(t testing.TB, tr *tree.Tree, o Options) (string, Result) {
	f, err := os.Create(filepath.Join(t.TempDir(), "image.squashfs"))
	require.NoError(t, err)
	defer f.Close()
	res, err := Link(f, tr, o)
	require.NoError(t, err)
	st, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, res.Size, st.Size())
	requirePieces(t, f, res)
	return f.Name(), res
}

// tool runs a foreign program as second opinion.
func tool(t testing.TB, name string, args ...string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	require.NoError(t, err, "run make deps")
	out, err := exec.Command(p, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

// unsquash extracts an image. What only root may make is left out for others; hostTree leaves out the rest.
func unsquash(t testing.TB, image string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "out")
	args := []string{"-no-progress", "-processors", "1", "-data-queue", "16", "-frag-queue", "16", "-d", dir, image}
	if os.Geteuid() != 0 {
		args = append([]string{"-user-xattrs"}, args...)
	}
	tool(t, "unsquashfs", args...)
	return dir
}

// hostTree is the sample, without devices where this user may not make them.
func hostTree(t testing.TB) *tree.Tree {
	tr := sampleTree(t)
	if os.Geteuid() != 0 {
		require.NoError(t, tr.Remove("/dev"))
	}
	return tr
}

// requireSameTree compares a directory with a tree. Owners, devices and protected xattrs need root.
func requireSameTree(t *testing.T, tr *tree.Tree, dir string) {
	t.Helper()
	root := os.Geteuid() == 0
	seen := map[uint64]*tree.Inode{}
	var paths []string
	require.NoError(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel := "/" + strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
		paths = append(paths, rel)
		n, err := tr.Lstat(rel)
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(p, &st))
		mode := modeOf(n)
		if !root {
			mode &^= unix.S_ISUID | unix.S_ISGID | unix.S_ISVTX // unsquashfs leaves them out
			st.Mode &^= unix.S_ISUID | unix.S_ISGID | unix.S_ISVTX
		}
		require.Equal(t, mode, st.Mode, rel)
		if n.Type != tree.Symlink || root {
			require.EqualValues(t, n.MTime, st.Mtim.Sec, rel)
		}
		if old, ok := seen[st.Ino]; ok {
			require.Same(t, n, old, rel)
		}
		seen[st.Ino] = n
		if root {
			require.Equal(t, n.UID, st.Uid, rel)
			require.Equal(t, n.GID, st.Gid, rel)
		}
		switch n.Type {
		case tree.Regular:
			got, err := os.ReadFile(p)
			require.NoError(t, err)
			var want []byte
			if n.Content != nil {
				want, err = tr.ReadFile(rel)
				require.NoError(t, err)
			}
			require.True(t, bytes.Equal(want, got), rel)
		case tree.Symlink:
			got, err := os.Readlink(p)
			require.NoError(t, err)
			require.Equal(t, n.Target, got)
		case tree.CharDevice, tree.BlockDevice:
			require.Equal(t, unix.Mkdev(n.Major, n.Minor), st.Rdev, rel)
		}
		for _, x := range n.Xattrs {
			if !root && !strings.HasPrefix(x.Name, "user.") {
				continue
			}
			buf := make([]byte, maxXattrValue)
			got, err := unix.Lgetxattr(p, x.Name, buf)
			require.NoError(t, err, "%s: %s", rel, x.Name)
			require.True(t, bytes.Equal(x.Value, buf[:got]), "%s: %s", rel, x.Name)
		}
		return nil
	}))
	require.ElementsMatch(t, tr.Paths(), paths)
	counts := map[*tree.Inode]int{}
	require.NoError(t, tr.Walk(func(_ string, n *tree.Inode) error { counts[n]++; return nil }))
	require.Len(t, seen, len(counts), "hard links share an inode")
}

func modeOf(n *tree.Inode) uint32 {
	return n.Mode | map[tree.Type]uint32{tree.Dir: unix.S_IFDIR, tree.Regular: unix.S_IFREG, tree.Symlink: unix.S_IFLNK,
		tree.CharDevice: unix.S_IFCHR, tree.BlockDevice: unix.S_IFBLK, tree.Fifo: unix.S_IFIFO}[n.Type]
}

func TestUnsquashfsSeesTheTree(t *testing.T) {
	for _, block := range []uint32{testBlock, DefaultBlockSize, maxBlockSize} {
		t.Run(fmt.Sprint(block), func(t *testing.T) {
			tr := hostTree(t)
			if block == testBlock {
				addBigDir(t, tr, 1000)
				addManyOfAll(t, tr)
			}
			image, res := linkFile(t, tr, Options{BuildTime: 1700000001, BlockSize: block})
			stat := tool(t, "unsquashfs", "-s", image)
			require.Contains(t, stat, "Compression zstd")
			require.Contains(t, stat, "compression-level 3")
			require.Contains(t, stat, fmt.Sprintf("Block size %d", block))
			require.Contains(t, stat, fmt.Sprintf("Number of inodes %d", res.Inodes))
			list := tool(t, "unsquashfs", "-lln", image)
			require.Equal(t, len(tr.Paths()), strings.Count(list, "squashfs-root")-strings.Count(list, " -> squashfs-root"))
			requireSameTree(t, tr, unsquash(t, image))
		})
	}
}

func TestTheKernelSeesTheTree(t *testing.T) {
	one := func(p string, n *tree.Inode) *tree.Tree {
		tr := tree.New()
		require.NoError(t, tr.Add(p, n))
		return tr
	}
	large := sampleTree(t)
	addBigDir(t, large, 10000)
	addManyOfAll(t, large)
	require.NoError(t, large.Add("/large-xattrs", &tree.Inode{Type: tree.Regular, Xattrs: []tree.Xattr{
		{Name: "user.a", Value: noise(6, 20000)}, {Name: "user.b", Value: noise(7, 65536)}}}))
	for name, tr := range map[string]*tree.Tree{
		"nothing":        tree.New(),
		"an empty file":  one("/f", &tree.Inode{Type: tree.Regular}),
		"zeros":          one("/f", &tree.Inode{Type: tree.Regular, Content: tree.Bytes(make([]byte, 3*testBlock))}),
		"a small file":   one("/f", &tree.Inode{Type: tree.Regular, Content: tree.Bytes("x")}),
		"a large file":   one("/f", &tree.Inode{Type: tree.Regular, Content: tree.Bytes(prose(1, 3*testBlock))}),
		"a link":         one("/l", &tree.Inode{Type: tree.Symlink, Mode: 0o777, Target: "/"}),
		"all of it":      sampleTree(t),
		"much of it all": large,
	} {
		t.Run(name, func(t *testing.T) {
			image, _ := linkFile(t, tr, Options{BlockSize: testBlock})
			dir := t.TempDir()
			if out, err := exec.Command("mount", "-t", "squashfs", "-o", "loop,ro", image, dir).CombinedOutput(); err != nil {
				t.Logf("this host or user cannot mount squashfs (the boot tests do): %v: %s", err, out)
				return
			}
			defer func() { require.NoError(t, syscall.Unmount(dir, 0)) }()
			requireSameTree(t, tr, dir)
			_, err := os.Lstat(filepath.Join(dir, "big/005000"))
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// packed returns the same tree with the data of all files from a pack.
func packed(t testing.TB, tr *tree.Tree, o PackOptions) (*tree.Tree, []byte) {
	var buf bytes.Buffer
	require.NoError(t, PackTree(&buf, tr, o))
	p, err := OpenPack(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	require.NoError(t, err)
	out := tree.New()
	for name, n := range p.Entries() {
		require.NoError(t, out.Add(name, n))
	}
	return out, buf.Bytes()
}

func TestAPackGivesBackWhatWasPutIn(t *testing.T) {
	tr := sampleTree(t)
	got, _ := packed(t, tr, PackOptions{BlockSize: testBlock})
	require.Equal(t, tr.Paths(), got.Paths())
	require.NoError(t, tr.Walk(func(p string, want *tree.Inode) error {
		n, err := got.Lstat(p)
		require.NoError(t, err)
		a, b := *want, *n
		a.Content, b.Content = nil, nil
		for i := range a.Xattrs {
			require.True(t, bytes.Equal(a.Xattrs[i].Value, b.Xattrs[i].Value))
		}
		a.Xattrs, b.Xattrs = nil, nil
		require.Equal(t, a, b, p)
		if want.Type != tree.Regular {
			return nil
		}
		data, err := got.ReadFile(p)
		require.NoError(t, err)
		orig, err := tr.ReadFile(p)
		require.NoError(t, err)
		require.True(t, bytes.Equal(orig, data), p)
		require.Equal(t, sha256.Sum256(orig), n.Content.(*PackedContent).SHA256())
		return nil
	}))
	a, err := got.Lstat("/bin/ping")
	require.NoError(t, err)
	b, err := got.Lstat("/sbin/ping-again")
	require.NoError(t, err)
	require.Same(t, a, b)
}

func TestAnImageLinkedFromAPackHoldsWhatOneLinkedFreshDoes(t *testing.T) {
	tr := hostTree(t)
	fromPack, _ := packed(t, tr, PackOptions{BlockSize: testBlock})
	a, resA := linkFile(t, tr, Options{BlockSize: testBlock})
	b, resB := linkFile(t, fromPack, Options{BlockSize: testBlock})
	require.Zero(t, resA.Copied)
	require.Zero(t, resB.Fresh)
	require.Equal(t, resA.Fresh, resB.Copied)
	requireSameTree(t, tr, unsquash(t, a))
	requireSameTree(t, tr, unsquash(t, b))
}

func TestLargeFilesAreCopiedWhole(t *testing.T) {
	tr := tree.New()
	require.NoError(t, tr.WriteFile("/noise", noise(1, 2*writePiece+12345), 0o644, "")) // stored, more than one piece
	require.NoError(t, tr.WriteFile("/prose", prose(2, 3*writePiece), 0o644, ""))
	linked, _ := packed(t, tr, PackOptions{})
	image, res := linkFile(t, linked, Options{})
	require.Greater(t, res.Copied, int64(2*writePiece))
	requireSameTree(t, tr, unsquash(t, image))
}

func TestBytesDoNotDependOnParallelism(t *testing.T) {
	tr := tree.New()
	for i := range 400 {
		require.NoError(t, tr.WriteFile(fmt.Sprintf("/%03d", i), prose(int64(i), 1000+i*97), 0o644, ""))
	}
	build := func(procs, concurrency int) (pack, image []byte, id [32]byte) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		linked, pack := packed(t, tr, PackOptions{BlockSize: 16 << 10, Concurrency: concurrency})
		require.NoError(t, linked.WriteFile("/fresh", prose(77, 300000), 0o644, ""))
		name, res := linkFile(t, linked, Options{BlockSize: 16 << 10, Concurrency: concurrency})
		image, err := os.ReadFile(name)
		require.NoError(t, err)
		return pack, image, res.ContentID
	}
	pack, image, id := build(1, 1)
	for _, c := range []struct{ procs, concurrency int }{{1, 0}, {2, 0}, {4, 2}, {8, 16}} {
		p, i, d := build(c.procs, c.concurrency)
		require.True(t, bytes.Equal(pack, p), c)
		require.True(t, bytes.Equal(image, i), c)
		require.Equal(t, id, d)
	}
}

func TestOnlyBlocksOfFilesInTheTreeAreCopied(t *testing.T) {
	tr := tree.New()
	require.NoError(t, tr.WriteFile("/keep", noise(1, 10*testBlock), 0o644, ""))
	require.NoError(t, tr.WriteFile("/drop", noise(2, 10*testBlock), 0o644, ""))
	require.NoError(t, tr.WriteFile("/keep-too", noise(3, 10*testBlock), 0o644, ""))
	got, _ := packed(t, tr, PackOptions{BlockSize: testBlock})
	require.NoError(t, got.Remove("/drop"))
	_, res := linkFile(t, got, Options{BlockSize: testBlock})
	require.EqualValues(t, 20*testBlock, res.Copied)
}

func TestTheContentIDFollowsTheContent(t *testing.T) {
	id := func(data string, mode uint32, at uint32) [32]byte {
		tr := tree.New()
		require.NoError(t, tr.WriteFile("/f", []byte(data), mode, ""))
		_, res := linkFile(t, tr, Options{BuildTime: at})
		return res.ContentID
	}
	base := id("aaaa", 0o644, 1)
	require.Equal(t, base, id("aaaa", 0o644, 1))
	require.NotEqual(t, base, id("aaab", 0o644, 1))
	require.NotEqual(t, base, id("aaaa", 0o600, 1))
	require.NotEqual(t, base, id("aaaa", 0o644, 2))
}

type shortContent struct{ tree.Bytes }

func (shortContent) Size() int64 { return 1 << 20 }

type failingContent struct{ tree.Bytes }

func (failingContent) Open() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }

func TestLinkRefusals(t *testing.T) {
	one := func(p string, n *tree.Inode) *tree.Tree {
		tr := tree.New()
		require.NoError(t, tr.Add(p, n))
		return tr
	}
	otherBlocks, _ := packed(t, one("/f", &tree.Inode{Type: tree.Regular, Content: tree.Bytes("x")}), PackOptions{BlockSize: 8 << 10})
	d := &tree.Inode{Type: tree.Dir}
	twoNames := one("/d", d)
	require.NoError(t, twoNames.Add("/e", d))
	ids := tree.New()
	for i := range maxIDs + 1 {
		require.NoError(t, ids.Add(fmt.Sprintf("/%d", i), &tree.Inode{Type: tree.Fifo, UID: uint32(i)}))
	}
	for name, c := range map[string]struct {
		tr   *tree.Tree
		want string
	}{
		"a long name":                {one("/"+strings.Repeat("n", 256), &tree.Inode{Type: tree.Fifo}), "256 bytes"},
		"a mode with type bits":      {one("/f", &tree.Inode{Type: tree.Fifo, Mode: 0o100644}), "/f: mode"},
		"a time before 1970":         {one("/f", &tree.Inode{Type: tree.Fifo, MTime: -1}), "/f: modification time -1"},
		"a time after 2106":          {one("/f", &tree.Inode{Type: tree.Fifo, MTime: 1 << 32}), "/f: modification time"},
		"an empty link":              {one("/f", &tree.Inode{Type: tree.Symlink}), "/f: a symbolic link with a target of 0 bytes"},
		"a link too long":            {one("/f", &tree.Inode{Type: tree.Symlink, Target: strings.Repeat("x", 4096)}), "4096 bytes"},
		"a major number too large":   {one("/f", &tree.Inode{Type: tree.CharDevice, Major: 4096}), "device 4096:0"},
		"a minor number too large":   {one("/f", &tree.Inode{Type: tree.BlockDevice, Minor: 1 << 20}), "device 0:1048576"},
		"an unknown type":            {one("/f", &tree.Inode{Type: 99}), "unknown inode type 99"},
		"an ACL":                     {one("/f", &tree.Inode{Type: tree.Fifo, Xattrs: []tree.Xattr{{Name: "system.posix_acl_access"}}}), "namespaces user, trusted and security"},
		"an xattr with no name":      {one("/f", &tree.Inode{Type: tree.Fifo, Xattrs: []tree.Xattr{{Name: "user."}}}), "no name"},
		"an xattr twice":             {one("/f", &tree.Inode{Type: tree.Fifo, Xattrs: []tree.Xattr{{Name: "user.a"}, {Name: "user.a"}}}), "there twice"},
		"an xattr too large":         {one("/f", &tree.Inode{Type: tree.Fifo, Xattrs: []tree.Xattr{{Name: "user.a", Value: make([]byte, 1<<16+1)}}}), "65537 bytes"},
		"a directory with two names": {twoNames, "second name"},
		"more ids than fit":          {ids, "more than 65535 different"},
		"a pack of other blocks":     {otherBlocks, "/f: its pack has blocks of 8192 bytes and the image of 131072"},
		"content of another size":    {one("/f", &tree.Inode{Type: tree.Regular, Content: shortContent{}}), "compress /f: it has 0 bytes and said 1048576"},
		"content that cannot open":   {one("/f", &tree.Inode{Type: tree.Regular, Content: failingContent{}}), "compress /f: io: read/write on closed pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "image"))
			require.NoError(t, err)
			defer f.Close()
			_, err = Link(f, c.tr, Options{})
			require.ErrorContains(t, err, c.want)
		})
	}
}
