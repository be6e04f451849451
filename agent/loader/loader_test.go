package loader

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootloader"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/storage/disk"
	"spore/storage/gpt"
)

func TestAMachineWithoutANewLoaderDoesNothing(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	require.NoError(t, Step(t.Context(), m))
	require.NoError(t, Run(t.Context(), m))
	nodetest.Put(t, m, filepath.Join(paths.Loader, "loader.json"), "{")
	require.ErrorContains(t, Step(t.Context(), m), "read what is known of a new boot loader")
}

func TestOnlyANodeWithStateOnADiskThatCanBeWrittenIsKeptInOrder(t *testing.T) {
	boot := disk.Disk{Name: "sda"}
	for name, tt := range map[string]struct {
		info    state.Info
		disks   []disk.Disk
		counted bool
		want    bool
	}{
		"a node":                       {state.Info{Kind: state.Partition}, []disk.Disk{{Name: "sdb"}, boot}, false, true},
		"a node whose state is lost":   {state.Info{Kind: state.Tmpfs}, []disk.Disk{boot}, false, false},
		"a system on trial":            {state.Info{Kind: state.Partition}, []disk.Disk{boot}, true, false},
		"a disc":                       {state.Info{Kind: state.Partition}, []disk.Disk{{Name: "sda", Optical: true}}, false, false},
		"a medium that is not written": {state.Info{Kind: state.Partition}, []disk.Disk{{Name: "sda", ReadOnly: true}}, false, false},
		"a disk that is gone":          {state.Info{Kind: state.Partition}, []disk.Disk{{Name: "sdb"}}, false, false},
	} {
		m, _ := nodetest.New(t, 1)
		m.Boot.BootDisk.Path = "/dev/sda"
		if tt.counted {
			nodetest.Put(t, m, filepath.Join(paths.EFIVars, "LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"), "x")
		}
		require.Equal(t, tt.want, upkeep(m, tt.info, tt.disks), name)
	}
}

func TestTheTablesOfAllDisksAreKnownOrNone(t *testing.T) {
	const size = 4 << 20
	m, _ := nodetest.New(t, 1)
	one := gpt.Partition{Number: 1, Type: gpt.ESP, GUID: gpt.GUID{7}, Start: 1 << 20, Size: 1 << 20, Name: "esp"}
	e, err := gpt.Table{Disk: gpt.GUID{1}, Partitions: []gpt.Partition{one}}.Encode(size, 512)
	require.NoError(t, err)
	data := make([]byte, size)
	copy(data[512:], e.Primary)
	copy(data[e.BackupAt:], e.Backup)
	nodetest.Put(t, m, "/dev/sda", string(data))
	nodetest.Put(t, m, "/dev/sdb", string(make([]byte, size)))
	a, blank := disk.Disk{Name: "sda", Size: size, SectorSize: 512}, disk.Disk{Name: "sdb", Size: size, SectorSize: 512}
	list, err := tables(m.Root, []disk.Disk{a, blank, {Name: "sr0", Optical: true}, {Name: "sdd"}})
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, ok := list[0].ByGUID(one.GUID)
	require.True(t, ok)
	_, err = tables(m.Root, []disk.Disk{a, {Name: "sdc", Size: size, SectorSize: 512}})
	require.ErrorContains(t, err, "read the partition table of /dev/sdc")
	short := blank
	short.Size = 2 * size
	_, err = tables(m.Root, []disk.Disk{short})
	require.Error(t, err, "a disk that cannot be read to its end")
}

func TestAMachineOutsideTheClusterKeepsItsBootOptions(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	m.Boot.ESP, m.Boot.BootDisk.Path = "/dev/sda1", "/dev/sda"
	require.NoError(t, Step(t.Context(), m))
	require.NoDirExists(t, m.Root.At(paths.EFIVars))
}

func TestALoaderNeedsToKnowItsESP(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	require.NoError(t, bootloader.Keep(m.Root.At(paths.Loader), []byte("x"), "aa", "01", false))
	m.Boot.ESP = ""
	require.ErrorContains(t, Step(t.Context(), m), "it is not known which ESP")
}

func TestALoaderIsTriedWhenTheSystemThatBroughtItStays(t *testing.T) {
	of := bootloader.Record{SHA256: "x", RootHash: "aa", ClusterHash: "01"}
	for name, tt := range map[string]struct {
		record  slot.Record
		counted bool
		other   bool
		want    bool
	}{
		"nothing was pushed":               {slot.Record{}, false, false, true},
		"another system runs":              {slot.Record{}, false, true, false},
		"it is on trial, the first status": {slot.Record{}, true, false, false},
		"it is on trial":                   {slot.Record{ClusterHash: "01", RootHash: "aa", State: slot.OnTrial}, true, false, false},
		"it was kept in this boot":         {slot.Record{ClusterHash: "01", RootHash: "aa", State: slot.Kept}, true, false, true},
		"it was kept before":               {slot.Record{ClusterHash: "01", RootHash: "aa", State: slot.Kept}, false, false, true},
		"another is staged":                {slot.Record{ClusterHash: "02", RootHash: "aa", State: slot.Staged, BootID: "now"}, false, false, false},
		"another is being staged":          {slot.Record{ClusterHash: "02", RootHash: "aa", State: slot.Staging, BootID: "now"}, false, false, false},
		"another was not started":          {slot.Record{ClusterHash: "02", RootHash: "aa", State: slot.Staged, BootID: "before"}, false, false, true},
		"another failed":                   {slot.Record{ClusterHash: "02", RootHash: "aa", State: slot.Failed, BootID: "before"}, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := nodetest.New(t, 1)
			m.Boot.RootHash, m.Boot.ClusterHash = "aa", "01"
			if tt.other {
				m.Boot.RootHash = "bb"
			}
			nodetest.Put(t, m, paths.BootID, "now\n")
			require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(paths.Update)), 0o755))
			require.NoError(t, tt.record.Write(m.Root.At(paths.Update)))
			if tt.counted {
				nodetest.Put(t, m, filepath.Join(paths.EFIVars, "LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"), "x")
			}
			got, err := settled(m, of)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	m, _ := nodetest.New(t, 1)
	m.Boot.RootHash, m.Boot.ClusterHash = "aa", "01"
	nodetest.Put(t, m, paths.Update, "{")
	_, err := settled(m, of)
	require.ErrorContains(t, err, "record of what was pushed to it last is damaged")
}
