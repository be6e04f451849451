package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
