//go:build e2e

package e2e

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// Scenario: one ISO, four ways to boot it.

// edgeOn is edge-01 with nothing but a medium, and its bundle in the firmware.
func edgeOn(t *testing.T, b broker, name, firmware string, medium vm.Disk) vm.Config {
	t.Helper()
	c := edge(name, medium)
	c.Firmware, c.SMBIOS = firmware, b.bundle(t, "edge-01")
	return c
}

// found waits for the first status line that says which node the machine is and what it keeps its state on.
func (g *guest) found() vm.Status {
	g.t.Helper()
	return g.await("a status line with a node and its state", func(s vm.Status) bool { return s.Node != "" && s.State.Kind != "" })
}

// Under UEFI a disc is booted in TestACustomizedImageIsWhatABuildWritesAndBoots.
func TestAnISOBootsAsADisc(t *testing.T) {
	inTurn(t)
	t.Run("under a BIOS", func(t *testing.T) {
		g := boot(t, edgeOn(t, newBroker(t), "disc", vm.BIOS, disc(suite.iso)))
		g.awaitLine(`spore stage1: .*started by a BIOS, from the medium with the partition`)
		runsFromADisc(t, g)
		requireServes(t, g, edgeIP, "edge-01")
		checkDNS(t, g, edgeIP)
	})
}

// disc is an ISO in a drive.
func disc(iso string) vm.Disk { return vm.Disk{Path: iso, CDROM: true, BootIndex: 1} }

// runsFromADisc waits until edge-01 runs its roles from a disc, and keeps nothing.
func runsFromADisc(t *testing.T, g *guest) vm.Status {
	t.Helper()
	g.awaitLine(`spore stage1: .*boot disk /dev/sr0 `)
	s := g.running()
	require.Equal(t, "edge-01", s.Node)
	require.Equal(t, []string{"dns-server", "mqtt-broker"}, s.Roles, s.Raw)
	require.Equal(t, "tmpfs", s.State.Kind)
	require.False(t, s.State.Refused, "roles need not wait: there never was any state")
	require.Contains(t, s.State.Warning, "booted from the disc in /dev/sr0, which can keep nothing")
	require.Contains(t, s.State.Warning, "its content will be lost")
	return s
}

// TestAnISOWrittenToAStick boots the same stick twice: what the first boot writes must not keep the second from
// starting. The machine is one that only the network knows.
func TestAnISOWrittenToAStickBootsUnderUEFIAndABIOSAndKeepsItsState(t *testing.T) {
	inTurn(t)
	stick := filepath.Join(t.TempDir(), "stick.img")
	require.NoError(t, vm.Copy(suite.iso, stick, diskSize))
	machine := func(name, firmware string) vm.Config {
		c := stranger(name, "4", dnsIP, "dns-01", vm.Disk{Path: stick, USB: true, Serial: "STICK001", BootIndex: 1})
		c.Firmware, c.NICs[0].Forwards = firmware, append(c.NICs[0].Forwards, forwards(dnsOwnIP)...)
		return c
	}

	g := boot(t, machine("stick-uefi", vm.UEFI))
	s := g.running()
	t.Run("a DNS node is found by its DHCP hostname", func(t *testing.T) { isFoundByItsDHCPHostname(t, g, s) })
	require.Contains(t, s.BootDisk, "STICK001")
	require.Equal(t, "partition", s.State.Kind, s.Raw)
	require.Empty(t, s.State.Warning, "there is room for a second system")
	g.off()
	state, err := vm.FindPartition(stick, "spore-state")
	require.NoError(t, err)
	for name, size := range map[string]int64{"root-b": 2048 << 20, "verity-b": 32 << 20, "cluster-b": 64 << 20} {
		p, err := vm.FindPartition(stick, name)
		require.NoError(t, err, name)
		require.Equal(t, size, p.Size, name)
	}
	require.Equal(t, readMBR(t, suite.iso), readMBR(t, stick), "what a BIOS boots is as it was")

	g = boot(t, machine("stick-bios", vm.BIOS))
	g.awaitLine(`spore stage1: .*started by a BIOS, from the medium with the partition`)
	s = g.found()
	require.Equal(t, "dns-01", s.Node)
	require.Contains(t, s.BootDisk, "STICK001")
	require.Equal(t, "partition", s.State.Kind, s.Raw)
	g.off()
	again, err := vm.FindPartition(stick, "spore-state")
	require.NoError(t, err)
	require.Equal(t, state, again)
}

// readMBR returns the first sector, which has to be one that a BIOS boots.
func readMBR(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, 512)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, uint16(0xaa55), binary.LittleEndian.Uint16(b[510:]))
	return b
}
