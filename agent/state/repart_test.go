package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/ext4"
	"spore/cluster/spec"
	"spore/storage/blank"
	"spore/storage/disk"
	"spore/storage/gpt"
)

func TestDefinitionsLeaveWhatIsThere(t *testing.T) {
	table := gpt.Table{Partitions: []gpt.Partition{
		{Number: 1, Type: typeESP, Size: 8 << 20}, {Number: 2, Type: typeRoot, Size: 16 << 20}, {Number: 7, GUID: want, Type: typeVar, Size: 300 << 20},
		{Number: 9, Type: gpt.MustParseGUID(foreign), Size: 1 << 20},
	}}
	require.Equal(t, map[string]string{
		"10-partition-001.conf": "[Partition]\nType=" + typeESP.String() + "\nSizeMinBytes=8388608\nSizeMaxBytes=8388608\n",
		"10-partition-002.conf": "[Partition]\nType=" + typeRoot.String() + "\nSizeMinBytes=16777216\nSizeMaxBytes=16777216\n",
		"10-partition-007.conf": "[Partition]\nType=" + typeVar.String() + "\nLabel=spore-state\nUUID=" + want.String() + "\nFormat=ext4\nSizeMinBytes=314572800\n",
		"50-0-root-b.conf":      "[Partition]\nType=" + typeRoot.String() + "\nLabel=root-b\nSizeMinBytes=16777216\nSizeMaxBytes=16777216\n",
	}, definitions(table, want, missingSlots(table)))
}

// step chooses and lets repart do what the plan says.
func step(t *testing.T, r Request, o Options) Plan {
	t.Helper()
	p, err := Choose(r)
	require.NoError(t, err)
	if os.Geteuid() != 0 {
		for name, d := range p.Definitions {
			p.Definitions[name] = strings.Replace(d, "Format=ext4\n", "", 1) // repart of Debian 12 needs a loop device for that.
		}
	}
	if p.Repart {
		require.NoError(t, makeState(context.Background(), o, p, want))
	}
	return p
}

// checkFileSystem lets e2fsprogs look at the state partition.
func checkFileSystem(t *testing.T, d disk.Disk, p gpt.Partition) {
	t.Run("e2fsprogs find its file system whole", func(t *testing.T) { requireFileSystem(t, d, p) })
}

func requireFileSystem(t *testing.T, d disk.Disk, p gpt.Partition) {
	if os.Geteuid() != 0 {
		t.Skip("only root has repart make file systems")
	}
	tool(t, "e2fsck", "-fn", fmt.Sprintf("%s?offset=%d", d.Path(), p.Start))
	f, err := os.Open(d.Path())
	require.NoError(t, err)
	defer f.Close()
	blocks, blockSize, err := ext4.Size(&section{f, p.Start})
	require.NoError(t, err)
	dump := tool(t, "dumpe2fs", "-h", fmt.Sprintf("%s?offset=%d", d.Path(), p.Start))
	require.Regexp(t, `Filesystem state: +clean\n`, dump)
	require.Regexp(t, fmt.Sprintf(`Block count: +%d\n`, blocks), dump)
	require.Regexp(t, fmt.Sprintf(`Block size: +%d\n`, blockSize), dump)
}

// section is a file from an offset on.
type section struct {
	f   *os.File
	off int64
}

func (s *section) ReadAt(b []byte, off int64) (int, error) { return s.f.ReadAt(b, off+s.off) }

func TestRepartMakesTheStateOfAFreshBootDiskAndGrowsIt(t *testing.T) {
	d, o := bootImage(t, 1<<30, "BOOT"), options(t)
	before := readTable(t, d)
	require.False(t, step(t, request(&d), o).Found)
	require.Contains(t, tool(t, "sgdisk", "-v", d.Path()), "No problems found")
	made := readTable(t, d)
	require.Len(t, made.Partitions, 8)
	require.Equal(t, before.Partitions, made.Partitions[:4], "the image's own partitions are left as they are")
	for i, size := range []int64{16 << 20, 4 << 20, 8 << 20} {
		require.Equal(t, size, made.Partitions[4+i].Size)
	}
	state, ok := made.ByGUID(want)
	require.True(t, ok)
	require.Equal(t, typeVar, state.Type)
	require.Greater(t, state.Size, int64(900<<20))
	checkFileSystem(t, d, state)

	sum := checksum(t, d)
	again := step(t, request(&d), o)
	require.True(t, again.Found)
	require.False(t, again.Repart, "the next boot has nothing to do")
	require.Equal(t, sum, checksum(t, d))

	enlarge(t, &d, 2<<30)
	require.True(t, step(t, request(&d), o).Repart)
	grown, _ := readTable(t, d).ByGUID(want)
	require.Equal(t, state.Start, grown.Start)
	require.Greater(t, grown.Size, state.Size+900<<20)
	checkFileSystem(t, d, grown)
	require.False(t, step(t, request(&d), o).Repart)
}

func TestAStickWithAnISOGetsStateAndSlotsOfTheFixedLayout(t *testing.T) {
	d, o := imageDisk(t, 40<<20, "STICK"), options(t)
	sfdisk(t, d, "label: gpt\nfirst-lba: 2048\nstart=8192, size=8MiB, type=%s, name=esp\nstart=2048, size=1MiB, type=%s, name=root-a\n"+
		"start=4096, size=1MiB, type=%s, name=verity-a\nstart=6144, size=1MiB, type=%s, name=cluster-a\nstart=24576, size=8MiB, type=%s, name=spore-iso\n",
		typeESP, typeRoot, typeVerity, typeCluster, typeISO)
	before := readTable(t, d)
	enlarge(t, &d, 4<<30)
	p := step(t, request(&d), o)
	require.Empty(t, p.Warning)
	made := readTable(t, d)
	require.Equal(t, before.Partitions, made.Partitions[:5], "what the ISO has is left as it is")
	require.Len(t, made.Partitions, 9)
	for i, size := range []int64{2048 << 20, 32 << 20, 64 << 20} {
		require.Equal(t, size, made.Partitions[5+i].Size)
		require.GreaterOrEqual(t, made.Partitions[5+i].Start, int64(20<<20))
	}
	state, ok := made.ByGUID(want)
	require.True(t, ok)
	require.Greater(t, state.Size, int64(1800<<20))
	require.False(t, step(t, request(&d), o).Repart)
}

func TestASmallBootDiskGetsStateWithoutSlotsAndSlotsWhenItGrows(t *testing.T) {
	d, o := bootImage(t, 40<<20+MinSize+10<<20, "BOOT"), options(t)
	step(t, request(&d), o)
	require.Len(t, readTable(t, d).Partitions, 5)
	enlarge(t, &d, 2<<30)
	p := step(t, request(&d), o)
	require.True(t, p.Found && p.Repart)
	require.Empty(t, p.Warning)
	require.Len(t, readTable(t, d).Partitions, 8)
	require.False(t, step(t, request(&d), o).Repart)
}

func TestRepartMakesTheStateOfANamedDisk(t *testing.T) {
	d, o := imageDisk(t, 600<<20, "DATA"), options(t)
	r := request(nil, d)
	r.Named = &spec.DiskSelector{Serial: "DATA"}
	require.True(t, step(t, r, o).FromScratch)
	table := readTable(t, d)
	require.Len(t, table.Partitions, 1)
	checkFileSystem(t, d, table.Partitions[0])
	p := step(t, r, o)
	require.True(t, p.Found)
	require.False(t, p.FromScratch || p.Repart)
	f, err := os.Open(d.Path())
	require.NoError(t, err)
	defer f.Close()
	marked, err := blank.Marked(f, made(want))
	require.NoError(t, err)
	require.False(t, marked, "the marker is gone once the partition is there")
}

// TestACutWhileTheNamedDiskIsMade replays what a power cut can leave on the disk between the marker and its end.
func TestACutWhileTheNamedDiskIsMade(t *testing.T) {
	done, o := imageDisk(t, 600<<20, "DATA"), options(t)
	r := request(nil, done)
	r.Named = &spec.DiskSelector{Serial: "DATA"}
	step(t, r, o)
	const sector, mib = 512, 1 << 20
	size := done.Size
	type span struct{ start, end int64 }
	for name, missing := range map[string][]span{
		"before anything but the marker":             {{0, blank.MarkerAt}, {mib, size}},
		"while it is formatted":                      {{0, blank.MarkerAt}, {8 * mib, size}},
		"after the backup of the entries":            {{0, blank.MarkerAt}, {size - sector, size}},
		"after the backup of the table":              {{0, blank.MarkerAt}},
		"after the primary entries":                  {{0, 2 * sector}},
		"after the primary header":                   {{0, sector}},
		"after the table, before the marker is gone": {},
	} {
		t.Run(name, func(t *testing.T) {
			d := clone(t, done)
			writeAt(t, d, string(blank.Marker(made(want))), blank.MarkerAt)
			for _, m := range missing {
				zero(t, d, m.start, m.end)
			}
			r := request(nil, d)
			r.Named = &spec.DiskSelector{Serial: "DATA"}
			step(t, r, options(t))
			require.Contains(t, tool(t, "sgdisk", "-v", d.Path()), "No problems found")
			p, ok := readTable(t, d).ByGUID(want)
			require.True(t, ok)
			checkFileSystem(t, d, p)
			last := step(t, r, options(t))
			require.True(t, last.Found)
			require.False(t, last.Repart)
		})
	}
}

func TestResetOfADiskMarksItAsThisNodes(t *testing.T) {
	d, o := imageDisk(t, 600<<20, "DATA"), options(t)
	tool(t, "mkfs.ext4", "-q", d.Path())
	r := request(nil, d)
	r.Named = &spec.DiskSelector{Serial: "DATA"}
	_, err := Choose(r)
	require.ErrorContains(t, err, "spore reset edge-01 --disk DATA")
	sum := checksum(t, d)
	other := disk.Disk{Name: "sdx", Serials: []string{"OTHER"}}
	o.List = func() ([]disk.Disk, error) { return []disk.Disk{d, other}, nil }
	require.ErrorContains(t, Reset(o, d, false), "names no disk for state")
	o.Named = &spec.DiskSelector{Serial: "OTHER"}
	require.ErrorContains(t, Reset(o, d, false), "does not name")
	o.Named, o.BootDisk = r.Named, d.Name
	require.ErrorContains(t, Reset(o, d, false), "no GUID partition table")
	require.Equal(t, sum, checksum(t, d))
	o.BootDisk = ""
	require.NoError(t, Reset(o, d, false))
	require.True(t, step(t, r, o).FromScratch)
	require.True(t, step(t, r, o).Found)
}

func TestEditingTheTableKeepsBothCopiesValid(t *testing.T) {
	d := bootImage(t, 1<<30, "BOOT")
	addState(t, d, foreign, "300MiB")
	f, err := os.OpenFile(d.Path(), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, editTable(f, d, 5, func(e []byte) { copy(e[16:32], want.OnDisk()) }))
	require.Contains(t, tool(t, "sgdisk", "-v", d.Path()), "No problems found")
	require.Contains(t, tool(t, "sgdisk", "-i5", d.Path()), strings.ToUpper(want.String()))
	require.NoError(t, editTable(f, d, 5, func(e []byte) { clear(e) }))
	require.Contains(t, tool(t, "sgdisk", "-v", d.Path()), "No problems found")
	require.Len(t, readTable(t, d).Partitions, 4)
	require.ErrorContains(t, editTable(f, d, 4000, nil), "damaged")
}

func TestBind(t *testing.T) {
	mine := Binding{Cluster: clusterID, Node: "edge-01", PartUUID: want.String()}
	write := func(path, data string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(data), 0o644))
		}
	}
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, dir string)
		err     string
	}{
		"a new file system is bound":              {func(*testing.T, string) {}, ""},
		"one with lost+found alone too":           {func(t *testing.T, dir string) { require.NoError(t, os.Mkdir(dir+"/lost+found", 0o700)) }, ""},
		"one that was cut off while it was bound": {write("lib/spore/.state.json-123", "{"), ""},
		"this node's is taken":                    {func(t *testing.T, dir string) { require.NoError(t, WriteBinding(dir, mine)) }, ""},
		"another node's is refused": {
			func(t *testing.T, dir string) {
				require.NoError(t, WriteBinding(dir, Binding{Cluster: clusterID, Node: "edge-02"}))
			}, `belongs to node "edge-02"`,
		},
		"another cluster's is refused": {
			func(t *testing.T, dir string) {
				require.NoError(t, WriteBinding(dir, Binding{Cluster: "other", Node: "edge-01"}))
			}, `of cluster "other"`,
		},
		"one with data and no binding is refused": {write("lib/etcd/member", "x"), "it holds lib/etcd but no binding"},
		"a damaged binding is refused":            {write("lib/spore/state.json", "{"), "cannot be read"},
		"a huge binding is refused":               {write("lib/spore/state.json", strings.Repeat(" ", 5000)), "more than 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tc.prepare(t, dir)
			err := Bind(dir, mine)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.NoError(t, Bind(dir, mine), "and again")
		})
	}
}
