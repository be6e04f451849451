package filesystem

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsMountedAtAPath(t *testing.T) {
	m, err := At("/proc")
	require.NoError(t, err)
	require.NotNil(t, m)
	dir := t.TempDir()
	m, err = At(dir)
	require.NoError(t, err)
	require.Nil(t, m)
	m, err = At(filepath.Join(dir, "none"))
	require.NoError(t, err)
	require.Nil(t, m)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("/proc", link))
	m, err = At(link)
	require.NoError(t, err)
	require.Nil(t, m, "a link to a mount is none")
}

func TestNothingIsUnmountedWhereNothingIsMounted(t *testing.T) {
	require.NoError(t, Unmount(t.Context(), t.TempDir()))
	require.NoError(t, Unmount(t.Context(), filepath.Join(t.TempDir(), "none")))
}

func TestOnlyBlockDevicesHaveANumber(t *testing.T) {
	_, err := DeviceNumber("/dev/null")
	require.ErrorContains(t, err, "no block device")
	_, err = DeviceNumber(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestUsage(t *testing.T) {
	u, err := UsageOf(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, u.Bytes)
	require.LessOrEqual(t, u.AvailableBytes, u.FreeBytes)
	require.LessOrEqual(t, u.FreeBytes, u.Bytes)
	_, err = UsageOf("/nonexistent")
	require.Error(t, err)
}

// Files are what blkid and e2fsprogs take for devices.
func TestFileSystemsInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 32<<20))
	found, err := Probe(t.Context(), file)
	require.NoError(t, err)
	require.Empty(t, found)
	require.Error(t, Check(t.Context(), file), "there is nothing to check")

	require.NoError(t, Make(t.Context(), file))
	found, err = Probe(t.Context(), file)
	require.NoError(t, err)
	require.Equal(t, Type, found)
	require.NoError(t, Check(t.Context(), file))
	require.NoError(t, Make(t.Context(), file), "an unfinished one is made anew without a question")

	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt(make([]byte, 8<<10), 0)
	require.NoError(t, err)
	found, err = Probe(t.Context(), file)
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = f.WriteAt([]byte("XFSB"), 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0x55, 0xaa}, 510)
	require.NoError(t, err)
	found, err = Probe(t.Context(), file)
	require.NoError(t, err)
	require.NotEmpty(t, found, "what exactly it is taken for is blkid's")
	_, err = Probe(t.Context(), filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}
