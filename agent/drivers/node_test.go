package drivers_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/datadisk"
	"spore/agent/drivers"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/storage/atomicfile"
)

// layOut writes a tree of files and links into a directory.
func layOut(t *testing.T, dir string, tree map[string]*fstest.MapFile) {
	t.Helper()
	for name, f := range tree {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		if f.Mode&fs.ModeSymlink != 0 {
			require.NoError(t, os.Symlink(string(f.Data), p))
		} else {
			require.NoError(t, os.WriteFile(p, f.Data, 0o644))
		}
	}
}

// virtual is the machine of virtio.sys that runs a node with its state on the boot disk, and an OSD.
func virtual(t *testing.T) *node.Machine {
	t.Helper()
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	m.Boot = bootinfo.Info{BootDisk: bootinfo.Disk{Path: "/dev/vda"}}
	layOut(t, m.Root.At("/sys"), sysfs(t, "virtio"))
	layOut(t, m.Root.At("/"), today().root())
	layOut(t, m.Root.At("/"), map[string]*fstest.MapFile{"proc/sys/kernel/osrelease": {Data: []byte(release + "\n")}})
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), state.Info{Kind: state.Partition, Device: "/dev/vda7"}))
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Disks+"/osd.json"), []datadisk.Info{
		{Use: datadisk.OSD, Disk: "vdb", Device: "/dev/vdb1"}, {Use: datadisk.OSD, Disk: "vdc", Problem: "not proved empty"}, {Use: datadisk.OSD},
	}))
	return m
}

func TestANodeIsComparedWithAnotherRoot(t *testing.T) {
	m := virtual(t)
	of, err := drivers.OfNode(m)
	require.NoError(t, err)
	require.Equal(t, []string{"/dev/vda", "/dev/vda7", "/dev/vdb1"}, append([]string{of.Boot, of.State}, of.Data...))

	same, without := t.TempDir(), t.TempDir()
	layOut(t, same, today().root())
	layOut(t, without, today().without("virtio_blk").root())
	losses, err := drivers.Against(m, same)
	require.NoError(t, err)
	require.Empty(t, losses)
	losses, err = drivers.Against(m, without)
	require.NoError(t, err)
	require.Len(t, losses, 2)
	require.Equal(t, []string{"the data disk /dev/vdb1"}, losses[0].Uses)
	require.Equal(t, []string{"the boot disk /dev/vda", "the disk with the node's state /dev/vda7"}, losses[1].Uses)
}

func TestStateInMemoryNeedsNoDisk(t *testing.T) {
	m := virtual(t)
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), state.Info{Kind: state.Tmpfs}))
	require.NoError(t, os.Remove(m.Root.At(paths.Disks+"/osd.json")))
	of, err := drivers.OfNode(m)
	require.NoError(t, err)
	require.Empty(t, of.State)
	require.Empty(t, of.Data)
	require.False(t, of.TPM)

	layOut(t, m.Root.At("/sys"), map[string]*fstest.MapFile{"class/tpm/tpm0/tpm_version_major": {Data: []byte("2\n")}})
	of, err = drivers.OfNode(m)
	require.NoError(t, err)
	require.True(t, of.TPM)
}

func TestWhatANodeCannotCompareIsAnError(t *testing.T) {
	same := t.TempDir()
	layOut(t, same, today().root())
	_, err := drivers.Against(virtual(t), t.TempDir())
	require.ErrorContains(t, err, "the new kernel: find the kernel of a root")
	for file, want := range map[string]string{
		paths.State:                  "read what /var is",
		"/proc/sys/kernel/osrelease": "read which kernel runs",
		"/" + drivers.ModuleDir + "/" + release + "/modules.dep": "the kernel that runs",
	} {
		m := virtual(t)
		require.NoError(t, os.Remove(m.Root.At(file)))
		_, err = drivers.Against(m, same)
		require.ErrorContains(t, err, want)
	}
	m := virtual(t)
	require.NoError(t, os.WriteFile(m.Root.At(paths.Disks+"/osd.json"), []byte("{"), 0o644))
	_, err = drivers.Against(m, same)
	require.ErrorContains(t, err, "read what became of the disks")
}
