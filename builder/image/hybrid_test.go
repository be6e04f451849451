package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/iso"
)

// fakeISOLinux has what of isolinux.bin is looked at.
func fakeISOLinux() []byte {
	b := bytes.Repeat([]byte("isolinux"), 601) // no multiple of a sector
	copy(b[bootInfoEnd:], hybridMagic)
	return b
}

// isoOptions are those of a small ISO.
func isoOptions(t testing.TB) ISOOptions {
	t.Helper()
	o := ISOOptions{
		Options: options(t), Cmdline: "roothash=" + rootHash + " ro", Kernel: bytes.Repeat([]byte("kernel "), 1000), Initrd: bytes.Repeat([]byte("initrd "), 999),
		BIOS: BIOS{MBR: bytes.Repeat([]byte("mbr code"), 54), ISOLinux: fakeISOLinux(), Ldlinux: []byte("ldlinux")},
	}
	o.Slots, o.Time = Slots{}, time.Date(2026, 3, 4, 5, 6, 8, 0, time.UTC)
	return o
}

func buildISO(t testing.TB, o ISOOptions) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "spore.iso")
	_, err := WriteISO(context.Background(), p, o)
	require.NoError(t, err)
	return p
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return b
}

func TestTheLayoutOfAnISO(t *testing.T) {
	info, err := inspect(t, buildISO(t, isoOptions(t)))
	require.NoError(t, err)
	require.Empty(t, info.Problems)
	p := info.Partitions
	require.Equal(t, []Partition{
		{1, "esp", TypeESP, p[0].UUID, 4 * mib, 64 * mib, 0},
		{2, "root-a", TypeRoot, "00112233-4455-6677-8899-aabbccddeeff", 1 * mib, 1 * mib, 1 << 60},
		{3, "verity-a", TypeVerity, "01234567-89ab-cdef-0123-456789abcdef", 2 * mib, 1 * mib, 1 << 60},
		{4, "cluster-a", TypeCluster, "cafebabe-4455-6677-8899-aabbccddeeff", 3 * mib, 1 * mib, 0},
		{5, "spore-iso", TypeReserved, p[4].UUID, 68 * mib, 1 * mib, 1 << 60},
	}, p)
	require.Equal(t, int64(70*mib), info.Size)
	require.Equal(t, "edge-01", info.Node)
	require.Equal(t, rootHash, info.RootHash)
	require.Equal(t, int64(1*mib), info.Root.Offset)
	require.Equal(t, "SPORE", info.ISO.Label)
	require.True(t, info.ISO.UEFI)
	require.True(t, info.ISO.BIOS)
	disk, err := inspect(t, build(t, options(t)))
	require.NoError(t, err)
	require.NotEqual(t, disk.Partitions[0].UUID, p[0].UUID, "by its ESP an ISO is told from the disk image of the same build")
	require.NotEqual(t, disk.DiskUUID, info.DiskUUID)
}

func TestTheFilesOfAnISO(t *testing.T) {
	o := isoOptions(t)
	path := buildISO(t, o)
	info, err := inspect(t, path)
	require.NoError(t, err)
	b := readFile(t, path)
	get := func(name string) string {
		f, ok := iso.Find(info.ISO.Files, name)
		require.True(t, ok, name)
		return string(b[f.Sector*iso.SectorSize:][:f.Size])
	}
	for name, want := range map[string][]byte{
		"spore/root.squashfs": readFile(t, o.Root.Path), "spore/root.verity": readFile(t, o.Verity.Path), "spore/cluster.squashfs": readFile(t, o.Cluster.Path),
		"efi/boot/bootx64.efi": o.SystemdBoot, UKIPath(o.UKI)[1:]: o.UKI, "loader/loader.conf": []byte(loaderConf),
		"boot/vmlinuz": o.Kernel, "boot/initrd": o.Initrd, "isolinux/ldlinux.c32": o.BIOS.Ldlinux,
	} {
		require.Equal(t, string(want), get(name), name)
	}
	require.Contains(t, get("isolinux/isolinux.cfg"), "\n  append roothash="+rootHash+" ro spore.loader="+info.Partitions[0].UUID+"\n")
	require.Contains(t, get("isolinux/isolinux.cfg"), "\ntimeout 0\nnoescape 1\nallowoptions 0\n")

	t.Run("isolinux knows its place on the disc, and so does the MBR", func(t *testing.T) {
		f, _ := iso.Find(info.ISO.Files, isolinuxPath)
		isolinux, le := []byte(get(isolinuxPath)), binary.LittleEndian
		require.Equal(t, uint32(16), le.Uint32(isolinux[8:]))
		require.Equal(t, uint32(f.Sector), le.Uint32(isolinux[12:]))
		require.Equal(t, uint32(len(o.BIOS.ISOLinux)), le.Uint32(isolinux[16:]))
		var sum uint32
		for w := append(bytes.Clone(isolinux[64:]), 0, 0, 0); len(w) >= 4; w = w[4:] {
			sum += le.Uint32(w)
		}
		require.Equal(t, sum, le.Uint32(isolinux[20:]))
		require.Equal(t, make([]byte, 40), isolinux[24:64])
		require.Equal(t, o.BIOS.ISOLinux[64:], isolinux[64:])
		require.Equal(t, o.BIOS.MBR, b[:432])
		require.Equal(t, uint32(f.Sector*4), le.Uint32(b[432:]))
	})
}

// mbrEntries are the four entries of an MBR.
func mbrEntries(b []byte) [][]byte {
	var out [][]byte
	for i := range 4 {
		out = append(out, b[446+16*i:][:16])
	}
	return out
}

func TestTheMBRIsProtectiveAndHasOneActiveEntry(t *testing.T) {
	b := readFile(t, buildISO(t, isoOptions(t)))
	e, le := mbrEntries(b), binary.LittleEndian
	require.Equal(t, []byte{0x00, 0x00, 0x02, 0x00, 0xee, 0xff, 0xff, 0xff}, e[0][:8])
	require.Equal(t, uint32(1), le.Uint32(e[0][8:]))
	require.Equal(t, uint32(len(b)/512-1), le.Uint32(e[0][12:]))
	require.Equal(t, byte(0x80), e[1][0])
	require.NotContains(t, []byte{0x00, 0xee, 0xef}, e[1][4])
	require.Equal(t, []uint32{0, 1}, []uint32{le.Uint32(e[1][8:]), le.Uint32(e[1][12:])}, "what the protective entry leaves")
	require.Equal(t, make([]byte, 32), b[446+32:446+64])
	require.Equal(t, []byte{0x55, 0xaa}, b[510:512])
}

func TestElToritoAndTheGPTLeadToTheSameESP(t *testing.T) {
	for name, c := range map[string]struct {
		uki  int
		size int64
	}{"of the least size": {0, 64 * mib}, "of a larger UKI": {30 * mib, 99 * mib}} {
		t.Run(name, func(t *testing.T) {
			o := isoOptions(t)
			o.UKI = append(o.UKI, make([]byte, c.uki)...)
			info, err := inspect(t, buildISO(t, o))
			require.NoError(t, err)
			require.Equal(t, c.size, info.Partitions[0].Size)
			require.Len(t, info.ISO.Boot, 2)
			require.Equal(t, iso.Entry{Platform: iso.UEFI, Sector: info.Partitions[0].Offset / 2048, Load: 0}, info.ISO.Boot[1], "0 reaches to the end: the size does not fit")
			require.Equal(t, uint16(4), info.ISO.Boot[0].Load)
		})
	}
}

func TestSameInputsSameISO(t *testing.T) {
	o := isoOptions(t)
	first := buildISO(t, o)
	run(t, "cmp", first, buildISO(t, o))
	o.Cmdline += " quiet"
	require.Error(t, exec.Command("cmp", "-s", first, buildISO(t, o)).Run())
}

func TestAnISOIsMadeOfAnISO(t *testing.T) {
	o := isoOptions(t)
	old := buildISO(t, o)
	info, err := inspect(t, old)
	require.NoError(t, err)
	f, err := os.Open(old)
	require.NoError(t, err)
	defer f.Close()
	bios, err := info.ReadBIOS(f)
	require.NoError(t, err)
	file := func(name string) Source {
		at, ok := iso.Find(info.ISO.Files, name)
		require.True(t, ok)
		return Source{Path: old, Offset: at.Sector * iso.SectorSize, Size: at.Size}
	}
	o.BIOS, o.Root, o.Verity, o.Cluster = bios, file(isoRoot), file(isoVerity), file(isoCluster)
	run(t, "cmp", old, buildISO(t, o))

	t.Run("a disk image has nothing for a BIOS", func(t *testing.T) {
		disk := build(t, options(t))
		info, err := inspect(t, disk)
		require.NoError(t, err)
		require.Nil(t, info.ISO)
		_, err = info.ReadBIOS(f)
		require.ErrorContains(t, err, "is not an ISO")
	})
}

func TestTheRootOfAnISOStaysWhereItIsWhenTheConfigurationGrows(t *testing.T) {
	o := isoOptions(t)
	before, err := inspect(t, buildISO(t, o))
	require.NoError(t, err)
	o.UKI = append(o.UKI, make([]byte, 40*mib)...)
	o.Cluster.Path = filepath.Join(t.TempDir(), "cluster")
	require.NoError(t, os.WriteFile(o.Cluster.Path, append(squash(3*mib), verityTree()...), 0o644))
	after, err := inspect(t, buildISO(t, o))
	require.NoError(t, err)
	require.Equal(t, before.Partitions[1:3], after.Partitions[1:3])
	require.NotEqual(t, before.Partitions[3].Size, after.Partitions[3].Size)
}

func TestAnISOOfALargeRootIsSparseAndStreamed(t *testing.T) {
	o := isoOptions(t)
	o.Root.Path = filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.WriteFile(o.Root.Path, squash(1000), 0o644))
	require.NoError(t, os.Truncate(o.Root.Path, 5<<30))
	path := filepath.Join(filepath.Dir(o.Root.Path), "spore.iso")
	_, err := WriteISO(context.Background(), path, o)
	require.NoError(t, err)
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Greater(t, st.Size(), int64(5<<30))
	require.Less(t, st.Sys().(*syscall.Stat_t).Blocks*512, int64(16*mib))
	info, err := inspect(t, path)
	require.NoError(t, err)
	require.Empty(t, info.Problems)
	f, ok := iso.Find(info.ISO.Files, isoRoot)
	require.True(t, ok)
	require.Equal(t, int64(5<<30), f.Size)
}

func TestSgdiskFindsNoFaultInAnISOButTheEntryForOldBIOSes(t *testing.T) {
	path := buildISO(t, isoOptions(t))
	out := run(t, "sgdisk", "-v", path)
	require.Contains(t, out, "MBR partition 2, of type 0x17,\nhas no corresponding GPT partition")
	require.Contains(t, out, "Identified 1 problems")
	require.Contains(t, run(t, "sgdisk", "-p", path), "First usable sector is 2048,")
}

func TestFsckFindsNoFaultInTheESPOfAnISO(t *testing.T) {
	out := run(t, "fsck.fat", "-n", "-v", esp(t, buildISO(t, isoOptions(t))))
	require.NotContains(t, out, "differ")
	require.NotContains(t, out, "wrong")
}

func TestWhatIsRefusedForAnISO(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ISOOptions)
		err    string
	}{
		"an MBR of another size":          {func(o *ISOOptions) { o.BIOS.MBR = o.BIOS.MBR[1:] }, "isohdpfx.bin has 431 bytes"},
		"an isolinux without hybrid mode": {func(o *ISOOptions) { o.BIOS.ISOLinux[64] = 0 }, "isolinux.bin"},
		"an isolinux that is too short":   {func(o *ISOOptions) { o.BIOS.ISOLinux = nil }, "isolinux.bin of 0 bytes"},
		"no ldlinux":                      {func(o *ISOOptions) { o.BIOS.Ldlinux = nil }, "ldlinux.c32"},
		"an initrd on the command line":   {func(o *ISOOptions) { o.Cmdline = "ro initrd=/x" }, "initrd="},
		"a command line of two lines":     {func(o *ISOOptions) { o.Cmdline = "ro\nlabel x" }, "line ends"},
		"a hash that is none":             {func(o *ISOOptions) { o.RootHash = "" }, "root hash"},
		"a root that is not there":        {func(o *ISOOptions) { o.Root.Path = "/nonexistent" }, "no such file"},
		"a node name that is too long":    {func(o *ISOOptions) { o.Node = strings.Repeat("n", 64) }, "longer than 63"},
	} {
		t.Run(name, func(t *testing.T) {
			o := isoOptions(t)
			c.change(&o)
			dir := t.TempDir()
			_, err := WriteISO(context.Background(), filepath.Join(dir, "spore.iso"), o)
			require.ErrorContains(t, err, c.err)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestInspectTellsOfADamagedISO(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(b []byte)
		note   string
	}{
		"a boot catalog of zeros":           {func(b []byte) { clear(b[19*2048 : 20*2048]) }, "boot catalog"},
		"an entry that leads elsewhere":     {func(b []byte) { b[19*2048+96+8]++ }, "UEFI does not boot it"},
		"a BIOS entry that leads elsewhere": {func(b []byte) { b[19*2048+32+8]++ }, "a BIOS does not boot it"},
		"a directory outside":               {func(b []byte) { b[16*2048+156+5] = 0xff }, "the directory /"},
	} {
		t.Run(name, func(t *testing.T) {
			path := buildISO(t, isoOptions(t))
			b := readFile(t, path)
			c.damage(b)
			require.NoError(t, os.WriteFile(path, b, 0o644))
			info, err := inspect(t, path)
			require.NoError(t, err)
			require.Contains(t, strings.Join(info.Problems, "\n"), c.note)
		})
	}
}
