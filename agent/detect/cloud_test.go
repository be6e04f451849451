package detect

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/nic"
	"spore/cluster/spec"
)

const ownMAC = "52:54:00:00:00:01"

// volume is a disc with these files.
func volume(t testing.TB, files map[string]string) []byte {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "volume")
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	text, err := exec.Command("xorriso", "-as", "mkisofs", "-V", "cidata", "-R", "-o", out, dir).CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", text)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	return data
}

// insert gives a machine drives with these discs.
func (m *Machine) insert(t testing.TB, discs map[string][]byte) {
	t.Helper()
	sys := fstest.MapFS{"block": {Mode: fs.ModeDir | 0o755}}
	for name, file := range m.Sys.(fstest.MapFS) {
		sys[name] = file
	}
	m.Dev = t.TempDir()
	for name, data := range discs {
		require.NoError(t, os.WriteFile(filepath.Join(m.Dev, name), data, 0o600))
		sys["block/"+name] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("../devices/" + name)}
		sys["devices/"+name+"/size"] = &fstest.MapFile{Data: []byte("0")}
	}
	m.Sys = sys
}

func serial(text string) fstest.MapFS {
	return fstest.MapFS{"class/dmi/id/product_serial": {Data: []byte(text)}}
}

const static = "{version: 2, ethernets: {a: {match: {macaddress: '" + ownMAC + "'}, addresses: [10.77.0.140/24], gateway4: 10.77.0.1, nameservers: {addresses: [10.77.0.2], search: [plant.example]}}}}"

func TestPhaseOneWithNoCloud(t *testing.T) {
	node := func(name string) map[string]string {
		return map[string]string{"user-data": "spore: {node: " + name + "}"}
	}
	network := []spec.Interface{{MAC: ownMAC, Addresses: []string{"10.77.0.140/24"}, Gateways: []string{"10.77.0.1"}}}
	credentials := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(credentials, "spore.user-data"), []byte("spore: {node: mqtt-01}"), 0o600))
	for name, tc := range map[string]struct {
		change            func(*Machine)
		discs             map[string][]byte
		node, by, problem string
		network           []spec.Interface
		phase             int
		advice            string
	}{
		"a volume decides": {nil, map[string][]byte{"sr0": volume(t, node("mqtt-01"))}, "mqtt-01", "nocloud", "", nil, 1, ""},
		"a volume wins over a MAC": {
			func(m *Machine) { m.Cards = withCards("52:54:00:77:00:0b") }, map[string][]byte{"sr0": volume(t, node("mqtt-01"))}, "mqtt-01", "nocloud", "", nil, 1, "",
		},
		"a credential decides": {func(m *Machine) { m.Credentials = credentials }, nil, "mqtt-01", "nocloud", "", nil, 1, ""},
		"a node that there is not": {
			nil, map[string][]byte{"sr0": volume(t, node("edge-99"))}, "", "nocloud", `chooses node "edge-99", which cluster.yaml does not have`, nil, 1, "choose a node that cluster.yaml has",
		},
		"two volumes that disagree": {
			func(m *Machine) { m.Cards = withCards("52:54:00:77:00:0b") }, map[string][]byte{"sr0": volume(t, node("mqtt-01")), "sr1": volume(t, node("dns-01"))},
			"", "nocloud", "the volume /dev/sr0 (iso9660) and the volume /dev/sr1 (iso9660) disagree about the node, so nothing of them was taken", nil, 1, "say the same",
		},
		"two volumes that disagree, and a choice": {
			func(m *Machine) { m.Cmdline, m.Sys = "spore.node=edge-01", serial("ds=nocloud") }, map[string][]byte{"sr0": volume(t, node("mqtt-01")), "sr1": volume(t, node("dns-01"))},
			"", "nocloud", "disagree about the node", nil, 1, "say the same",
		},
		"the ESP and a volume in a virtual machine": {
			func(m *Machine) { m.ESPNode, m.Virtual = "edge-01", true }, map[string][]byte{"sr0": volume(t, node("mqtt-01"))},
			"", "", "more than one node: esp edge-01 is edge-01, nocloud mqtt-01 is mqtt-01", nil, 1, "let the user-data of NoCloud name the node that is chosen elsewhere",
		},
		"the ESP on metal does not look":    {func(m *Machine) { m.ESPNode = "edge-01" }, map[string][]byte{"sr0": volume(t, node("mqtt-01"))}, "edge-01", "esp", "", nil, 1, ""},
		"the command line does not look":    {func(m *Machine) { m.Cmdline, m.Virtual = "spore.node=edge-01", true }, map[string][]byte{"sr0": volume(t, node("mqtt-01"))}, "edge-01", "cmdline", "", nil, 1, ""},
		"it looks where the serial says so": {func(m *Machine) { m.Cmdline, m.Sys = "spore.node=edge-01", serial("ds=nocloud") }, map[string][]byte{"sr0": volume(t, node("mqtt-01"))}, "", "", "more than one node: cmdline edge-01 is edge-01, nocloud mqtt-01", nil, 1, "NoCloud"},
		"a network besides a MAC": {
			func(m *Machine) { m.Sys = serial("CZ1") }, map[string][]byte{"sr0": volume(t, map[string]string{"network-config": static})}, "kafka-01", "serial", "", network, 1, "",
		},
		"a host name and a static network need no DHCP": {
			nil, map[string][]byte{"sr0": volume(t, map[string]string{"meta-data": "local-hostname: dns-01.plant.example", "network-config": static})}, "dns-01", "hostname", "", network, 2, "",
		},
		"a static address needs no DHCP": {
			nil, map[string][]byte{"sr0": volume(t, map[string]string{"network-config": "{version: 1, config: [{type: physical, name: x, mac_address: '" + ownMAC + "', subnets: [{type: static, address: 10.77.0.12/24}]}]}"})},
			"mqtt-01", "ip", "", []spec.Interface{{MAC: ownMAC, Addresses: []string{"10.77.0.12/24"}}}, 2, "",
		},
		"a static address and a host name of two nodes": {
			nil, map[string][]byte{"sr0": volume(t, map[string]string{"meta-data": "local-hostname: dns-01", "network-config": "{version: 2, ethernets: {a: {match: {macaddress: '" + ownMAC + "'}, addresses: [10.77.0.12/24]}}}"})},
			"", "", "more than one node: ip 10.77.0.12 is mqtt-01, hostname dns-01 is dns-01", []spec.Interface{{MAC: ownMAC, Addresses: []string{"10.77.0.12/24"}}}, 2, "let only one",
		},
		"a host name alone waits for DHCP":    {func(m *Machine) { m.Sys = serial("ds=nocloud;h=dns-01") }, nil, "", "", "", nil, 0, ""},
		"a malformed volume is as none":       {func(m *Machine) { m.Cards = withCards("52:54:00:77:00:0b") }, map[string][]byte{"sr0": volume(t, map[string]string{"user-data": "spore: {"})}, "edge-01", "mac", "", nil, 1, ""},
		"a network of another machine's card": {nil, map[string][]byte{"sr0": volume(t, map[string]string{"network-config": "{version: 2, ethernets: {eth7: {addresses: [10.77.0.12/24]}}}"})}, "", "", "", nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := bare(t)
			m.VolumeBound = 100 * time.Millisecond
			if tc.change != nil {
				tc.change(&m)
			}
			m.insert(t, tc.discs)
			id, err := PhaseOne(context.Background(), m)
			require.NoError(t, err)
			require.Equal(t, tc.node, id.Node)
			require.Equal(t, tc.by, id.By)
			require.Contains(t, id.Problem, tc.problem)
			require.Equal(t, tc.problem == "", id.Problem == "", id.Problem)
			require.Contains(t, id.Advice, tc.advice)
			require.Equal(t, tc.network, id.Network)
			require.Equal(t, tc.phase, id.Phase)
		})
	}
}

func TestACardThatComesLateGetsTheNetworkOfACredential(t *testing.T) {
	for name, choose := range map[string]func(*Machine){
		"the command line": func(m *Machine) { m.Cmdline = "spore.node=edge-01" },
		"the ESP":          func(m *Machine) { m.ESPNode = "edge-01" },
		"the ESP, virtual": func(m *Machine) { m.ESPNode, m.Virtual = "edge-01", true },
	} {
		t.Run(name, func(t *testing.T) {
			m := bare(t)
			choose(&m)
			m.Credentials = t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(m.Credentials, "spore.network-config"), []byte(static), 0o600))
			there, found := m.Cards, false
			m.Settled = func(context.Context) error { found = true; return nil }
			m.Cards = func() ([]nic.Card, error) {
				if !found {
					return nil, nil
				}
				return there()
			}
			id, err := PhaseOne(context.Background(), m)
			require.NoError(t, err)
			require.Equal(t, "edge-01", id.Node)
			require.Len(t, id.Network, 1)
		})
	}
}

func TestAChosenMachineWithoutCardsAndVolumesWaitsForNone(t *testing.T) {
	m := bare(t)
	m.ESPNode, m.Virtual, m.Cards = "edge-01", true, withCards()
	m.Say = func(line string) { t.Errorf("it waits: %s", line) }
	id, err := PhaseOne(context.Background(), m)
	require.NoError(t, err)
	require.Equal(t, "edge-01", id.Node)
}

func TestWhatNoCloudSaysOfTheNetworkProvesNothing(t *testing.T) {
	m := bare(t)
	m.insert(t, map[string][]byte{"sr0": volume(t, map[string]string{"meta-data": "local-hostname: dns-01", "network-config": static})})
	id, err := PhaseOne(context.Background(), m)
	require.NoError(t, err)
	require.Equal(t, 2, id.Phase, "as what DHCP says")
	require.True(t, id.ByNetworkOfCloud())
	servers, search := id.Resolvers()
	require.Equal(t, []string{"10.77.0.2"}, servers)
	require.Equal(t, "plant.example", search)
}

func TestDHCPAndTheHostNameOfNoCloudAreOneEvidence(t *testing.T) {
	lease := func(s string) fstest.MapFS { return fstest.MapFS{"2": {Data: []byte(s)}} }
	for name, tc := range map[string]struct {
		lease, node, by, card, problem string
		cloud                          bool
	}{
		"the host name decides, and the card of the lease is the node's": {"ADDRESS=10.77.0.140\n", "dns-01", "hostname", ownMAC, "", true},
		"DHCP says the same":             {"ADDRESS=10.77.0.140\nHOSTNAME=dns-01\n", "dns-01", "hostname", ownMAC, "", false},
		"DHCP's address is another node": {"ADDRESS=10.77.0.12\n", "", "", "", "more than one node: ip 10.77.0.12 is mqtt-01, hostname dns-01 is dns-01", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := bare(t)
			m.Sys = serial("ds=nocloud;h=dns-01")
			one, err := PhaseOne(context.Background(), m)
			require.NoError(t, err)
			m.Leases = lease(tc.lease)
			id, err := PhaseTwo(context.Background(), m, one)
			require.NoError(t, err)
			require.Equal(t, tc.node, id.Node)
			require.Equal(t, tc.by, id.By)
			require.Equal(t, tc.card, id.Card)
			require.Contains(t, id.Problem, tc.problem)
			require.Equal(t, tc.cloud, id.ByNetworkOfCloud())
			require.NotNil(t, id.NoCloud, "the status tells of it")
			require.NotContains(t, id.Advice, "serial:", "many machines have a serial number that leads to NoCloud")
		})
	}
}

func TestStorageControllersWithoutADriverAreWokenInAVirtualMachine(t *testing.T) {
	const pci = "bus/pci/devices/0000:00:1f.2"
	hidden := fstest.MapFS{pci + "/class": {Data: []byte("0x010601\n")}}
	bound := fstest.MapFS{pci + "/class": {Data: []byte("0x010601\n")}, pci + "/driver/x": {}}
	card := fstest.MapFS{pci + "/class": {Data: []byte("0x020000\n")}}
	for name, tc := range map[string]struct {
		sys     fstest.MapFS
		virtual bool
		cmdline string
		woken   int
	}{
		"a virtual machine":                      {hidden, true, "", 1},
		"metal":                                  {hidden, false, "", 0},
		"a controller that has a driver":         {bound, true, "", 0},
		"another device":                         {card, true, "", 0},
		"a machine whose node is chosen already": {hidden, true, "spore.node=edge-01", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := bare(t)
			woken := 0
			m.Sys, m.Virtual, m.Cmdline = tc.sys, tc.virtual, tc.cmdline
			m.FindDisks = func(context.Context) { woken++ }
			_, err := PhaseOne(context.Background(), m)
			require.NoError(t, err)
			require.Equal(t, tc.woken, woken)
		})
	}
}

func TestAVolumeThatTheSerialNumberAnnouncesIsWaitedFor(t *testing.T) {
	m := bare(t)
	m.VolumeBound = 20 * time.Second
	m.Sys = serial("ds=nocloud")
	m.insert(t, nil)
	disc := volume(t, map[string]string{"user-data": "spore: {node: mqtt-01}"})
	asked := 0
	sys := m.Sys.(fstest.MapFS)
	m.Sys = late{sys, func() {
		if asked++; asked == 3 { // A USB drive that comes late.
			require.NoError(t, os.WriteFile(filepath.Join(m.Dev, "sda"), disc, 0o600))
			sys["block/sda"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("../devices/sda")}
			sys["devices/sda/size"] = &fstest.MapFile{Data: []byte("0")}
		}
	}}
	id, err := PhaseOne(context.Background(), m)
	require.NoError(t, err)
	require.Equal(t, "mqtt-01", id.Node)
}

// late tells when disks are listed.
type late struct {
	fstest.MapFS
	listed func()
}

func (l late) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "block" {
		l.listed()
	}
	return l.MapFS.ReadDir(name)
}

func TestACardOfTheDocumentIsFoundByItsName(t *testing.T) {
	m := bare(t)
	m.Cards = func() ([]nic.Card, error) {
		return []nic.Card{{Index: 2, MAC: ownMAC, Name: "enp1s0", Carrier: true}}, nil
	}
	m.insert(t, map[string][]byte{"sr0": volume(t, map[string]string{"network-config": "{version: 2, ethernets: {enp1s0: {dhcp4: true}, eth0: {dhcp4: true}}}"})})
	id, err := PhaseOne(context.Background(), m)
	require.NoError(t, err)
	require.Equal(t, []spec.Interface{{MAC: ownMAC, DHCP: true}}, id.Network)
	require.Equal(t, []string{"network-config: eth0 is no card of this machine"}, id.NoCloud.NotTaken)
}
