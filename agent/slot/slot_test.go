package slot

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/storage/fat"
	"spore/storage/gpt"
)

func TestAPushedConfigurationIsStartedNextAndWhatRunsStays(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	m.Down = []string{"kafka.service"}
	got, err := newSystem.push(t, m, 7, nil)
	require.NoError(t, err)
	s, e := boots(t, disk, oldSystem, newSystem)
	require.Equal(t, newSystem.hash, s.hash)
	require.Equal(t, got.Entry, e.File())
	require.Regexp(t, `^spore_1000000000001_[0-9a-f]{12}\+3\.efi$`, got.Entry)
	require.Equal(t, oldSystem.uki, entriesOf(t, disk)[oldSystem.entryFile()])
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.Equal(t, Record{
		Serial: 7, Issued: time.Unix(1_800_000_000, 0).UTC(), ClusterHash: newSystem.hash, RootHash: rootHash, Previous: oldSystem.hash, PreviousRoot: rootHash, Entry: e.Stem, State: Staged, BootID: "boot", Down: m.Down,
	}, r)
	require.Equal(t, newSystem.hash, InfoOf(r, rootHash, oldSystem.hash, "boot", false).Staged)
}

// The slots take turns, the newest entry is the one that is started, and there are never more than two.
func TestPushesFollowEachOther(t *testing.T) {
	disk, runs := newDisk(t, oldSystem), oldSystem
	m := machineOf(t, disk, runs)
	for i, text := range []string{"first", "second", "third", "fourth"} {
		next := makeSystem(text, "")
		got, err := next.push(t, m, uint64(i+1), nil)
		require.NoError(t, err)
		s, e := boots(t, disk, runs, next)
		require.Equal(t, next.hash, s.hash)
		require.Len(t, entriesOf(t, disk), 2)

		require.NoError(t, m.Rename(e, e.Good()))
		record := m.Record
		m = machineOf(t, disk, next)
		m.Record, runs = record, next
		r, err := ReadRecord(record)
		require.NoError(t, err)
		require.Equal(t, got.Entry, Entry{Stem: r.Entry, Counted: true, Left: Tries}.File())
		r.State = Kept
		require.NoError(t, r.Write(record))
	}
}

func TestAPushThatReplacesAStagedOne(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	_, err := newSystem.push(t, m, 1, nil)
	require.NoError(t, err)
	other := makeSystem("another one", "")
	_, err = other.push(t, m, 2, nil)
	require.NoError(t, err)
	s, _ := boots(t, disk, oldSystem, newSystem, other)
	require.Equal(t, other.hash, s.hash)
	require.Len(t, entriesOf(t, disk), 2)

	got, err := oldSystem.push(t, m, 3, nil)
	require.NoError(t, err)
	require.True(t, got.Unchanged, "what runs is pushed: what was staged is taken back")
	s, _ = boots(t, disk, oldSystem, other)
	require.Equal(t, oldSystem.hash, s.hash)
	_, err = newSystem.push(t, m, 2, nil)
	require.ErrorContains(t, err, "is older (2) than the last one that this node took (3)")
}

func TestWhatIsTakenAllTheSame(t *testing.T) {
	t.Run("signed by the same with Secure Boot", func(t *testing.T) {
		runs, pushed := makeSystem("a", "the plant"), makeSystem("b", "the plant")
		m := machineOf(t, newDisk(t, runs), runs)
		m.SecureBoot = true
		_, err := pushed.push(t, m, 2, nil)
		require.NoError(t, err)
	})
	t.Run("with the same key for PCR 11", func(t *testing.T) {
		runs, pushed := makeSystem("a", "pcr key"), makeSystem("b", "pcr key")
		_, err := pushed.push(t, machineOf(t, newDisk(t, runs), runs), 2, nil)
		require.NoError(t, err)
	})
	t.Run("twice", func(t *testing.T) {
		disk := newDisk(t, oldSystem)
		m := machineOf(t, disk, oldSystem)
		for range 2 {
			_, err := newSystem.push(t, m, 2, nil)
			require.NoError(t, err)
		}
		require.Len(t, entriesOf(t, disk), 2)
	})
}

func writeRecord(m *Machine, r Record) {
	if err := r.Write(m.Record); err != nil {
		panic(err)
	}
}

func editESP(t *testing.T, d *medium) *fat.Editor {
	t.Helper()
	e, err := fat.Edit(window{d, espAt, espSize, false}, espSize)
	require.NoError(t, err)
	return e
}

// rename gives the entry that runs another counter.
func rename(t *testing.T, d *medium, to Entry) {
	t.Helper()
	to.Stem = strings.TrimSuffix(oldSystem.entryFile(), ".efi")
	require.NoError(t, editESP(t, d).Rename(Dir, oldSystem.entryFile(), to.File()))
}

// retype makes a partition one that is none of ours.
func retype(t *testing.T, d *medium, number int) {
	t.Helper()
	table, err := gpt.Read(window{d, 0, diskSize, false}, diskSize, 512)
	require.NoError(t, err)
	for i := range table.Partitions {
		if table.Partitions[i].Number == number {
			table.Partitions[i].Type = gpt.GUID{7}
		}
	}
	e, err := table.Encode(diskSize, 512)
	require.NoError(t, err)
	d.put(e.Primary, 512)
	d.put(e.Backup, e.BackupAt)
}

func ptr[T any](v T) *T { return &v }
