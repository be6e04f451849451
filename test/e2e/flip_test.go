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

// Scenario 4: one flipped byte.

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

// requireStop makes sure that the machine stops with verity's message, and never said that it runs.
func requireStop(t *testing.T, g *guest) {
	t.Helper()
	g.awaitLine(corrupted)
	g.awaitLine(`Kernel panic - not syncing|reboot: Restarting system`)
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	require.NoError(t, g.Wait(ctx), "the panic ends in a reset")
	for _, s := range g.Console.Statuses(0) {
		require.NotEqual(t, "running", s.System, s.Raw)
	}
}

func TestAFlippedByteStopsTheMachine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, partition string
		offset          func(t *testing.T) int64
	}{
		{"of the squashfs superblock", "root-a", func(*testing.T) int64 { return 40 }},
		{"of the hash tree", "verity-a", func(*testing.T) int64 { return verityBlock + 10 }},
		{"of journald's binary", "root-a", func(t *testing.T) int64 { return blockOf(t, journaldPath) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := boot(t, edge("flip", bootDisk(flipped(t, tt.partition, tt.offset(t)))))
			requireStop(t, g)
		})
	}
}

// damagedBroker is a disk with the image in which one byte of mosquitto is flipped.
func damagedBroker(t *testing.T) vm.Disk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, vm.Overlay(context.Background(), flipped(t, "root-a", blockOf(t, mosquittoPath)), path, diskSize))
	return bootDisk(path)
}

// A node that never reads it is TestDNSNodeIsFoundByItsDHCPHostname.
func TestAFlippedByteOfMosquittosBinaryStopsTheNodeThatStartsIt(t *testing.T) {
	t.Parallel()
	c := edge("flip-mosquitto", damagedBroker(t))
	c.SMBIOS = newBroker(t).bundle(t, "edge-01")
	requireStop(t, boot(t, c))
}
