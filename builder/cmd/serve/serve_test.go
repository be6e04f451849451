package serve

import (
	"bytes"
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/netboot"
	"spore/builder/netboot/dhcp"
	"spore/builder/netboot/roster"
	"spore/pki/attest"
	"spore/pki/enroll"
)

func TestFlags(t *testing.T) {
	good := flags{dhcp: "full", http: 80, tftp: "69", addresses: "10.77.0.200-10.77.0.210", install: []string{"edge-01=S4EV=NF0"}}
	o, err := good.options("out")
	require.NoError(t, err)
	require.Equal(t, dhcp.Full, o.DHCP)
	require.Equal(t, "out/netboot", o.Dir)
	require.Equal(t, 69, o.TFTPPort)
	require.Equal(t, netip.MustParseAddr("10.77.0.210"), o.Last)
	require.Equal(t, map[string]string{"edge-01": "S4EV=NF0"}, o.Install)

	off, err := flags{dhcp: "off", http: 8080, tftp: "off"}.options("out")
	require.NoError(t, err)
	require.Empty(t, off.DHCP)
	require.Negative(t, off.TFTPPort)

	for _, tt := range []struct {
		flags flags
		want  string
	}{
		{flags{dhcp: "yes", tftp: "69"}, "--dhcp"},
		{flags{dhcp: "off", tftp: "69", http: 70000}, "--http-port"},
		{flags{dhcp: "off", tftp: "x"}, "--tftp-port"},
		{flags{dhcp: "full", tftp: "69", addresses: "10.0.0.1"}, "--range"},
		{flags{dhcp: "proxy", tftp: "69", addresses: "10.0.0.1-10.0.0.2"}, "goes with --dhcp full"},
		{flags{dhcp: "full", tftp: "69", install: []string{"edge-01"}}, "--install"},
		{flags{dhcp: "full", tftp: "69", install: []string{"edge-01=a b"}}, "--install"},
	} {
		_, err := tt.flags.options("out")
		require.ErrorContains(t, err, tt.want)
	}
}

func TestAFolderWithoutNetworkBoot(t *testing.T) {
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Command())
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"serve", t.TempDir()})
	require.Equal(t, exit.Failed, exit.Run(context.Background(), root))
	require.Contains(t, out.String(), "spore build --format netboot")
	root.SetArgs([]string{"serve", "--dhcp", "maybe"})
	require.Equal(t, exit.Misuse, exit.Run(context.Background(), root))
}

func TestTheListOfMachines(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	Print(&b, netboot.State{})
	require.Equal(t, "no machine has asked yet\n", b.String())
	b.Reset()
	s := netboot.State{
		Machines: []roster.Machine{
			{MACs: []string{"52:54:00:77:00:0b"}, Node: "edge-01", Address: "10.77.0.11", Last: at, Did: "iPXE"},
			{MACs: []string{"52:54:00:99:00:01", "52:54:00:99:00:02"}, Serial: "SN-0815", Last: at, Did: "UEFI PXE"},
		},
		Requests: []enroll.Request{{Fingerprint: "aaaa-bbbb-cccc-dddd-eeee", Claim: enroll.Claim{Node: "edge-01"}, Remote: "10.77.0.11", State: enroll.Waiting}, {
			Fingerprint: "ffff-bbbb-cccc-dddd-eeee", Claim: enroll.Claim{Node: "mqtt-01", TPM: &attest.Keys{EK: []byte("ek")}}, State: enroll.Waiting,
		}},
	}
	Print(&b, s)
	require.Equal(t, `NODE     ADDRESS     MACS                                 SERIAL   LAST HEARD  DID
edge-01  10.77.0.11  52:54:00:77:00:0b                    -        12:00:00    iPXE
UNKNOWN  -           52:54:00:99:00:01 52:54:00:99:00:02  SN-0815  12:00:00    UEFI PXE
52:54:00:99:00:01: add it to nodes in cluster.yaml, for example: {name: NAME, macs: ["52:54:00:99:00:01"], roles: [ROLE]}

FINGERPRINT               NODE     ADDRESS     STATE    TPM
aaaa-bbbb-cccc-dddd-eeee  edge-01  10.77.0.11  waiting  -
ffff-bbbb-cccc-dddd-eeee  mqtt-01  -           waiting  `+attest.Fingerprint([]byte("ek"))+`
`, b.String())
}
