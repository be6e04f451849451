package main

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/storage/gpt"
	"spore/wire/update"
)

func TestTheTableOfUpdatesSaysWhichGoalsAreMissed(t *testing.T) {
	list := []Update{
		{Image: "edge", What: "nothing", Whole: 100 << 20},
		{Image: "edge", What: "a small package", Sent: 3 << 20, Indexes: 64 << 10, Packed: 2 << 20, Debs: 3 << 20, Whole: 100 << 20, Limit: small(2 << 20)},
		{Image: "edge", What: "the kernel", Sent: 30 << 20, Packed: 20 << 20, Whole: 100 << 20, Limit: kernel(20 << 20)},
	}
	got := updateTable(list)
	require.Contains(t, got, "| edge | nothing | 0 | 0 | 0 | – | – | – | ≤ 0 | yes | 102400 | 0.0 % |\n")
	require.Contains(t, got, "| edge | a small package | 3072 | 64 | 0 | 2048 | 3072 | 1.50 | ≤ 3482 | yes | 102400 | 3.0 % |\n")
	require.Contains(t, got, "| edge | the kernel | 30720 | 0 | 0 | 20480 | 0 | 1.50 | ≤ 24576 | **no** | 102400 | 30.0 % |\n")
}

func TestTheTableOfNodesSaysWhichGoalsAreMissed(t *testing.T) {
	u := Update{Image: "edge", What: "the kernel", Packed: 1, Root: 80 << 20, Messages: 3, Hash: *seconds2(1, 1), Node: *seconds2(1.5, 3)}
	require.Contains(t, nodeTable([]Update{u}), "| edge | the kernel | 80 | 3 | 1.50 | 1.00 | 1.50 | yes | 64 | yes |\n")
	u.Node.CPU, u.Node.Memory = 3*time.Second, 65<<20
	require.Contains(t, nodeTable([]Update{u}), "| 3.00 | **no** | 65 | **no** |\n")
	require.NotContains(t, nodeTable([]Update{{What: "nothing"}}), "nothing", "a node that runs it does nothing")
}

func TestTheNotesOfUpdatesNameEachChangeOnce(t *testing.T) {
	list := []Update{{What: "nothing"}, {Changed: []string{"~ package openssl 1 -> 2", "~ package b 1 -> 2"}}, {Changed: []string{"~ package b 1 -> 2"}}}
	require.Equal(t, "What changed:\n\n```\n~ package b 1 -> 2\n~ package openssl 1 -> 2\n```\n", updateNotes(list))
	p := &page{updates: list}
	require.Contains(t, p.text("pictures"), "\n## Updates\n\n| image |")
	require.NotContains(t, (&page{}).text("pictures"), "## Updates")
}

func TestObjectsAreCountedWithoutTheirLengths(t *testing.T) {
	require.Zero(t, objectBytes(nil))
	require.EqualValues(t, 303, objectBytes(update.AppendObject(update.AppendObject(nil, make([]byte, 300)), make([]byte, 3))))
}

func TestAnImageBecomesADiskWithTwoSystems(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	const size = 64 * mib
	kind := gpt.MustParseGUID("4f68bce3-e8cd-4db1-96e7-fbcaf984b709")
	e, err := gpt.Table{Disk: gpt.GUID{1}, Partitions: []gpt.Partition{
		{Number: 1, Type: gpt.ESP, GUID: gpt.GUID{2}, Start: mib, Size: 8 * mib, Name: "esp"},
		{Number: 2, Type: kind, GUID: gpt.GUID{3}, Start: 9 * mib, Size: 5*mib + 4096, Name: "root-a"},
		{Number: 3, Type: kind, GUID: gpt.GUID{4}, Start: 16 * mib, Size: mib, Name: "verity-a"},
		{Number: 4, Type: kind, GUID: gpt.GUID{5}, Start: 20 * mib, Size: mib, Name: "cluster-a"},
	}}.Encode(size, sectorSize)
	require.NoError(t, err)
	data := make([]byte, size)
	copy(data[sectorSize:], e.Primary)
	copy(data[e.BackupAt:], e.Backup)
	require.NoError(t, os.WriteFile(path, data, 0o600))

	require.NoError(t, addSecondSlots(path))
	table, err := readTable(path)
	require.NoError(t, err)
	require.False(t, table.Backup)
	require.Len(t, table.Partitions, 7)
	root := table.Partitions[4]
	sum := sha256.Sum256([]byte("root-b"))
	require.Equal(t, gpt.Partition{Number: 5, Type: kind, GUID: gpt.GUID(sum[:16]), Start: 21 * mib, Size: 5*mib + 4096, Name: "root-b"}, root)
	require.Equal(t, "verity-b", table.Partitions[5].Name)

	m, err := StageWork{Disk: path}.machine()
	require.NoError(t, err)
	d, err := m.Open(m.Partition(5), false)
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, root.Size, d.Size())
	_, err = d.WriteAt([]byte("here"), 4096)
	require.NoError(t, err)
	_, err = d.WriteAt([]byte("behind"), d.Size()-2)
	require.Error(t, err, "another partition is not written to")
	fresh, _ := d.Fresh()
	got := make([]byte, 4)
	_, err = fresh.ReadAt(got, 4096)
	require.NoError(t, err)
	require.Equal(t, "here", string(got))
	_, err = m.Open("9", false)
	require.ErrorContains(t, err, "no partition 9")
}

func TestTheMeasureOfANodeReadsWhatItIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 8192), 0o600))
	require.NoError(t, runHash([]string{path, "4096", "4096"}))
	require.Error(t, runHash([]string{path, "4096", "many"}))
	require.ErrorContains(t, runHash([]string{path}), "usage")
	require.ErrorContains(t, runStage(nil), "usage")
}
