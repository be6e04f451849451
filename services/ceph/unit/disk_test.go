package unit

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/datadisk"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/test/linktrap"
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

// The runtime directory of an OSD belongs to Ceph's user, and root looks there for its number.
func TestWhatLiesInPlaceOfAnOSDsNumberIsNotWaitedFor(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	file := m.Root.At(filepath.Join(paths.OSDs, "1", environment))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	linktrap.Pipe(t, file)
	require.Nil(t, OSD(m, 1), "a pipe")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink("/dev/zero", file))
	require.Nil(t, OSD(m, 1), "a device without an end")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte("OSD_ID=7\n"), 0o644))
	require.Equal(t, 7, *OSD(m, 1))
}
