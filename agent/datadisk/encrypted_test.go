//go:build disks

package datadisk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/repart"
	"spore/storage/blank"
	"spore/storage/disk"
)

// This needs a kernel with dm-crypt and an empty disk of at least 2 GiB that it may use up, SPORE_TEST_DISK, such as vdb: those
// of a virtual machine.
func TestAnEncryptedOSD(t *testing.T) {
	name := os.Getenv("SPORE_TEST_DISK")
	f, err := os.Open("/dev/" + name)
	require.NoError(t, err)
	bytes, err := f.Seek(0, 2)
	require.NoError(t, err)
	f.Close()
	d := disk.Disk{Name: name, Size: bytes, SectorSize: 512, Serials: []string{"A"}}
	want := PartUUID(clusterID, OSD, "A")
	o := options(t, OSD, disksOf(OSD, "A"), d)
	o.Disks[0].Encrypt = true
	o.KeyFile = filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(o.KeyFile, []byte("0123456789abcdef0123456789abcdef"), 0o600))

	infos := run(t, o)
	require.NoError(t, Problems(infos))
	require.Equal(t, mapped(want), infos[0].Device)
	what, err := signature(infos[0].Device)
	require.NoError(t, err)
	require.Equal(t, "it is empty", what, "behind the cipher")
	what, err = signature(d.Partition(1))
	require.NoError(t, err)
	require.Equal(t, encrypted, what)
	require.Equal(t, "4242", strings.TrimSpace(tool(t, "", "stat", "-L", "-c", "%u", infos[0].Device)))

	writeAt(t, infos[0].Device, "bluestore block device\n", 0)
	tool(t, "", "cryptsetup", "close", filepath.Base(mapped(want)))
	for range 2 {
		infos = run(t, o)
		require.NoError(t, Problems(infos))
		what, err = signature(infos[0].Device)
		require.NoError(t, err)
		require.Equal(t, "it is a Ceph OSD", what, "what was made stays")
	}

	tool(t, "", "cryptsetup", "close", filepath.Base(mapped(want)))
	right := o.KeyFile
	o.KeyFile = filepath.Join(t.TempDir(), "wrong")
	require.NoError(t, os.WriteFile(o.KeyFile, []byte("another key"), 0o600))
	require.ErrorContains(t, Problems(run(t, o)), "the key of the bundle does not open it")
	o.KeyFile = right
	require.NoError(t, Problems(run(t, o)))

	// Cut off while it was made, with the mapping of that attempt still there.
	require.NoError(t, repart.OnDisk(d, func(w blank.Writer) error { return blank.Mark(w, uses[OSD].made(want)) }))
	infos = run(t, o)
	require.NoError(t, Problems(infos))
	what, err = signature(infos[0].Device)
	require.NoError(t, err)
	require.Equal(t, "it is empty", what)
}
