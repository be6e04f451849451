//go:build e2e

package e2e

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/unsquash"
	"spore/builder/vm"
)

// Scenario 4: one flipped byte. What becomes of machines that read it are rows of the fault matrix
// (faults_boot_test.go).

const (
	mosquittoPath = "/usr/sbin/mosquitto"
	journaldPath  = "/usr/lib/systemd/systemd-journald"
	verityBlock   = 4096
)

// corrupted is what dm-verity says (drivers/md/dm-verity-target.c).
var corrupted = `device-mapper: verity: .*(corrupted|is corrupted)|dm-verity device corrupted`

// flipped is a copy of the image in which one byte of a partition is flipped.
func flipped(t *testing.T, partition string, offset int64) string {
	t.Helper()
	disk := rawCopy(t)
	p, err := vm.FindPartition(disk, partition)
	require.NoError(t, err)
	require.Less(t, offset, p.Size)
	require.NoError(t, vm.Flip(disk, p.Start+offset))
	return disk
}

// blockOf is an offset in the root partition in the middle of the stored data of a file's beginning.
func blockOf(t *testing.T, path string) int64 {
	t.Helper()
	p, err := vm.FindPartition(suite.image, "root-a")
	require.NoError(t, err)
	f, err := os.Open(suite.image)
	require.NoError(t, err)
	defer f.Close()
	img, err := unsquash.Open(io.NewSectionReader(f, p.Start, p.Size), p.Size)
	require.NoError(t, err)
	defer img.Close()
	e := img.Lstat(path)
	require.NotNil(t, e, path)
	require.NotEmpty(t, e.Blocks, path)
	require.Positive(t, e.Blocks[0].Size)
	return e.Blocks[0].Offset + e.Blocks[0].Size/2
}

// damagedBroker is a disk with the image in which one byte of mosquitto is flipped.
func damagedBroker(t *testing.T) vm.Disk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, vm.Overlay(context.Background(), flipped(t, "root-a", blockOf(t, mosquittoPath)), path, diskSize))
	return bootDisk(path)
}
