package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/clusterpart"
	"spore/builder/cmd/exit"
	"spore/builder/netboot"
	"spore/builder/netboot/apart"
	"spore/builder/netboot/dhcp"
	"spore/builder/netboot/roster"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki/attest"
	"spore/pki/enroll"
)

func TestAnAnswerFileIsAnOrderToInstall(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.yaml")
	put := func(text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	nodes := &roster.Nodes{All: []*facts.Node{{Name: "edge-01"}}}
	read := func(o *netboot.Options, names ...string) (string, error) {
		var said bytes.Buffer
		err := flags{answers: names}.readAnswers(&said, nodes, o)
		return said.String(), err
	}
	const text = "node: edge-01\ndisk: {byID: ata-Fast_7}\n"
	put(text)
	o := netboot.Options{Install: map[string]string{}}
	_, err := read(&o, name)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"edge-01": "id:ata-Fast_7"}, o.Install)
	require.Equal(t, map[string]string{"edge-01": text}, o.Answers)
	_, err = read(&o, name)
	require.ErrorContains(t, err, "edge-01 is to install itself twice")

	put("node: edge-02\ndisk: {byID: ata-Fast_7}\n")
	said, err := read(&netboot.Options{Install: map[string]string{}}, name)
	require.ErrorContains(t, err, "does not fit the image that is served")
	require.Contains(t, said, `cluster.yaml has no node "edge-02"; did you mean "edge-01"?`)
	_, err = read(&o, name+".none")
	require.ErrorContains(t, err, "read the answer file")
}

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

// TestMain is the server's own process as well: the program that is started again is that of the test.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != apart.Command {
		os.Exit(m.Run())
	}
	if err := apart.Run(os.Args[2:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// said is what the terminal shows.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestWhatIsTypedIsDoneByTheServer(t *testing.T) {
	config, report := cluster.LoadDir("../../../examples/edge")
	require.NoError(t, report.Err())
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.MkdirAll(filepath.Join(out, "netboot"), 0o755))
	f, err := os.Create(filepath.Join(out, "netboot", "cluster.squashfs"))
	require.NoError(t, err)
	_, err = clusterpart.Write(f, config, 1_700_000_000)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.WriteFile(filepath.Join(out, "netboot", "cmdline"), []byte("ro"), 0o644))

	ctx, cancel := context.WithCancel(t.Context())
	var shown said
	keys, typed := io.Pipe()
	done := make(chan error)
	go func() {
		done <- run(ctx, &shown, keys, out, flags{card: "127.0.0.1", dhcp: "off", tftp: "off"})
	}()
	defer typed.Close()
	answers := func(words, want string) {
		t.Helper()
		_, err := io.WriteString(typed, words+"\n")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return strings.Contains(shown.String(), want) }, 10*time.Second, 5*time.Millisecond, "%q: %s", words, &shown)
	}
	answers("list", "no machine has asked yet")
	require.Contains(t, shown.String(), "cluster plant, 3 nodes, at http://127.0.0.1:")
	answers("approve aaaa-bbbb-cccc-dddd-eeee", `"aaaa-bbbb-cccc-dddd-eeee": no machine has sent this fingerprint`)
	answers("approve aaaa --tpm x --trust-this-network", "leave one of them out")
	answers("approve aaaa --nonsense", "unknown flag: --nonsense")
	answers("approve --trust-this-network", "approve takes one fingerprint")
	answers("deny ffff", `"ffff": no machine has sent this fingerprint`)
	answers("what", "give keys of authorities to a machine without proof")
	cancel()
	require.NoError(t, <-done)
	require.NoFileExists(t, filepath.Join(out, "serve.sock"))
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
			Fingerprint: "ffff-bbbb-cccc-dddd-eeee", Claim: enroll.Claim{Node: "mqtt-01", TPM: &attest.Keys{EK: []byte("ek")}}, State: enroll.Waiting, Holder: "iiii-bbbb-cccc-dddd-eeee",
		}, {
			Fingerprint: "gggg-bbbb-cccc-dddd-eeee", Claim: enroll.Claim{Node: "edge-01"}, Remote: "10.77.0.70", State: enroll.Given, Holder: "aaaa-bbbb-cccc-dddd-eeee", Since: at,
		}, {
			Fingerprint: "hhhh-bbbb-cccc-dddd-eeee", Claim: enroll.Claim{Node: "edge-01"}, State: enroll.Denied, Delivered: true,
		}},
	}
	Print(&b, s)
	require.Equal(t, `NODE     ADDRESS     MACS                                 SERIAL   LAST HEARD  DID
edge-01  10.77.0.11  52:54:00:77:00:0b                    -        12:00:00    iPXE
UNKNOWN  -           52:54:00:99:00:01 52:54:00:99:00:02  SN-0815  12:00:00    UEFI PXE
52:54:00:99:00:01: add it to nodes in cluster.yaml, for example: {name: NAME, macs: ["52:54:00:99:00:01"], roles: [ROLE]}

FINGERPRINT               NODE     ADDRESS     STATE                   TPM
aaaa-bbbb-cccc-dddd-eeee  edge-01  10.77.0.11  waiting                 -
ffff-bbbb-cccc-dddd-eeee  mqtt-01  -           waiting                 `+attest.Fingerprint([]byte("ek"))+`
gggg-bbbb-cccc-dddd-eeee  edge-01  10.77.0.70  needs --replace         -
hhhh-bbbb-cccc-dddd-eeee  edge-01  -           denied, has its bundle  -
ffff-bbbb-cccc-dddd-eeee: It says that it is the machine that mqtt-01 has been given to (fingerprint iiii-bbbb-cccc-dddd-eeee), and has another key: that is so after a start of a machine that keeps nothing
gggg-bbbb-cccc-dddd-eeee: edge-01 has been given to another machine (fingerprint aaaa-bbbb-cccc-dddd-eeee, approved 2026-05-01 12:00 UTC)
`, b.String())
}

func TestARefusalSaysWhatTheMachineKeeps(t *testing.T) {
	require.Equal(t, "aaaa: refused", Refused(enroll.Request{Fingerprint: "aaaa"}))
	require.Equal(t, "aaaa: refused; it has got its bundle already, and keeps it", Refused(enroll.Request{Fingerprint: "aaaa", Delivered: true}))
}
