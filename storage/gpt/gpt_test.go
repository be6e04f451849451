package gpt_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	diskfsgpt "github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/stretchr/testify/require"

	"spore/storage/gpt"
)

const (
	diskSize = 8 << 20
	rootGUID = "8074c5d3-ae82-51d0-054e-dc1eb682d10e"
	espGUID  = "deadbeef-1111-4222-8333-444455556666"
	rootType = "4f68bce3-e8cd-4db1-96e7-fbcaf984b709"
)

// sgdiskOnce keeps the image: sgdisk waits for all file systems of the machine to sync.
var sgdiskOnce struct {
	sync.Once
	data []byte
}

// sgdiskImage is a disk of 512-byte sectors with an ESP and, as partition 3, a root.
func sgdiskImage(t testing.TB) []byte {
	t.Helper()
	sgdiskOnce.Do(func() { sgdiskOnce.data = runSgdisk(t) })
	require.NotEmpty(t, sgdiskOnce.data)
	return bytes.Clone(sgdiskOnce.data)
}

func runSgdisk(t testing.TB) []byte {
	t.Helper()
	if _, err := exec.LookPath("sgdisk"); err != nil {
		t.Fatal("sgdisk is missing: run make deps")
	}
	path := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(path, make([]byte, diskSize), 0o600))
	out, err := exec.Command("sgdisk", "-o", "-n1:2048:+1M", "-t1:ef00", "-u1:"+espGUID, "-c1:esp", "-n3:0:+2M", "-t3:"+rootType, "-u3:"+rootGUID, "-c3:root-a", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// image4K is the same with 4096-byte sectors, by another writer.
func image4K(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(diskSize))
	table := &diskfsgpt.Table{
		LogicalSectorSize: 4096, PhysicalSectorSize: 4096, ProtectiveMBR: true,
		Partitions: []*diskfsgpt.Partition{
			{Index: 1, Start: 256, End: 511, Type: diskfsgpt.EFISystemPartition, GUID: espGUID, Name: "esp"},
			{Index: 3, Start: 512, End: 1023, Type: rootType, GUID: rootGUID, Name: "root-a"},
		},
	}
	storage := file.New(f, false)
	w, err := storage.Writable()
	require.NoError(t, err)
	require.NoError(t, table.Write(w, diskSize))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func requireBoth(t *testing.T, table gpt.Table) {
	t.Helper()
	require.Len(t, table.Partitions, 2)
	esp, ok := table.ByGUID(gpt.MustParseGUID(espGUID))
	require.True(t, ok)
	require.Equal(t, gpt.ESP, esp.Type)
	require.Equal(t, gpt.Partition{Number: 1, Type: gpt.ESP, GUID: esp.GUID, Start: 1 << 20, Size: 1 << 20, Name: "esp"}, esp)
	root, ok := table.ByGUID(gpt.MustParseGUID(rootGUID))
	require.True(t, ok)
	require.Equal(t, gpt.Partition{Number: 3, Type: gpt.MustParseGUID(rootType), GUID: root.GUID, Start: 2 << 20, Size: 2 << 20, Name: "root-a"}, root)
	_, ok = table.ByGUID(gpt.GUID{})
	require.False(t, ok)
}

func TestTablesOfOtherWritersAreRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		disk   []byte
		sector int
	}{{"sgdisk, 512", sgdiskImage(t), 512}, {"go-diskfs, 4096", image4K(t), 4096}} {
		t.Run(c.name, func(t *testing.T) {
			table, err := gpt.Read(bytes.NewReader(c.disk), diskSize, c.sector)
			require.NoError(t, err)
			require.False(t, table.Backup)
			requireBoth(t, table)

			clear(c.disk[c.sector : 2*c.sector])
			table, err = gpt.Read(bytes.NewReader(c.disk), diskSize, c.sector)
			require.NoError(t, err)
			require.True(t, table.Backup, "the backup is used when the primary is gone")
			requireBoth(t, table)
		})
	}
}

func TestATableAtTheStartOfALargerDiskIsRead(t *testing.T) {
	disk := append(sgdiskImage(t), make([]byte, diskSize)...)
	table, err := gpt.Read(bytes.NewReader(disk), int64(len(disk)), 512)
	require.NoError(t, err)
	requireBoth(t, table)
}

// As when the power goes while the table is moved to the end of a larger disk: new entries are half written, the header and
// the old backup are still there.
func TestTheOldBackupInTheMiddleOfALargerDiskIsFound(t *testing.T) {
	disk := append(sgdiskImage(t), make([]byte, diskSize)...)
	clear(disk[1024+128 : 1024+512])
	table, err := gpt.Read(bytes.NewReader(disk), int64(len(disk)), 512)
	require.NoError(t, err)
	require.True(t, table.Backup)
	requireBoth(t, table)
}

// patch changes bytes of a header and makes its checksum right again.
func patch(disk []byte, at int, value any) []byte {
	disk = bytes.Clone(disk)
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, value)
	for _, sector := range []int{1, len(disk)/512 - 1} {
		h := disk[sector*512 : sector*512+512]
		copy(h[at:], b.Bytes())
		size := min(binary.LittleEndian.Uint32(h[12:]), 512)
		clear(h[16:20])
		binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:size]))
	}
	return disk
}

func TestBadTablesAreRefused(t *testing.T) {
	good := sgdiskImage(t)
	flip := func(at ...int) []byte {
		d := bytes.Clone(good)
		for _, a := range at {
			d[a] ^= 1
		}
		return d
	}
	backup := diskSize - 512
	for _, c := range []struct {
		name, message string
		disk          []byte
	}{
		{"nothing", "no GUID partition table", make([]byte, diskSize)},
		{"three sectors", "no GUID partition table", make([]byte, 3*512)},
		{"a flipped bit in both headers", "wrong checksum of the header", flip(512+60, backup+60)},
		{"a flipped bit in both arrays", "wrong checksum of the entries", flip(1024+20, backup-32*512+20)},
		{"too many entries", "4294967295 entries", patch(good, 80, uint32(0xffffffff))},
		{"entries too small", "entries of 64 bytes", patch(good, 84, uint32(64))},
		{"entries too large", "entries of 8192 bytes", patch(good, 84, uint32(8192))},
		{"array over one MiB", "1024 entries of 4096 bytes", patch(patch(good, 80, uint32(1024)), 84, uint32(4096))},
		{"header too small", "header of 16 bytes", patch(good, 12, uint32(16))},
		{"header too large", "header of 513 bytes", patch(good, 12, uint32(513))},
		{"header elsewhere", "claims to be in sector 7", patch(good, 24, uint64(7))},
		{"array in the first sector", "entries in sector 0", patch(good, 72, uint64(0))},
		{"array behind the end", "entries in sector 18446744073709551615", patch(good, 72, ^uint64(0))},
		{"array over the end", "entries in sector 16380", patch(good, 72, uint64(diskSize/512-4))},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := gpt.Read(bytes.NewReader(c.disk), int64(len(c.disk)), 512)
			require.ErrorContains(t, err, c.message)
		})
	}
	_, err := gpt.Read(bytes.NewReader(good), diskSize, 2048)
	require.ErrorContains(t, err, "sectors of 2048 bytes")
	_, err = gpt.Read(bytes.NewReader(good[:600]), diskSize, 512)
	require.ErrorContains(t, err, "reading")
}

func TestAPartitionOutsideTheDiskIsRefused(t *testing.T) {
	disk := sgdiskImage(t)
	disk = disk[:5<<20]
	disk = append(disk, make([]byte, 512)...)
	for i, last := range []uint64{1, 1 << 62, diskSize} {
		d := bytes.Clone(disk)
		binary.LittleEndian.PutUint64(d[1024+40:], last)
		d = patch(d, 88, crc32.ChecksumIEEE(d[1024:1024+128*128]))
		_, err := gpt.Read(bytes.NewReader(d), int64(len(d)), 512)
		require.ErrorContains(t, err, "partition 1: sectors", "case %d", i)
	}
}

func TestGUIDTextIsChecked(t *testing.T) {
	for _, s := range []string{"", "deadbeef", espGUID + "0", "deadbeef-1111-4222-8333-44445555666g", "deadbeef11111-4222-8333-44445555666"} {
		_, err := gpt.ParseGUID(s)
		require.ErrorContains(t, err, "is not a GUID", s)
	}
	g, err := gpt.ParseGUID("DEADBEEF-1111-4222-8333-444455556666")
	require.NoError(t, err)
	require.Equal(t, espGUID, g.String())
}

// FuzzRead hands in what matters of a disk: its first 34 sectors and its last 33.
func FuzzRead(f *testing.F) {
	disk := sgdiskImage(f)
	f.Add(disk[:34*512], disk[len(disk)-33*512:], false)
	f.Add(make([]byte, 34*512), disk[len(disk)-33*512:], false)
	f.Add(disk[:512+92], []byte{}, false)
	big := image4K(f)
	f.Add(big[:6*4096], big[len(big)-5*4096:], true)
	f.Fuzz(func(t *testing.T, head, tail []byte, large bool) {
		d := make([]byte, 1<<20)
		copy(d, head)
		copy(d[max(len(d)-len(tail), 0):], tail)
		sector := 512
		if large {
			sector = 4096
		}
		table, err := gpt.Read(bytes.NewReader(d), int64(len(d)), sector)
		if err != nil {
			return
		}
		for _, p := range table.Partitions {
			require.Positive(t, p.Start)
			require.Positive(t, p.Size)
			require.LessOrEqual(t, p.Start+p.Size, int64(len(d)))
		}
	})
}

func TestADamagedTableIsNotTakenForNone(t *testing.T) {
	for name, damage := range map[string]func([]byte){
		"a damaged primary without a backup": func(d []byte) { d[512+60] ^= 1; clear(d[len(d)-512:]) },
		"a damaged backup without a primary": func(d []byte) { clear(d[512:1024]); d[len(d)-512+60] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			disk := sgdiskImage(t)
			damage(disk)
			_, err := gpt.Read(bytes.NewReader(disk), diskSize, 512)
			require.Error(t, err)
			require.NotErrorIs(t, err, gpt.ErrNone)
		})
	}
}
