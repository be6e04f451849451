//go:build e2e

package nspawn

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestACutLosesWhatWasNotSynced holds what every loss of power in these tests stands on: it takes what a kill leaves.
func TestACutLosesWhatWasNotSynced(t *testing.T) {
	if os.Getenv(stageVariable) != stageTests {
		t.Skip("only root may mount a disk")
	}
	dir := t.TempDir()
	d, err := newDisk(filepath.Join(dir, "disk"), filepath.Join(dir, "at"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.unmount()) })
	long := strings.Repeat("0123456789abcdef", 64<<10)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long"), []byte(long), 0o600))

	writer := exec.Command("sh", "-ec", `
		cp "$1" synced; sync synced
		cp "$1" other; sync other; printf CHANGED | dd of=other conv=notrunc status=none
		mkdir folder; cp "$1" folder/unsynced
		kill -KILL $$`, "sh", filepath.Join(dir, "long"))
	writer.Dir = d.at
	require.Error(t, writer.Run())
	require.Equal(t, syscall.SIGKILL, writer.ProcessState.Sys().(syscall.WaitStatus).Signal())
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(d.at, name))
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		return string(data)
	}
	changed := "CHANGED" + long[len("CHANGED"):]
	for name, want := range map[string]string{"synced": long, "other": changed, "folder/unsynced": long} {
		require.True(t, read(name) == want, "a kill keeps %s", name)
	}

	require.NoError(t, d.cut())
	_, err = os.Create(filepath.Join(d.at, "later"))
	require.ErrorIs(t, err, syscall.EIO, "nothing is written after the cut")
	require.NoError(t, d.renew(d.mount))
	require.True(t, read("synced") == long, "what was synced is whole")
	require.True(t, read("other") == long, "a change that was not synced is lost")
	require.Empty(t, read("folder/unsynced"), "what was not synced is lost")

	require.NoError(t, os.WriteFile(filepath.Join(d.at, "after"), nil, 0o600), "it is written to again")
	require.NoError(t, d.renew(d.format))
	left, err := os.ReadDir(d.at)
	require.NoError(t, err)
	require.Len(t, left, 1, "a new disk has lost+found alone")
}
