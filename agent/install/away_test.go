package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/spec"
	"spore/storage/flash"
	"spore/storage/gpt"
)

// live is a machine that runs from a stick, with a disk INNER that is empty.
func live(t *testing.T) *node.Machine {
	t.Helper()
	m := withDisk(t)
	for name, content := range map[string]string{
		"sys/block/sda/size": "20000000", "sys/block/sda/serial": "STICK", "sys/block/sda/device/x": "", "sys/block/sda/dev": "8:0",
		strings.TrimPrefix(bootinfo.Delivered, "/"): "somebody's bundle",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At("/"+name)), 0o755))
		require.NoError(t, os.WriteFile(m.Root.At("/"+name), []byte(content), 0o600))
	}
	require.NoError(t, os.MkdirAll(m.Root.At("/dev"), 0o755))
	source(t, false) // which makes the stick
	require.NoError(t, os.WriteFile(m.Root.At("/dev/sda"), stickData, 0o600))
	require.NoError(t, os.WriteFile(m.Root.At("/dev/vda"), nil, 0o600))
	require.NoError(t, os.Truncate(m.Root.At("/dev/vda"), 5<<30))
	digits := func(g gpt.GUID) string { return strings.ReplaceAll(g.String(), "-", "") }
	require.NoError(t, bootinfo.Write(m.Root.At(bootinfo.Path), bootinfo.Info{
		BootDisk: bootinfo.Disk{Path: "/dev/sda"}, EFI: true, ESPNode: "edge-01",
		RootHash: digits(want[0]) + digits(want[1]), ClusterHash: digits(want[2]) + strings.Repeat("0", 32),
	}))
	return m
}

var inner = spec.DiskSelector{Serial: "INNER"}

func TestARunningMachineIsInstalledWhenItWasLookedAt(t *testing.T) {
	m := live(t)
	p, err := Prepare(t.Context(), m, Order{Disk: inner})
	require.NoError(t, err)
	require.Equal(t, Offer{Disk: "/dev/vda", Name: "INNER", Size: 16777216 * 512, Holds: "nothing", Bundle: "medium"}, p.Offer)
	p.options.Open = func(target flash.Target) (Device, error) { return flash.Open(m.Root.At(target.Path())) }
	var said []string
	done, err := p.Write(t.Context(), func(line string) { said = append(said, line) })
	p.Close()
	require.NoError(t, err)
	require.Contains(t, done, "installed on /dev/vda in ")
	require.Contains(t, done, "read back and compared")
	require.Contains(t, said[0], "installing on /dev/vda")

	p, err = Prepare(t.Context(), m, Order{Disk: inner})
	require.NoError(t, err)
	defer p.Close()
	require.True(t, p.Same, "it has this system now")
}

func TestALookChangesNothing(t *testing.T) {
	m := live(t)
	p, err := Prepare(t.Context(), m, Order{Disk: inner})
	require.NoError(t, err)
	p.Close()
	f, err := flash.OpenRead(m.Root.At("/dev/vda"))
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, "nothing", flash.Content(f, f.Size(), f.SectorSize()))
}

func TestADiskThatIsNotForTheSystemIsRefusedFromAway(t *testing.T) {
	serial := func(s string) spec.DiskSelector { return spec.DiskSelector{Serial: s} }
	for name, tc := range map[string]struct {
		order Order
		want  string
	}{
		"the one that it runs from":        {Order{Disk: serial("STICK")}, ErrBooted.Error()},
		"one that is not there":            {Order{Disk: serial("OTHER")}, `no disk has the serial "OTHER"`},
		"that of an OSD":                   {Order{Disk: inner, Given: []spec.Disk{{Use: "osd", Selector: inner}}}, "the node's file gives it to osd"},
		"that of an OSD, with state given": {Order{Disk: inner, EraseState: true, Given: []spec.Disk{{Use: "osd", Selector: inner}}}, "gives it to osd"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Prepare(t.Context(), live(t), tc.order)
			require.ErrorContains(t, err, tc.want)
		})
	}
	p, err := Prepare(t.Context(), live(t), Order{Disk: inner, Given: []spec.Disk{{Use: "state", Selector: inner}, {Use: "osd", Selector: serial("OTHER")}}})
	require.NoError(t, err, "its state is kept")
	p.Close()
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	_, err = Prepare(t.Context(), m, Order{Disk: inner})
	require.Error(t, err)
	_, err = Prepare(t.Context(), withDisk(t), Order{Disk: inner})
	require.ErrorContains(t, err, "started without UEFI")
}
