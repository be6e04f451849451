package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/ext4"
)

func TestKeepMountedAddsOneLineForEachMount(t *testing.T) {
	utab := filepath.Join(t.TempDir(), "mount", "utab")
	for range 2 {
		require.NoError(t, KeepMounted(utab, "/dev/vda8", "/var"))
	}
	require.NoError(t, KeepMounted(utab, "/dev/vda80", "/var"))
	data, err := os.ReadFile(utab)
	require.NoError(t, err)
	require.Equal(t, "SRC=/dev/vda8 TARGET=/var ROOT=/ OPTS=x-systemd.device-bound=no\nSRC=/dev/vda80 TARGET=/var ROOT=/ OPTS=x-systemd.device-bound=no\n", string(data))
}

// While udev has the kernel read the table again, the partition is away for a moment.
func TestWhetherAPartitionCountsIsKnownWhenItIsBack(t *testing.T) {
	device := filepath.Join(t.TempDir(), "vda8")
	require.NoError(t, os.WriteFile(device+"-away", make([]byte, 1<<16), 0o600))
	tries := 0
	err := whenThere(device, func() error {
		if tries++; tries == 3 {
			require.NoError(t, os.Rename(device+"-away", device))
		}
		_, err := ext4.CountsProjects(device)
		return err
	})
	require.Equal(t, 3, tries)
	require.ErrorContains(t, err, "it holds no ext4 file system", "and was read")
}
