package flash

import (
	"bytes"
	"encoding/binary"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/fat"
	"spore/storage/gpt"
)

// someImage is a disk image with an ESP that holds files, a root whose slot has room behind it, and a cluster part with its
// hash tree.
func someImage(t testing.TB) []byte {
	t.Helper()
	const esp = 64 * mebi
	table := gpt.Table{Disk: guid(1), Partitions: []gpt.Partition{
		{Number: 1, Type: gpt.ESP, GUID: guid(2), Start: mebi, Size: esp, Name: "esp"},
		{Number: 2, Type: typeRoot, GUID: guid(3), Start: mebi + esp, Size: mebi, Name: "root-a"},
		{Number: 3, Type: typeVerity, GUID: guid(4), Start: 2*mebi + esp, Size: mebi, Name: "verity-a"},
		{Number: 4, Type: typeCluster, GUID: guid(5), Start: 3*mebi + esp, Size: mebi, Name: "cluster-a"},
	}}
	data := make([]byte, esp+5*mebi)
	e, err := table.Encode(int64(len(data)), 512)
	require.NoError(t, err)
	copy(data, e.MBR)
	copy(data[512:], e.Primary)
	copy(data[e.BackupAt:], e.Backup)
	img, err := fat.New(fat.Options{Size: esp, Offset: mebi, Files: []fat.File{
		memFile("/EFI/BOOT/BOOTX64.EFI", "loader"), memFile("/EFI/Linux/spore_1.efi", "kernel"),
		memFile("/spore/node", "old-node"), memFile("/loader/random-seed", "seed"),
	}})
	require.NoError(t, err)
	_, err = img.ReadAt(data[mebi:mebi+esp], 0)
	require.NoError(t, err)
	copy(data[mebi+esp:], squashfs(10_000))
	copy(data[2*mebi+esp:], tree(3))
	copy(data[3*mebi+esp:], squashfs(4096*200))
	copy(data[3*mebi+esp+4096*200:], tree(200))
	return data
}

func memFile(path, content string) fat.File {
	return fat.File{Path: path, Size: int64(len(content)), Content: strings.NewReader(content)}
}

func squashfs(used int) []byte {
	b := noise(8, used)
	copy(b, squashfsMagic)
	binary.LittleEndian.PutUint64(b[40:], uint64(used))
	return b
}

func tree(blocks uint64) []byte {
	b := make([]byte, 4096)
	copy(b, verityMagic)
	binary.LittleEndian.PutUint32(b[64:], 4096)
	binary.LittleEndian.PutUint32(b[68:], 4096)
	binary.LittleEndian.PutUint64(b[72:], blocks)
	return b
}

func TestTheLayoutOfAnImageLeavesOutWhatNobodyReads(t *testing.T) {
	data := someImage(t)
	l, err := Image(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	var sizes []int64
	for _, e := range l.Extents {
		sizes = append(sizes, e.Size)
	}
	require.Equal(t, []int64{64 * mebi, 3 * 4096, 4096 + 4096, 200*4096 + 4096 + 3*4096}, sizes, "ESP whole; root; a tree of one level; filesystem and a tree of two levels")
	require.Nil(t, l.MBR)
}

func TestSizesThatCannotBeCountWhole(t *testing.T) {
	p := gpt.Partition{Type: typeRoot, Size: mebi}
	for name, content := range map[string][]byte{
		"nothing that is known":                   noise(1, mebi),
		"a filesystem larger than its partition":  squashfs(4096)[:4096],
		"a tree larger than its partition":        append(squashfs(4096*255), tree(1<<30)...),
		"a tree of more blocks than any disk has": tree(1 << 60),
		"a tree with other blocks":                tree(0),
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "a filesystem") {
				binary.LittleEndian.PutUint64(content[40:], 1<<62)
			}
			want := p.Size
			if strings.HasPrefix(name, "a tree larger") {
				want = mebi
			}
			padded := make([]byte, mebi)
			copy(padded, content)
			require.Equal(t, want, Used(bytes.NewReader(padded), p.Type, p.Size))
		})
	}
}

func TestTheChoiceOfANodeIsPutOnTheESP(t *testing.T) {
	data := someImage(t)
	l, err := Image(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	for _, sector := range []int{512, 4096} {
		if sector == 4096 {
			// That many clusters of 4096 bytes take a larger ESP.
			_, err := l.With(Choice{Node: "edge-02"}, sector)
			require.ErrorContains(t, err, "FAT32 has")
			continue
		}
		with, err := l.With(Choice{Node: "edge-02", Bundle: []byte("secret")}, sector)
		require.NoError(t, err)
		require.Equal(t, sector, with.SectorSize)
		require.Equal(t, map[string]string{
			"/EFI/BOOT/BOOTX64.EFI": "loader", "/EFI/Linux/spore_1.efi": "kernel",
			"/spore/node": "edge-02", "/spore/bundle": "secret",
		}, filesOf(t, with.Extents[0]), "what another machine had is not taken over")
		require.Contains(t, filesOf(t, l.Extents[0]), "/loader/random-seed", "the image stays as it is")
	}
	without, err := l.With(Choice{}, 512)
	require.NoError(t, err)
	require.Len(t, filesOf(t, without.Extents[0]), 2)
}

func TestAnAnswerFileIsPutOnTheESPAndIsNotTakenOver(t *testing.T) {
	data := someImage(t)
	l, err := Image(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	with, err := l.With(Choice{Node: "edge-02", Answers: []byte("node: edge-02\n")}, 512)
	require.NoError(t, err)
	require.Equal(t, "node: edge-02\n", filesOf(t, with.Extents[0])["/spore/answers"])
	disk, err := with.With(Choice{Node: "edge-02", Installed: []byte("mark")}, 512)
	require.NoError(t, err)
	require.NotContains(t, filesOf(t, disk.Extents[0]), "/spore/answers")
	require.Equal(t, "mark", filesOf(t, disk.Extents[0])["/spore/installed"])
	again, err := disk.With(Choice{Node: "edge-02"}, 512)
	require.NoError(t, err)
	require.NotContains(t, filesOf(t, again.Extents[0]), "/spore/installed")
}

func filesOf(t *testing.T, e Extent) map[string]string {
	t.Helper()
	fsys, err := fat.Open(e.Content, e.Size)
	require.NoError(t, err)
	files, err := fsys.Walk()
	require.NoError(t, err)
	out := map[string]string{}
	for _, f := range files {
		b, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size))
		require.NoError(t, err)
		out[f.Path] = string(b)
	}
	return out
}

func TestAHybridImageIsTakenWhole(t *testing.T) {
	data := someImage(t)
	copy(data[32769:], "CD001")
	copy(data, noise(2, 440))
	l, err := Image(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Len(t, l.Extents, 3, "before the ESP, it, and behind it")
	require.EqualValues(t, gpt.Reserved(512), l.Extents[0].At)
	require.Equal(t, data[:512], l.MBR)
	end := l.Extents[2].At + l.Extents[2].Size
	require.EqualValues(t, len(data)-33*512, end, "all but the backup of its table")
	with, err := l.With(Choice{Node: "edge-02"}, 512)
	require.NoError(t, err)
	require.Equal(t, "edge-02", filesOf(t, with.Extents[1])["/spore/node"])
}

func TestWhatIsNoImageIsRefused(t *testing.T) {
	data := someImage(t)
	other, err := gpt.Table{Partitions: []gpt.Partition{{Number: 1, Type: gpt.ESP, GUID: guid(1), Start: mebi, Size: mebi}}}.Encode(diskSize, 512)
	require.NoError(t, err)
	foreign := make([]byte, diskSize)
	copy(foreign[512:], other.Primary)
	damaged := bytes.Clone(data)
	damaged[600] ^= 1
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":                    {nil, "no partition table"},
		"another file":               {noise(1, 4096), "no partition table"},
		"a disk of something else":   {foreign, "not an image of Spore"},
		"an image that is damaged":   {damaged, "damaged"},
		"an image that is cut short": {data[:mebi], "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Image(bytes.NewReader(tc.data), int64(len(tc.data)))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestSgdiskTakesTheTableOfAWrittenDisk(t *testing.T) {
	name := fileOf(t, t.TempDir())
	f, err := Open(name)
	require.NoError(t, err)
	defer f.Close()
	_, err = Write(t.Context(), f, Options{Layout: someLayout(2)})
	require.NoError(t, err)
	out, err := exec.Command("sgdisk", "-v", name).CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", out)
	require.Contains(t, string(out), "No problems found")
}

// FuzzImage lays out whatever a file may hold.
func FuzzImage(f *testing.F) {
	data := someImage(f)[:mebi]
	f.Add(uint32(512), byte(0))
	f.Add(uint32(1024+32), byte(3))
	f.Fuzz(func(t *testing.T, at uint32, value byte) {
		changed := bytes.Clone(data)
		changed[int(at)%len(changed)] ^= value
		l, err := Image(bytes.NewReader(changed), 70*mebi)
		if err != nil {
			return
		}
		_, _ = l.With(Choice{Node: "a"}, 512)
	})
}
