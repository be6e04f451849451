package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/datadisk"
	"spore/agent/linktrap"
	"spore/agent/node"
	"spore/agent/paths"
)

func TestTheInstanceOfTheUnitIsTheNumberOfTheDisk(t *testing.T) {
	infos := []datadisk.Info{{Number: 1, Device: "/dev/vdb1"}, {Number: 2, Problem: "it is not empty"}}
	got, err := diskNumber(infos, "1")
	require.NoError(t, err)
	require.Equal(t, "/dev/vdb1", got.Device)
	_, err = diskNumber(infos, "2")
	require.EqualError(t, err, "it is not empty")
	for _, none := range []string{"3", "0", "01", ""} {
		_, err = diskNumber(infos, none)
		require.ErrorContains(t, err, "there are 2")
	}
}

func TestADeviceThatUdevHasNotGivenToCephYetIsWaitedFor(t *testing.T) {
	device := filepath.Join(t.TempDir(), "vdb1")
	time.AfterFunc(150*time.Millisecond, func() { _ = os.WriteFile(device, nil, 0o600) })
	require.NoError(t, awaitDevice(context.Background(), device, func(string) {}))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, awaitDevice(ctx, device+"x", func(string) {}), "no such file")
}

func TestTheStatusShowsEachDiskAndTheNumberOfItsOSD(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	require.Empty(t, dataDisks(m))
	require.NoError(t, datadisk.Write(m.Root, datadisk.Kafka, []datadisk.Info{{Use: "kafka", Number: 1}}))
	require.NoError(t, datadisk.Write(m.Root, datadisk.OSD, []datadisk.Info{{Use: "osd", Number: 1}, {Use: "osd", Number: 2}, {Use: "osd", Number: 3, Problem: "gone"}}))
	file := m.Root.At(paths.OSDs + "/2/osd.env")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("OSD_ID=7\n"), 0o644))
	disks := dataDisks(m)
	require.Len(t, disks, 4)
	require.Nil(t, disks[1].OSD, "it has none yet")
	require.Equal(t, 7, *disks[2].OSD)
	require.Equal(t, []string{"ceph-osd-disk@1.service", "ceph-osd-disk@2.service"}, osdUnits(disks), "Kafka's disk and the one that is gone have none")
	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o644))
	require.Nil(t, dataDisks(m)[2].OSD)
}

// The runtime directory of an OSD belongs to Ceph's user, and root looks there for its number.
func TestWhatLiesInPlaceOfAnOSDsNumberIsNotWaitedFor(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	file := m.Root.At(filepath.Join(paths.OSDs, "1", osdEnvironment))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	linktrap.Pipe(t, file)
	require.Nil(t, osdOf(m, 1), "a pipe")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink("/dev/zero", file))
	require.Nil(t, osdOf(m, 1), "a device without an end")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte("OSD_ID=7\n"), 0o644))
	require.Equal(t, 7, *osdOf(m, 1))
}
