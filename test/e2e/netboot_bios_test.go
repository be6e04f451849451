//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/netboot"
	"spore/builder/vm"
	"spore/test/client"
)

// TestAnUnknownMachineIsShownAndStartsWhenItIsKnown is a machine with a BIOS on a network whose DHCP server does what
// docs/netboot.md says. The operator adds the machine to the configuration while it waits; nobody touches the machine
// or the server.
func TestAnUnknownMachineIsShownAndStartsWhenItIsKnown(t *testing.T) {
	inTurn(t)
	mac := foreignMAC + "7"
	w, out := newWire(t), netbootFolder(t)
	// The card's own iPXE is told to load ours, as plain PXE is: the two cannot be told apart by what they say of
	// themselves.
	again := w.dnsmasq("dhcp-boot=undionly.kpxe,," + serverIP + "\n")
	w.serve(out, "off")
	g := w.boot(vm.Config{Name: "bios", Firmware: vm.BIOS, SMBIOS: vm.SMBIOS{Serial: "SN-4711", UUID: "3a5b8f0e-0000-4000-8000-0000000000fe"}, Args: []string{
		"-netdev", "tap,id=wire,ifname=" + tap + ",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=wire,mac=" + mac + ",bootindex=1",
	}})
	g.awaitLine(`tftp://` + serverIP + `/undionly\.kpxe\.\.\. *ok`)
	again(documentedConfig(t))
	g.awaitLine(`http://` + serverIP + `/start\.ipxe\.\.\. *ok`)
	g.awaitLine(`UNKNOWN MACHINE`)
	g.awaitLine(`MAC +` + mac)
	g.awaitLine(`serial +SN-4711`)
	g.awaitLine(`UUID +3a5b8f0e-0000-4000-8000-0000000000fe`)
	g.awaitLine(`macs: \["` + mac + `"\]`)

	text, err := exec.Command(flashTool(t), "approve", out, "--json").Output()
	require.NoError(t, err)
	var state netboot.State
	require.NoError(t, json.Unmarshal(text, &state))
	require.Len(t, state.Machines, 1, "the operator is shown it too")
	require.Equal(t, []string{mac}, state.Machines[0].MACs)
	require.Equal(t, "SN-4711", state.Machines[0].Serial)
	require.True(t, strings.HasPrefix(state.Machines[0].Address, "10.77.0."), state.Machines[0].Address)
	require.Empty(t, state.Machines[0].Node)

	configs := editedConfigs(t, [3]string{"cluster.yaml", "  - name: dns-01\n", "  - name: dns-01\n    macs: [\"" + mac + "\"]\n"})
	said, err := exec.Command(flashTool(t), "customize", filepath.Join(out, "netboot"), "--config", configs, "--pki", suite.dir).CombinedOutput()
	require.NoError(t, err, "%s", said)
	g.awaitLine(`Spore: this machine is dns-01 of cluster plant, by its mac ` + mac)
	g.awaitLine(`spore stage1:.*the image comes from the network: the kernel command line says spore\.url=http://` + serverIP + `/`)
	s := g.running()
	require.Equal(t, "dns-01", s.Node)
	require.Equal(t, "mac", s.Matched.By)
	require.Equal(t, []string{dnsOwnIP}, s.Addresses)
	require.Equal(t, "active", s.Services["coredns.service"])
	w.in(func() {
		a, err := client.Ask("udp", dnsOwnIP+":53", "edge-01."+suite.cluster.Domain, "A")
		require.NoError(t, err)
		require.Equal(t, client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A " + edgeIP}}, a)
	})
}

// documentedConfig is what docs/netboot.md has for dnsmasq.
func documentedConfig(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(sourceTree, "docs/netboot.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "For dnsmasq, with the server at "+serverIP+":\n\n```\n")
	require.True(t, ok)
	config, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	return config
}
