package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs/filesystem/fat32"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/stretchr/testify/require"

	"spore/builder/uki"
	"spore/cluster/answers"
	"spore/storage/espfiles"
	"spore/storage/fat"
	"spore/storage/pieces"
)

const (
	rootHash    = "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef"
	clusterHash = "cafebabe445566778899aabbccddeeff0123456789abcdef0123456789abcdef"
)

// fakePE is the least that readers take for a PE file with one section that holds text.
func fakePE(t testing.TB, cmdline string) []byte {
	t.Helper()
	le := binary.LittleEndian
	const table = 64 + 24 + 240
	b := make([]byte, 1024+512)
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], 64)
	copy(b[64:], "PE\x00\x00")
	le.PutUint16(b[68:], 0x8664)
	le.PutUint16(b[70:], 2)
	le.PutUint16(b[84:], 240)
	le.PutUint16(b[88:], 0x20b)
	le.PutUint32(b[88+60:], 512)
	le.PutUint32(b[88+108:], 16)
	for i, name := range []string{".cmdline", ".linux"} {
		s := b[table+i*40:]
		copy(s[:8], name)
		le.PutUint32(s[8:], uint32(len(cmdline)))
		le.PutUint32(s[16:], 512)
		le.PutUint32(s[20:], uint32(512*(i+1)))
	}
	copy(b[512:], cmdline)
	_, err := uki.Inspect(bytes.NewReader(b))
	require.NoError(t, err)
	return b
}

// squash is a squashfs superblock with n bytes behind it, padded to a block of verity.
func squash(n int) []byte {
	b := make([]byte, (squashfsSuper+n+verityBlock-1)/verityBlock*verityBlock)
	copy(b, squashfsMagic)
	binary.LittleEndian.PutUint64(b[40:], uint64(squashfsSuper+n))
	for i := range n {
		b[squashfsSuper+i] = byte(i * 7)
	}
	return b
}

func verityTree() []byte {
	b := make([]byte, 2*verityBlock)
	copy(b, verityMagic)
	return b
}

// options are those of a small image.
func options(t testing.TB) Options {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, data []byte) Source {
		p := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(p, data, 0o644))
		return Source{Path: p}
	}
	return Options{
		Root: file("root", squash(100000)), Verity: file("verity", verityTree()), Cluster: file("cluster", append(squash(5000), verityTree()...)),
		RootHash: rootHash, ClusterHash: clusterHash,
		UKI:         fakePE(t, "roothash="+rootHash+" spore.clusterhash="+clusterHash+" ro"),
		SystemdBoot: bytes.Repeat([]byte("boot loader "), 9000),
		Node:        "edge-01",
		Slots:       Slots{ESP: 64, Root: 1, Verity: 1, Cluster: 1},
	}
}

func build(t testing.TB, o Options) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "disk.img")
	_, err := Write(context.Background(), p, o)
	require.NoError(t, err)
	return p
}

func inspect(t testing.TB, path string) (*Info, error) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	st, err := f.Stat()
	require.NoError(t, err)
	return Inspect(f, st.Size())
}

// run runs a foreign tool and returns all it says.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C", "MTOOLS_SKIP_CHECK=0")
	out, err := cmd.CombinedOutput()
	require.NotErrorIs(t, err, exec.ErrNotFound, "%s is missing: run make deps", name)
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

func TestLayoutIsTheFixedOne(t *testing.T) {
	o := options(t)
	o.Slots = Slots{}
	info, err := inspect(t, build(t, o))
	require.NoError(t, err)
	require.Empty(t, info.Problems)
	require.Equal(t, int64(3170)*mib, info.Size)
	require.Equal(t, []Partition{
		{1, "esp", TypeESP, info.Partitions[0].UUID, 1 * mib, 1024 * mib, 0},
		{2, "root-a", TypeRoot, "00112233-4455-6677-8899-aabbccddeeff", 1025 * mib, 2048 * mib, 1 << 60},
		{3, "verity-a", TypeVerity, "01234567-89ab-cdef-0123-456789abcdef", 3073 * mib, 32 * mib, 1 << 60},
		{4, "cluster-a", TypeCluster, "cafebabe-4455-6677-8899-aabbccddeeff", 3105 * mib, 64 * mib, 0},
	}, info.Partitions)
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, info.Partitions[0].UUID)
}

func TestInspectFindsAllParts(t *testing.T) {
	o := options(t)
	info, err := inspect(t, build(t, o))
	require.NoError(t, err)
	require.Empty(t, info.Problems)
	require.Equal(t, rootHash, info.RootHash)
	require.Equal(t, clusterHash, info.ClusterHash)
	require.Equal(t, "edge-01", info.Node)
	require.Len(t, info.UKIs, 1)
	require.Equal(t, UKIPath(o.UKI), info.UKIs[0].Path)
	require.Equal(t, &Filesystem{Offset: 65 * mib, Size: squashfsSuper + 100000, HashOffset: 66 * mib}, info.Root)
	require.Equal(t, &Filesystem{Offset: 67 * mib, Size: squashfsSuper + 5000, HashOffset: 67*mib + 8192}, info.Cluster)
}

func TestInspectFindsTheAnswerFileOfAMedium(t *testing.T) {
	o := options(t)
	info, err := inspect(t, build(t, o))
	require.NoError(t, err)
	require.Empty(t, info.Answers)
	for _, size := range []int{10, answers.MaxSize, answers.MaxSize + 1, 2 * answers.MaxSize} {
		o.Files = map[string][]byte{espfiles.Answers: bytes.Repeat([]byte("#"), size)}
		info, err = inspect(t, build(t, o))
		require.NoError(t, err)
		require.Len(t, info.Answers, min(size, answers.MaxSize+1), "a large one is read so far that it is seen to be too large")
		require.Equal(t, "edge-01", info.Node)
	}
}

func TestInspectFindsTheIndexOfThePieces(t *testing.T) {
	index := pieces.Index{{Size: 100, Sum: pieces.Sum{1}}, {Size: 102400 - 100, Sum: pieces.Sum{2}}}
	encoded, err := index.EncodeBlocks()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		index   []byte
		size    int64
		pieces  int
		problem string
	}{
		"listed":  {encoded, 4096, 2, ""},
		"none":    {make([]byte, 4096), 0, 0, ""},
		"nothing": {nil, 0, 0, ""},
		"damaged": {append(append([]byte{}, encoded[:12]...), make([]byte, 4084)...), 0, 0, "root-a: the index of pieces is malformed: a piece of 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			require.NoError(t, os.WriteFile(o.Verity.Path, append(verityTree(), tc.index...), 0o644))
			info, err := inspect(t, build(t, o))
			require.NoError(t, err)
			require.Equal(t, tc.size, info.Root.IndexSize)
			require.Equal(t, tc.pieces, info.Root.Pieces)
			require.Zero(t, info.Cluster.IndexSize)
			if tc.problem != "" {
				require.Equal(t, []string{tc.problem}, info.Problems)
				return
			}
			require.Empty(t, info.Problems)
			if tc.size > 0 {
				require.Equal(t, 66*mib+int64(len(verityTree())), info.Root.IndexOffset)
			}
		})
	}
}

func TestATreeAndAnIndexThatDoNotFitTheirSlotAreRefused(t *testing.T) {
	o := options(t)
	require.NoError(t, os.WriteFile(o.Verity.Path, append(verityTree(), make([]byte, mib)...), 0o644))
	_, err := Write(t.Context(), filepath.Join(t.TempDir(), "spore.img"), o)
	require.ErrorContains(t, err, "verity has 2 MiB and its slot 1 MiB: raise slots.verity in image.yaml to 2 or more")
}

func TestSameInputsSameBytes(t *testing.T) {
	o := options(t)
	first, second := build(t, o), build(t, o)
	run(t, "cmp", first, second)
	o.Node = "edge-02"
	other := build(t, o)
	require.Error(t, exec.Command("cmp", "-s", first, other).Run())
}

func TestTheImageIsSparse(t *testing.T) {
	o := options(t)
	o.Slots = Slots{}
	info, err := os.Stat(build(t, o))
	require.NoError(t, err)
	blocks := info.Sys().(*syscall.Stat_t).Blocks * 512
	require.Less(t, blocks, int64(4*mib), "an ESP of 1 GiB must not be written out as zeros")
}

func TestSgdiskFindsNoFault(t *testing.T) {
	out := run(t, "sgdisk", "-v", build(t, options(t)))
	require.Contains(t, out, "No problems found")
}

func TestFdiskListsThePartitions(t *testing.T) {
	o := options(t)
	o.Slots = Slots{}
	out := run(t, "fdisk", "-l", "-o", "Start,Sectors,Type-UUID,UUID,Name,Attrs", build(t, o))
	for _, want := range []string{
		"Disklabel type: gpt",
		"2099200 4194304 4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709 00112233-4455-6677-8899-AABBCCDDEEFF root-a",
		"GUID:60",
	} {
		require.Contains(t, strings.Join(strings.Fields(out), " "), want)
	}
	require.NotContains(t, out, "not match")
}

// esp copies the ESP of an image into a file of its own.
func esp(t testing.TB, disk string) string {
	t.Helper()
	in, err := os.Open(disk)
	require.NoError(t, err)
	defer in.Close()
	p := filepath.Join(t.TempDir(), "esp")
	out, err := os.Create(p)
	require.NoError(t, err)
	defer out.Close()
	info, err := inspect(t, disk)
	require.NoError(t, err)
	part := info.Partitions[0]
	require.NoError(t, out.Truncate(part.Size))
	head := make([]byte, min(16*mib, part.Size)) // all of the small test ESP lies here
	_, err = in.ReadAt(head, part.Offset)
	require.NoError(t, err)
	_, err = out.WriteAt(head, 0)
	require.NoError(t, err)
	return p
}

func TestFsckFindsNoFaultInTheESP(t *testing.T) {
	for name, size := range map[string]int{"the default": 1024, "the smallest": 64, "of small clusters": 260, "of large ones": 261, "large": 4000} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			o.Slots.ESP = size
			out := run(t, "fsck.fat", "-n", "-v", esp(t, build(t, o)))
			for _, bad := range []string{"differ", "summary", "wrong", "Orphan", "dirty", "Invalid", "Fixing"} {
				require.NotContains(t, strings.ReplaceAll(out, "Checking free cluster summary.", ""), bad)
			}
		})
	}
}

func TestMtoolsReadTheESP(t *testing.T) {
	o := options(t)
	o.Time = time.Date(2025, 3, 4, 5, 6, 8, 0, time.UTC)
	e := esp(t, build(t, o))
	out := run(t, "mdir", "-i", e, "-b", "-/", "::")
	require.Equal(t, strings.Join([]string{
		"::/EFI/", "::/EFI/BOOT/", "::/EFI/BOOT/BOOTX64.EFI", "::/EFI/Linux/", "::" + UKIPath(o.UKI),
		"::/EFI/systemd/", "::/EFI/systemd/systemd-bootx64.efi",
		"::/loader/", "::/loader/loader.conf", "::/spore/", "::/spore/node",
	}, "\n"), sortedLines(out))
	to := filepath.Join(t.TempDir(), "uki")
	run(t, "mcopy", "-n", "-i", e, "::"+UKIPath(o.UKI), to)
	got, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, o.UKI, got)
	require.Contains(t, run(t, "mdir", "-i", e, "::/loader"), "2025-03-04   5:06")
	require.Contains(t, run(t, "minfo", "-i", e, "::"), "hidden sectors")
}

func sortedLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i := range lines {
		for j := i + 1; j < len(lines); j++ {
			if lines[j] < lines[i] {
				lines[i], lines[j] = lines[j], lines[i]
			}
		}
	}
	return strings.Join(lines, "\n")
}

func TestDiskfsReadsWhatWeFinished(t *testing.T) {
	o := options(t)
	f, err := os.Open(build(t, o))
	require.NoError(t, err)
	defer f.Close()
	table, err := gpt.Read(fileOnly{f}, sectorSize, sectorSize)
	require.NoError(t, err)
	require.False(t, table.RecoveredFromBackup)
	require.True(t, table.ProtectiveMBR)
	disk := newSparse(65 * mib)
	head := make([]byte, 16*mib)
	_, err = f.ReadAt(head, 0)
	require.NoError(t, err)
	_, err = disk.WriteAt(head, 0)
	require.NoError(t, err)
	fsys, err := fat32.Read(disk, 64*mib, mib, sectorSize)
	require.NoError(t, err)
	got, err := fsys.ReadFile(espfiles.Node)
	require.NoError(t, err)
	require.Equal(t, "edge-01", string(got))
}

type fileOnly struct{ *os.File }

func TestContentIsCopiedWhole(t *testing.T) {
	o := options(t)
	f, err := os.Open(build(t, o))
	require.NoError(t, err)
	defer f.Close()
	for off, src := range map[int64]Source{65 * mib: o.Root, 66 * mib: o.Verity, 67 * mib: o.Cluster} {
		want, err := os.ReadFile(src.Path)
		require.NoError(t, err)
		got := make([]byte, len(want))
		_, err = f.ReadAt(got, off)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestRefusedInputs(t *testing.T) {
	big := func(o *Options, field *Source, size int64) func(testing.TB) {
		return func(t testing.TB) {
			*field = Source{Path: filepath.Join(t.TempDir(), "big")}
			f, err := os.Create(field.Path)
			require.NoError(t, err)
			require.NoError(t, f.Truncate(size))
			require.NoError(t, f.Close())
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *Options)
		err    string
	}{
		"a root larger than its slot": {func(t *testing.T, o *Options) { big(o, &o.Root, mib+1)(t) },
			"root has 2 MiB and its slot 1 MiB: raise slots.root in image.yaml to 2 or more"},
		"a hash tree larger than its slot": {func(t *testing.T, o *Options) { big(o, &o.Verity, 2*mib)(t) },
			"verity has 2 MiB and its slot 1 MiB: raise slots.verity in image.yaml"},
		"a cluster part larger than its slot": {func(t *testing.T, o *Options) { big(o, &o.Cluster, 5*mib)(t) },
			"cluster has 5 MiB and its slot 1 MiB: raise slots.cluster in image.yaml"},
		"an empty root":  {func(t *testing.T, o *Options) { big(o, &o.Root, 0)(t) }, "is empty"},
		"a missing root": {func(t *testing.T, o *Options) { o.Root.Path = "/nonexistent/root" }, "no such file"},
		"an ESP without room for three UKIs": {func(t *testing.T, o *Options) {
			o.Slots.ESP = 64
			o.UKI = make([]byte, 30*mib)
		}, "raise slots.esp in image.yaml to 99"},
		"an ESP that firmware takes for FAT16": {func(t *testing.T, o *Options) { o.Slots.ESP = 32 }, "slots.esp is 32 MiB; write a number from 64"},
		"a negative slot":                      {func(t *testing.T, o *Options) { o.Slots.Root = -1 }, "slots.root is -1 MiB"},
		"a slot of more than a TiB":            {func(t *testing.T, o *Options) { o.Slots.Cluster = 1<<20 + 1 }, "slots.cluster is 1048577 MiB"},
		"a root hash that is none":             {func(t *testing.T, o *Options) { o.RootHash = "abc" }, `the root hash "abc"`},
		"a hash in capitals":                   {func(t *testing.T, o *Options) { o.ClusterHash = strings.ToUpper(clusterHash) }, "the cluster hash"},
		"a node name that is too long":         {func(t *testing.T, o *Options) { o.Node = strings.Repeat("n", 64) }, "longer than 63"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			c.change(t, &o)
			dir := t.TempDir()
			_, err := Write(context.Background(), filepath.Join(dir, "disk.img"), o)
			require.ErrorContains(t, err, c.err)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "nothing half-written stays")
		})
	}
}

func TestAnOldImageStaysWhenTheNewOneFails(t *testing.T) {
	o := options(t)
	p := build(t, o)
	o.Root.Path = "/nonexistent/root"
	_, err := Write(context.Background(), p, o)
	require.Error(t, err)
	_, err = inspect(t, p)
	require.NoError(t, err)
}

func TestRaisedSlotsMoveWhatFollows(t *testing.T) {
	o := options(t)
	o.Slots = Slots{ESP: 512, Root: 4096, Verity: 32, Cluster: 64}
	p := build(t, o)
	info, err := inspect(t, p)
	require.NoError(t, err)
	require.Empty(t, info.Problems)
	require.Equal(t, int64(1+512+4096+32+64+1)*mib, info.Size)
	require.Contains(t, run(t, "sgdisk", "-v", p), "No problems found")
}

func TestInspectTellsOfDamage(t *testing.T) {
	for name, c := range map[string]struct {
		off     int64 // from the end when negative
		data    []byte
		problem string
		err     string
	}{
		"the primary table":      {512 + 60, []byte{1}, "primary partition table: the GPT header has a wrong checksum; the backup is used", ""},
		"the primary entries":    {1024 + 60, []byte{1}, "primary partition table: the GPT entries have a wrong checksum", ""},
		"the backup table":       {-512, []byte("X"), "backup partition table: no GPT header", ""},
		"the boot sector":        {mib + 510, []byte("X"), "", "not a sound FAT32 filesystem"},
		"the root's superblock":  {65 * mib, []byte("X"), "root-a: it holds no squashfs", ""},
		"the root's size":        {65*mib + 47, []byte{1}, "root-a: its squashfs says that it has", ""},
		"the hash tree":          {66 * mib, []byte("X"), "root-a: no hash tree where it should be", ""},
		"the cluster's tree":     {67*mib + 8192, []byte("X"), "cluster-a: no hash tree where it should be", ""},
		"the FAT, with a circle": {mib + 32*512 + 8, []byte{2, 0, 0, 0}, "", "a chain is longer than its file"},
	} {
		t.Run(name, func(t *testing.T) {
			p := build(t, options(t))
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			require.NoError(t, err)
			defer f.Close()
			if c.off < 0 {
				st, err := f.Stat()
				require.NoError(t, err)
				c.off += st.Size()
			}
			_, err = f.WriteAt(c.data, c.off)
			require.NoError(t, err)
			info, err := inspect(t, p)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Contains(t, strings.Join(info.Problems, "\n"), c.problem)
		})
	}
}

func TestInspectRefusesOtherFiles(t *testing.T) {
	for name, data := range map[string]string{"nothing": "", "text": strings.Repeat("no disk ", 1000)} {
		t.Run(name, func(t *testing.T) {
			_, err := Inspect(strings.NewReader(data), int64(len(data)))
			require.Error(t, err)
		})
	}
}

func TestCopyThroughMemoryIsTheSame(t *testing.T) {
	dir := t.TempDir()
	want := bytes.Repeat([]byte("0123456789"), 300000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "src"), want, 0o644))
	src, err := os.Open(filepath.Join(dir, "src"))
	require.NoError(t, err)
	defer src.Close()
	dst, err := os.Create(filepath.Join(dir, "dst"))
	require.NoError(t, err)
	defer dst.Close()
	require.NoError(t, copyThrough(dst, 5, src, 0, int64(len(want))))
	got := make([]byte, len(want))
	_, err = dst.ReadAt(got, 5)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.ErrorIs(t, copyThrough(dst, 5, src, 0, int64(len(want))+1), io.ErrUnexpectedEOF)
}

// FuzzInspect puts changed sectors over a sound image: its tables and the beginning of its ESP.
func FuzzInspect(f *testing.F) {
	p := build(f, options(f))
	base, err := os.ReadFile(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(base[512:1024], int64(512))
	f.Add(base[1024:1536], int64(1024))
	f.Add(base[mib:mib+512], int64(mib))
	f.Add([]byte("EFI PART"), int64(512))
	f.Add(base[65*mib:65*mib+96], int64(65*mib))
	f.Fuzz(func(t *testing.T, change []byte, off int64) {
		r := &patched{base: bytes.NewReader(base), change: change, off: off}
		_, _ = Inspect(r, int64(len(base)))
		_, _ = Inspect(bytes.NewReader(change), int64(len(change)))
		if fsys, err := fat.Open(bytes.NewReader(change), int64(len(change))); err == nil {
			_, _ = fsys.List(ukiDir)
		}
	})
}

// patched is base with other bytes at an offset.
type patched struct {
	base   io.ReaderAt
	change []byte
	off    int64
}

func (p *patched) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.base.ReadAt(b, off)
	for i := range b[:n] {
		if j := off + int64(i) - p.off; j >= 0 && j < int64(len(p.change)) {
			b[i] = p.change[j]
		}
	}
	return n, err
}

// BenchmarkWrite measures all but the copy of the root: the partition table, an ESP of 1 GiB with a UKI of 16 MiB.
func BenchmarkWrite(b *testing.B) {
	o := options(b)
	o.Slots = Slots{}
	o.UKI = append(o.UKI, make([]byte, 16*mib)...)
	for i := range o.UKI[1536:] {
		o.UKI[1536+i] = byte(i >> 3)
	}
	name := filepath.Join(b.TempDir(), "disk.img")
	for b.Loop() {
		_, err := Write(context.Background(), name, o)
		require.NoError(b, err)
	}
}
