package gpt_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/gpt"
)

// someTable has a partition at either end of what can be used of a disk of diskSize bytes.
func someTable(sectorSize int) gpt.Table {
	reserved := gpt.Reserved(sectorSize)
	return gpt.Table{
		Disk: gpt.MustParseGUID("01234567-89ab-4cde-8f01-23456789abcd"),
		Partitions: []gpt.Partition{
			{Number: 1, Type: gpt.ESP, GUID: gpt.MustParseGUID(espGUID), Start: reserved, Size: 1 << 20, Name: "esp"},
			{Number: 8, Type: gpt.MustParseGUID(rootType), GUID: gpt.MustParseGUID(rootGUID), Start: diskSize - reserved + int64(sectorSize) - 1<<20, Size: 1 << 20,
				Name: strings.Repeat("ü", 36), Attributes: 1 << 60},
		},
	}
}

// disk is what a table makes of an empty disk.
func encode(t *testing.T, table gpt.Table, sectorSize int) []byte {
	t.Helper()
	e, err := table.Encode(diskSize, sectorSize)
	require.NoError(t, err)
	data := make([]byte, diskSize)
	copy(data, e.MBR)
	copy(data[sectorSize:], e.Primary)
	copy(data[e.BackupAt:], e.Backup)
	require.EqualValues(t, diskSize, e.BackupAt+int64(len(e.Backup)))
	return data
}

func TestWhatIsEncodedIsRead(t *testing.T) {
	for _, sectorSize := range []int{512, 4096} {
		data := encode(t, someTable(sectorSize), sectorSize)
		want := someTable(sectorSize)
		want.Alternate = diskSize - int64(sectorSize)
		got, err := gpt.Read(bytes.NewReader(data), diskSize, sectorSize)
		require.NoError(t, err)
		require.Equal(t, want, got)

		clear(data[sectorSize:][:sectorSize])
		got, err = gpt.Read(bytes.NewReader(data), diskSize, sectorSize)
		require.NoError(t, err)
		want.Backup, want.Alternate = true, int64(sectorSize)
		require.Equal(t, want, got, "the backup says the same")
	}
}

func TestSgdiskFindsNoFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(path, encode(t, someTable(512), 512), 0o600))
	out, err := exec.Command("sgdisk", "-v", "-p", "-i8", path).CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", out)
	require.Contains(t, string(out), "No problems found")
	require.Contains(t, string(out), strings.ToUpper(rootGUID))
	require.NotContains(t, string(out), "Warning")
}

func TestTablesThatCannotBeAreNotEncoded(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*gpt.Table)
		want   string
	}{
		"two partitions in one place":     {func(t *gpt.Table) { t.Partitions[1].Start = t.Partitions[0].Start }, "overlap"},
		"two partitions of one number":    {func(t *gpt.Table) { t.Partitions[1].Number = 1 }, "each once"},
		"two partitions of one GUID":      {func(t *gpt.Table) { t.Partitions[1].GUID = t.Partitions[0].GUID }, "two partitions have the GUID"},
		"a partition over the table":      {func(t *gpt.Table) { t.Partitions[0].Start = 512 }, "outside"},
		"a partition over the backup":     {func(t *gpt.Table) { t.Partitions[1].Size += 512 }, "outside"},
		"half a sector":                   {func(t *gpt.Table) { t.Partitions[0].Size -= 100 }, "not whole sectors"},
		"a partition without a type":      {func(t *gpt.Table) { t.Partitions[0].Type = gpt.GUID{} }, "no type"},
		"a label that is too long":        {func(t *gpt.Table) { t.Partitions[0].Name = strings.Repeat("x", 37) }, "longer than 36"},
		"a number that the table has not": {func(t *gpt.Table) { t.Partitions[0].Number = 129 }, "from 1 to 128"},
	} {
		t.Run(name, func(t *testing.T) {
			table := someTable(512)
			tc.change(&table)
			_, err := table.Encode(diskSize, 512)
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := gpt.Table{}.Encode(diskSize, 1024)
	require.ErrorContains(t, err, "only 512 and 4096")
	_, err = gpt.Table{}.Encode(4096, 512)
	require.ErrorContains(t, err, "too small")
}
