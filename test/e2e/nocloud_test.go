//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// documents makes an ISO 9660 volume with the label of NoCloud, as a hypervisor gives it.
func documents(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "cidata.iso")
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	text, err := exec.Command("xorriso", "-as", "mkisofs", "-V", "cidata", "-J", "-R", "-o", out, dir).CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", text)
	return out
}

// onFAT makes the same on FAT in a volume of this many KiB, which is a sparse file.
func onFAT(t *testing.T, size int, files map[string]string) string {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "cidata.img")
	text, err := exec.Command("mkfs.vfat", "-C", "-n", "CIDATA", out, strconv.Itoa(size)).CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", text)
	for name, content := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		text, err := exec.Command("mcopy", "-i", out, file, "::"+name).CombinedOutput()
		require.NoError(t, err, "%s", text)
	}
	return out
}

// bomb is YAML that has more values than a machine has memory, where somebody follows its aliases.
func bomb() string {
	out := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		alias := fmt.Sprintf("*a%d", i)
		out += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Join(slices.Repeat([]string{alias}, 9), ", "))
	}
	return out
}

// TestAVirtualMachineIsGivenItsNodeAndItsNetworkByAVolume boots a machine that is in no file, and whose DHCP server
// knows no name of it: the volume says all, and libvirt's serial number says a part of it. Then somebody adds a second
// volume of 1 GiB that says something else, and has a bomb before it.
func TestAVirtualMachineIsGivenItsNodeAndItsNetworkByAVolume(t *testing.T) {
	inTurn(t)
	const mac = "7"
	told := map[string]string{
		"meta-data": "instance-id: i-77\nlocal-hostname: another\n",
		"user-data": "#cloud-config\nspore:\n  node: dns-01\npackages: [nginx]\nruncmd:\n- touch /run/hostile\n",
		"network-config": "version: 2\nethernets:\n  id0:\n    match: {macaddress: '" + foreignMAC + mac + "'}\n    addresses: [" + dnsOwnIP + "/24]\n" +
			"    gateway4: 10.77.0.2\nbridges: {br0: {interfaces: [id0]}}\n",
	}
	iso := documents(t, told)
	machine := func(name string, more ...vm.Disk) vm.Config {
		c := stranger(name, mac, dnsIP, "", append([]vm.Disk{bootDisk(overlay(t)), {Path: iso, CDROM: true}}, more...)...)
		c.NICs[0].Forwards = forwards(dnsOwnIP)
		// As libvirt writes it: <sysinfo type="smbios">, <entry name="serial">.
		c.SMBIOS.Serial = "ds=nocloud;h=another;i=i-77;s=http://10.77.0.2/"
		return c
	}

	g := boot(t, machine("told"))
	s := g.running()
	requireMatched(t, s, "dns-01", "nocloud", "dns-01")
	require.Equal(t, []string{"dns-server"}, s.Roles)
	require.Equal(t, []string{dnsOwnIP}, s.Addresses, "no DHCP server was asked")
	require.Equal(t, []string{"the volume /dev/sr0 (iso9660)", "the serial number of SMBIOS"}, s.NoCloud.From)
	require.Equal(t, []string{"network-config: bridges", "serial number: s", "user-data: packages", "user-data: runcmd"}, s.NoCloud.NotTaken)
	require.Empty(t, s.NoCloud.Problem)
	checkDNS(t, g, dnsOwnIP)
	g.off()

	other := onFAT(t, 1<<20, map[string]string{"user-data": bomb() + "spore: {node: mqtt-01}\n"})
	g = boot(t, machine("disputed", vm.Disk{Path: other}))
	s = g.await("a status line that says what is wrong", func(s vm.Status) bool { return s.Problem != "" })
	require.Empty(t, s.Node, s.Raw)
	require.Empty(t, s.Roles, s.Raw)
	require.Contains(t, s.Problem, "the volume /dev/sr0 (iso9660) and the volume /dev/vdb (vfat) disagree about the node, so nothing of them was taken")
	require.Contains(t, s.Problem, "let all volumes with the label CIDATA, serial number and credentials say the same")
	g.off()
}
