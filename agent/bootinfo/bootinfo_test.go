package bootinfo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spore", "boot.json")
	want := bootinfo.Info{
		BootDisk: bootinfo.Disk{Path: "/dev/vda", Serial: "S1", DevicePath: "pci0000:00/0000:00:03.0/virtio0/block/vda", Size: 1 << 30},
		RootPart: "/dev/vda2", ESPNode: "edge-01", BuildTime: 1700000000, Stage1Start: 1.25, EFI: true,
	}
	require.NoError(t, bootinfo.Write(path, want))
	got, err := bootinfo.Read(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestBadFilesAreErrors(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{"empty": nil, "text": []byte("hello"), "big": make([]byte, 1<<20)} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, err := bootinfo.Read(path)
		require.ErrorContains(t, err, "reading what stage1 found", name)
	}
	_, err := bootinfo.Read(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
