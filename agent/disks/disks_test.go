package disks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/datadisk"
	"spore/agent/node"
	"spore/agent/paths"
)

func TestTheStatusShowsEachDiskAndTheNumberOfItsOSD(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	require.Empty(t, All(m))
	require.NoError(t, datadisk.Write(m.Root, datadisk.Kafka, []datadisk.Info{{Use: "kafka", Number: 1}}))
	require.NoError(t, datadisk.Write(m.Root, datadisk.OSD, []datadisk.Info{{Use: "osd", Number: 1}, {Use: "osd", Number: 2}, {Use: "osd", Number: 3, Problem: "gone"}}))
	file := m.Root.At(paths.OSDs + "/2/osd.env")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("OSD_ID=7\n"), 0o644))
	disks := All(m)
	require.Len(t, disks, 4)
	require.Nil(t, disks[1].OSD, "it has none yet")
	require.Equal(t, 7, *disks[2].OSD)
	require.Equal(t, []string{"ceph-osd-disk@1.service", "ceph-osd-disk@2.service"}, OSDUnits(disks), "Kafka's disk and the one that is gone have none")
	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o644))
	require.Nil(t, All(m)[2].OSD)
}
