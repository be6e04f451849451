package main

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/blockdev"
	"spore/agent/dm"
	"spore/storage/gpt"
)

// disc is a file with a GPT in sectors of 512 bytes and one partition.
func disc(t *testing.T, size int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sr0")
	entries := make([]byte, 128*128)
	copy(entries, "type of sixteen.guid of sixteen.")
	le := binary.LittleEndian
	le.PutUint64(entries[32:], 2048)
	le.PutUint64(entries[40:], 4095)
	h := make([]byte, 512)
	copy(h, "EFI PART")
	le.PutUint32(h[12:], 92)
	le.PutUint64(h[24:], 1)
	le.PutUint64(h[32:], uint64(size/512-1))
	le.PutUint64(h[72:], 2)
	le.PutUint32(h[80:], 128)
	le.PutUint32(h[84:], 128)
	le.PutUint32(h[88:], crc32.ChecksumIEEE(entries))
	le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
	data := append(append(make([]byte, 512), h...), entries...)
	require.NoError(t, os.WriteFile(name, data, 0o644))
	require.NoError(t, os.Truncate(name, size))
	return name
}

func TestTheTableOfADiscIsReadInSectorsOf512Bytes(t *testing.T) {
	size, table, err := readDisc(disc(t, 4<<20))
	require.NoError(t, err)
	require.Equal(t, int64(4<<20), size)
	require.Len(t, table.Partitions, 1)
	require.Equal(t, int64(1<<20), table.Partitions[0].Start)
	require.Equal(t, int64(1<<20), table.Partitions[0].Size)
}

func TestADiscWithoutTheImageIsNoReasonToWait(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sr0")
	require.NoError(t, os.WriteFile(name, make([]byte, 1<<20), 0o644))
	_, _, err := readDisc(name)
	require.ErrorIs(t, err, gpt.ErrNone)
	_, _, err = readDisc(name + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAnEmptyDriveIsLookedAtAgain(t *testing.T) {
	b := &boot{}
	require.Equal(t, time.Minute, b.patience(time.Minute))
	b.discPending = true
	require.Equal(t, discPoll, b.patience(time.Minute))
	require.Equal(t, time.Duration(0), b.patience(0))
	b.lookAtDiscs([]blockdev.Disk{{Name: "sr-that-is-not-there"}})
	require.True(t, b.discPending)
	require.Len(t, b.seen, 1)
	require.NotEmpty(t, b.seen[0].Problem)
}

func TestAPartitionOfADiscIsMapped(t *testing.T) {
	got, err := linear("11:0", gpt.Partition{Number: 2, Start: 1 << 20, Size: 3 << 20})
	require.NoError(t, err)
	require.Equal(t, dm.Target{Type: "linear", Sectors: 6144, Params: "11:0 2048"}, got)
	for _, p := range []gpt.Partition{{Start: 512, Size: 1 << 20}, {Start: 1 << 20, Size: 512}} {
		_, err := linear("11:0", p)
		require.ErrorContains(t, err, "whole sectors")
	}
}
