package install

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/delivery"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/spec"
	secrets "spore/pki/bundle"
	"spore/storage/flash"
	"spore/storage/gpt"
	"spore/test/testpe"
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

func TestAMachineThatWouldStartAnotherSystemNextIsNotInstalled(t *testing.T) {
	m := live(t)
	m.ReadBoot()
	pushed := testpe.Program(testpe.Section{Name: ".cmdline", Data: []byte(
		"roothash=" + m.Boot.RootHash + " spore.clusterhash=" + strings.Repeat("e", 64) + "\x00")})
	data := mediumOf(t, false, memFile("/EFI/Linux/spore_1000000000001_0123456789ab.efi", string(pushed)))
	require.NoError(t, os.WriteFile(m.Root.At("/dev/sda"), data, 0o600))
	_, err := Prepare(t.Context(), m, Order{Disk: inner})
	require.ErrorContains(t, err, "start it first (spore reboot), and try again")
}

func TestWhatIsNotTheDiskThatWasLookedAtIsNotWritten(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, m *node.Machine){
		"another disk with its name": func(t *testing.T, m *node.Machine) {
			require.NoError(t, os.WriteFile(m.Root.At("/sys/block/vda/size"), []byte("10485768\n"), 0o600))
		},
		"one with something on it": func(t *testing.T, m *node.Machine) {
			f, err := os.OpenFile(m.Root.At("/dev/vda"), os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("bluestore block device\n"), 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := live(t)
			p, err := Prepare(t.Context(), m, Order{Disk: inner})
			require.NoError(t, err)
			defer p.Close()
			change(t, m)
			// As they are listed when it is written.
			p.options.Host, err = flash.ThisHost(m.Root.At("/"))
			require.NoError(t, err)
			_, err = p.Write(t.Context(), func(string) {})
			require.ErrorContains(t, err, "and what was looked at was /dev/vda (serial INNER, 8192 MiB), which holds: nothing")
		})
	}
}

// signingKey is that of the cluster of unattended.
var signingKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// signed is a bundle of a node.
func signed(t *testing.T, node string, serial uint64) []byte {
	t.Helper()
	return signedBy(t, signingKey, plantID, node, serial)
}

func signedBy(t *testing.T, key ed25519.PrivateKey, cluster, node string, serial uint64) []byte {
	t.Helper()
	data, err := secrets.Sign(secrets.Bundle{
		Cluster: cluster, Node: node, Issued: time.Unix(1_790_000_000, 0).UTC(), Serial: serial, Secrets: map[string]string{"x": "y"},
	}, key)
	require.NoError(t, err)
	return data
}

// sealed is how a bundle with a passphrase begins.
var sealed = []byte("age-encryption.org/v1\n")

func TestTheBundleOfNoCloudIsLeftOutWhereAPersonSaysSo(t *testing.T) {
	m := live(t)
	require.NoError(t, os.Remove(m.Root.At(bootinfo.Delivered)))
	put(t, m, strings.TrimPrefix(bootinfo.DeliveredNoCloud, "/"), string(sealed))
	for without, want := range map[bool]string{false: "nocloud", true: ""} {
		p, err := Prepare(t.Context(), m, Order{Disk: inner, WithoutBundle: without})
		require.NoError(t, err)
		require.Equal(t, want, p.Bundle)
		p.Close()
	}
	m = unattended(t, "")
	put(t, m, strings.TrimPrefix(bootinfo.Delivered, "/"), string(signed(t, "edge-01", 1)))
	put(t, m, strings.TrimPrefix(bootinfo.DeliveredNoCloud, "/"), string(signed(t, "edge-01", 2)))
	for without, want := range map[bool]string{false: "nocloud", true: "medium"} {
		p, err := Prepare(t.Context(), m, Order{Disk: inner, WithoutBundle: without})
		require.NoError(t, err)
		require.Equal(t, want, p.Bundle)
		p.Close()
	}
}

func TestTheNewerBundleGoesAlong(t *testing.T) {
	for name, tc := range map[string]struct {
		stored, medium []byte
		want           bool
	}{
		"neither has one":                        {nil, nil, false},
		"the medium alone":                       {nil, signed(t, "edge-01", 1), false},
		"the state alone":                        {signed(t, "edge-01", 1), nil, true},
		"the same in both":                       {signed(t, "edge-01", 2), signed(t, "edge-01", 2), false},
		"a disc with an older one":               {signed(t, "edge-01", 2), signed(t, "edge-01", 1), true},
		"a medium with a newer one":              {signed(t, "edge-01", 2), signed(t, "edge-01", 3), false},
		"a medium with one with a passphrase":    {signed(t, "edge-01", 2), sealed, false},
		"a medium with that of another node":     {signed(t, "edge-01", 1), signed(t, "edge-02", 9), true},
		"a state with something that is no more": {[]byte("damaged"), signed(t, "edge-01", 1), false},
	} {
		require.Equal(t, tc.want, newer(tc.stored, tc.medium), name)
		require.Equal(t, tc.want, better(tc.stored, tc.medium, delivery.Medium), name)
		require.Equal(t, tc.stored != nil, better(tc.stored, tc.medium, delivery.NoCloud), name)
	}
}
