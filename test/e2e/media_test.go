//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/state"
	"spore/builder/vm"
)

// Scenario 3: machines and disks that are not what one hoped for.

// stickAndDisk are a memory stick and a disk with the same image.
func stickAndDisk(t *testing.T, disk vm.Disk, first string) []vm.Disk {
	t.Helper()
	stick := bootDisk(overlay(t))
	disk.BootIndex, stick.BootIndex = 2, 2
	stick.USB, stick.Serial = true, "STICK001"
	if first == "stick" {
		stick.BootIndex = 1
	} else {
		disk.BootIndex = 1
	}
	// The one that was not booted comes first for the kernel.
	if first == "stick" {
		return []vm.Disk{disk, stick}
	}
	return []vm.Disk{stick, disk}
}

func TestAMachineInNoFileStartsNothingAndSaysWhatToAdd(t *testing.T) {
	inTurn(t)
	c := stranger("unknown", "5", "10.77.0.70", "nobody", stickAndDisk(t, bootDisk(overlay(t)), "stick")...)
	c.SMBIOS = vm.SMBIOS{Serial: "SN-0815", UUID: "3a5b8f0e-0000-4000-8000-0000000000ff"}
	g := boot(t, c)
	s := g.settled()
	require.Empty(t, s.Node)
	require.Empty(t, s.Roles)
	require.Empty(t, s.Services)
	require.Equal(t, "running", s.System, "a machine without a role is no broken one: %s", s.Raw)
	require.NotEqual(t, "partition", s.State.Kind, "no disk is written for nobody")
	for _, want := range []string{foreignMAC + "5", "10.77.0.70", "nobody", "SN-0815", "3a5b8f0e-0000-4000-8000-0000000000ff", "cluster.yaml"} {
		require.Contains(t, s.Raw, want)
	}
	require.NotEmpty(t, s.Problem)
	require.NotEmpty(t, s.Advice)
	t.Run("of a stick and a disk with the same image the booted stick wins", func(t *testing.T) {
		require.Contains(t, s.BootDisk, "STICK001")
	})
}

func TestOfAStickAndADiskWithTheSameImageTheBootedDiskWins(t *testing.T) {
	inTurn(t)
	// It has the card of edge-01, and the firmware chooses mqtt-01. The disk has a flipped byte in a program that it
	// never reads.
	c := edge("disk-and-stick", vm.Disk{})
	c.Disks = stickAndDisk(t, damagedBroker(t), "disk")
	c.SMBIOS.KernelArguments = []string{"spore.node=dns-01"}
	c.SMBIOS.Credentials = map[string][]byte{"spore.node": []byte("mqtt-01")}
	g := boot(t, c)
	s := g.running()
	t.Run("the kernel command line chooses the node", func(t *testing.T) {
		requireMatched(t, s, "dns-01", "cmdline", "dns-01")
	})
	require.Contains(t, s.BootDisk, "DISK0001")
	require.Equal(t, "partition", s.State.Kind)
	t.Run("a flipped byte of a program that it never reads shows nothing", func(t *testing.T) {
		_, seen := g.Console.Find(0, regexp.MustCompile(corrupted))
		require.False(t, seen)
	})
}

// leavesForeignStateAlone boots a raw disk with the image on which state of another cluster is, with variables of the
// firmware, and returns the first status line of the machine. In the end its operator has it adopted.
func leavesForeignStateAlone(t *testing.T, disk, vars string) vm.Status {
	t.Helper()
	p := addForeignState(t, disk)
	before, err := vm.HashRange(disk, p.Start, p.Size)
	require.NoError(t, err)

	c := foreignState(t, disk, vars)
	g := boot(t, c)
	s := g.settled()
	at, err := g.Address("tcp", apiPort)
	require.NoError(t, err)
	ask := asker(t, at, verbsBound)
	t.Run("an SMBIOS credential chooses the node", func(t *testing.T) {
		requireMatched(t, s, "edge-01", "smbios", "edge-01")
	})
	t.Run("a state partition of another cluster is left alone", func(t *testing.T) {
		require.Equal(t, "tmpfs", s.State.Kind, s.Raw)
		require.True(t, s.State.Refused)
		require.Contains(t, s.State.Warning, p.UUID)
		require.Contains(t, s.State.Warning, "spore adopt edge-01 --partition")
		require.Contains(t, s.State.Warning, "spore reset edge-01 --disk DISK0001")
		out, errs, ok := ask("adopt", "edge-01", "--dry-run")
		require.True(t, ok, errs)
		require.Contains(t, out, p.UUID+" on /dev/vda (serial DISK0001, 512 MiB): it does not say whose it is")

		after, err := vm.HashRange(disk, p.Start, p.Size)
		require.NoError(t, err)
		require.Equal(t, before, after, "its bytes are as they were")
		again, err := vm.FindPartition(disk, p.Name)
		require.NoError(t, err)
		require.Equal(t, p, again, "its entry in the table is as it was")
	})
	t.Run("its operator has it adopted", func(t *testing.T) {
		_, errs, ok := ask("adopt", "edge-01", "--confirm", p.UUID)
		require.True(t, ok, errs)
		require.Contains(t, errs, "edge-01: "+p.UUID+" on /dev/vda is this node's from now on")
		_, errs, ok = ask("reboot", "--node", "edge-01")
		require.True(t, ok, errs)
		g.awaitLine(`reboot: Restarting system`)
		s := g.running()
		require.Equal(t, "partition", s.State.Kind, s.Raw)
		require.Empty(t, s.State.Warning, s.Raw)
		g.off()
		g.requireNoAccess()
		now, err := vm.FindPartition(disk, p.Name)
		require.NoError(t, err)
		require.Equal(t, state.PartUUID(suite.cluster.ID, "edge-01").String(), now.UUID)
		require.Equal(t, p.Start, now.Start)
		// The power was cut: what is in its journal alone does not matter here.
		require.Contains(t, run(t, "debugfs", "-c", "-R", "cat precious", disk+"?offset="+strconv.FormatInt(p.Start, 10)), "of another cluster")
	})
	return s
}

// foreignState is a machine that is edge-01 by its firmware, on a disk with state of another cluster. Its bundle comes
// from the firmware, so that it answers although it has no state: by its second card, which is that of edge-01.
func foreignState(t *testing.T, disk, vars string) vm.Config {
	t.Helper()
	c := stranger("foreign-state", "6", "10.77.0.71", "", bootDisk(disk))
	c.Vars, c.SMBIOS = vars, newBroker(t).bundle(t, "edge-01")
	c.SMBIOS.Credentials["spore.node"] = []byte("edge-01")
	own := edge("", vm.Disk{}).NICs[0]
	own.Forwards = []vm.Forward{{Protocol: "tcp", Guest: apiPort}}
	c.NICs, c.Reboots = append(c.NICs, own), true
	return c
}

// addForeignState makes the state partition of another cluster on the disk, with a file on it.
func addForeignState(t *testing.T, disk string) vm.Partition {
	t.Helper()
	run := func(name string, args ...string) {
		out, err := exec.CommandContext(context.Background(), name, args...).CombinedOutput()
		require.NoError(t, err, "%s\nrun make deps", out)
	}
	run("sgdisk", "-e", disk)
	run("sgdisk", "-n", "20:0:+512M", "-t", "20:4d21b016-b534-45c2-a9fb-5c16e091fd2d", "-c", "20:spore-state",
		"-u", "20:99999999-8888-8777-8666-555555555555", disk)
	p, err := vm.FindPartition(disk, "spore-state")
	require.NoError(t, err)
	content := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(content, "precious"), []byte("of another cluster"), 0o600))
	run("mke2fs", "-q", "-t", "ext4", "-L", "other", "-d", content, "-E", "offset="+strconv.FormatInt(p.Start, 10), disk,
		strconv.FormatInt(p.Size/1024, 10)+"k")
	return p
}
