package unit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheNetworkOfPodsIsLaidIn(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	require.ErrorContains(t, layNetwork(from, to), "network of pods: ")
	for _, f := range cniFiles {
		require.NoError(t, os.WriteFile(filepath.Join(from, f.name), []byte(f.name), 0o600))
	}
	require.NoError(t, layNetwork(from, to))
	for _, f := range cniFiles {
		data, err := os.ReadFile(filepath.Join(to, f.name))
		require.NoError(t, err)
		require.Equal(t, f.name, string(data))
		info, err := os.Stat(filepath.Join(to, f.name))
		require.NoError(t, err)
		require.Equal(t, f.mode, info.Mode())
	}
}
