package machineid_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/stage1/machineid"
)

func TestTheBestSourceOfTheMachineIsChosen(t *testing.T) {
	const uuid = "4c4c4544-0042-3510-8052-b4c04f4a4e32"
	nics := []machineid.NIC{{MAC: "52:54:00:00:00:09"}, {MAC: "52:54:00:00:00:03"}, {MAC: "00:00:00:00:00:00"}, {MAC: "00:e0:4c:00:00:01", USB: true}, {MAC: ""}}
	for _, c := range []struct {
		name, from, text string
		hw               machineid.Hardware
	}{
		{"a real UUID", "DMI product UUID", uuid, machineid.Hardware{ProductUUID: strings.ToUpper(uuid) + "\n", NICs: nics}},
		{"zeros", "permanent MAC 52:54:00:00:00:03", "52:54:00:00:00:03", machineid.Hardware{ProductUUID: "00000000-0000-0000-0000-000000000000", NICs: nics}},
		{"ones", "permanent MAC 52:54:00:00:00:03", "52:54:00:00:00:03", machineid.Hardware{ProductUUID: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", NICs: nics}},
		{"AMI's placeholder", "permanent MAC 52:54:00:00:00:03", "52:54:00:00:00:03", machineid.Hardware{ProductUUID: "03000200-0400-0500-0006-000700080009", NICs: nics}},
		{"counted bytes", "permanent MAC 52:54:00:00:00:03", "52:54:00:00:00:03", machineid.Hardware{ProductUUID: "03020100-0504-0706-0809-0A0B0C0D0E0F", NICs: nics}},
		{"no UUID", "permanent MAC 52:54:00:00:00:03", "52:54:00:00:00:03", machineid.Hardware{NICs: nics}},
		{"no UUID but text", "permanent MAC 52:54:00:00:00:03", "52:54:00:00:00:03", machineid.Hardware{ProductUUID: "Not Settable", NICs: nics}},
		{"only a card on USB", "permanent MAC 00:e0:4c:00:00:01", "00:e0:4c:00:00:01", machineid.Hardware{NICs: nics[3:]}},
		{"no card", "DMI product serial", "J5B4R52", machineid.Hardware{ProductSerial: " J5B4R52 ", BoardSerial: "B1234"}},
		{"placeholder serial", "DMI board serial", "CN7016345", machineid.Hardware{ProductSerial: "To be filled by O.E.M.", BoardSerial: "CN7016345"}},
		{"only the disk", "serial number of the boot disk", "S4EWNX0R", machineid.Hardware{ProductSerial: "0", BoardSerial: "Default string", BootDisk: "S4EWNX0R"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := machineid.Choose(c.hw)
			require.True(t, ok)
			require.Equal(t, machineid.Source{From: c.from, Text: c.text}, got)
		})
	}
	_, ok := machineid.Choose(machineid.Hardware{ProductUUID: "ffffffff-ffff-ffff-ffff-ffffffffffff", ProductSerial: "System Serial Number", BoardSerial: "xxxx", BootDisk: "", NICs: nics[2:3]})
	require.False(t, ok, "a machine can have nothing of its own")
}

// openssl is the second opinion.
func TestTheIDIsTheHMACOfTheContract(t *testing.T) {
	const cluster, uuid = "0d9c8b7a-1111-4222-8333-444455556666", "4c4c4544-0042-3510-8052-b4c04f4a4e32"
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Fatal("openssl is missing: run make deps")
	}
	cmd := exec.Command("openssl", "dgst", "-sha256", "-hmac", cluster, "-r")
	cmd.Stdin = strings.NewReader("spore machine-id " + uuid)
	out, err := cmd.Output()
	require.NoError(t, err)
	got := machineid.Derive(cluster, machineid.Source{Text: strings.ToUpper(uuid)})
	require.Equal(t, string(out[:32]), got)
	require.NotEqual(t, got, machineid.Derive("another cluster", machineid.Source{Text: uuid}), "two clusters see two ids")
}
