//go:build e2e

package e2e

import (
	"context"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

const (
	network = "10.77.0.0/24"
	edgeMAC = "52:54:00:77:00:0b"
	edgeIP  = "10.77.0.11"
	mqttIP  = "10.77.0.12"
	// dnsIP is what DHCP gives to dns-01, dnsOwnIP what cluster.yaml does.
	dnsIP    = "10.77.0.50"
	dnsOwnIP = "10.77.0.13"
	// foreignMAC begins those that are in no file.
	foreignMAC = "52:54:00:99:00:0"
	// testSerial is the serial number of each machine that is given a bundle.
	testSerial = "SPORE-TEST"
)

// guest is a machine under test.
type guest struct {
	*vm.Machine
	t    *testing.T
	mark int
	// release lets another machine run; it may be called again.
	release func()
}

// boot starts a machine; it is ended with the test at the latest.
func boot(t *testing.T, c vm.Config) *guest {
	t.Helper()
	return start(t, c, takeSlots(t, 1))
}

// start starts a machine whose turn it is; release lets another one run.
func start(t *testing.T, c vm.Config, release func()) *guest {
	t.Helper()
	c.Accel = suite.accel
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Firmware == vm.UEFI && c.Vars == "" {
		c.Vars = suite.vars
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := vm.Start(ctx, c)
	if err != nil {
		release()
		t.Fatal(err)
	}
	g := &guest{Machine: m, t: t, release: release}
	t.Cleanup(func() {
		m.Kill()
		release()
		recordCost(t.Name(), m)
		keepConsole(t, c.Name, m.Console)
		if t.Failed() {
			t.Logf("console of %s ends with:\n%s", c.Name, m.Console.Tail())
		}
	})
	return g
}

// keepConsole writes the console, each line with its wall and CPU seconds, to the folder SPORE_RESULTS, if that is set.
func keepConsole(t *testing.T, machine string, c *vm.Console) {
	t.Helper()
	var b strings.Builder
	for _, l := range c.Lines(0) {
		fmt.Fprintf(&b, "%7.2f %7.2f  %s\n", l.Wall.Seconds(), l.CPU.Seconds(), l.Text)
	}
	writeResult(strings.ReplaceAll(t.Name(), "/", "_")+"."+machine+".console", b.String())
}

// off cuts the machine's power; its disk files are whole.
func (g *guest) off() {
	g.t.Helper()
	require.NoError(g.t, g.Quit())
	g.release()
}

// await waits for the next status line that ok accepts.
func (g *guest) await(what string, ok func(vm.Status) bool) vm.Status {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	s, line, mark, err := g.Console.AwaitStatus(ctx, g.mark, what, ok)
	require.NoError(g.t, err)
	g.record(s, line)
	g.mark = mark
	return s
}

// settled waits until the machine has done all that it will do by itself.
func (g *guest) settled() vm.Status {
	g.t.Helper()
	return g.await("a status line of a settled system", func(s vm.Status) bool {
		return (s.System == "running" || s.System == "degraded") && s.Times["running"] > 0
	})
}

// running is settled with nothing that failed.
func (g *guest) running() vm.Status {
	g.t.Helper()
	s := g.settled()
	require.Equal(g.t, "running", s.System, s.Raw)
	require.Empty(g.t, s.Failed, s.Raw)
	return s
}

// requireMatched makes sure that the machine is a node by this evidence of phase one and by no other.
func requireMatched(t *testing.T, s vm.Status, node, by, value string) {
	t.Helper()
	require.Equal(t, node, s.Node, s.Raw)
	require.Equal(t, by, s.Matched.By, s.Raw)
	require.Equal(t, value, s.Matched.Value, s.Raw)
	require.Equal(t, 1, s.Matched.Phase, s.Raw)
}

// awaitLine waits for a line of the console.
func (g *guest) awaitLine(pattern string) vm.Line {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	line, mark, err := g.Console.AwaitMatch(ctx, g.mark, regexp.MustCompile(pattern))
	require.NoError(g.t, err)
	g.mark = mark
	return line
}

// record keeps the times of a boot that reached the state running.
func (g *guest) record(s vm.Status, line vm.Line) {
	if s.Times["running"] == 0 || g.mark != 0 {
		return
	}
	b := bootTimes{name: g.t.Name(), phases: map[string]vm.Line{"running": line}, status: s}
	for _, p := range phases {
		if p.pattern == "" {
			continue
		}
		if l, ok := g.Console.Find(0, regexp.MustCompile(p.pattern)); ok {
			b.phases[p.name] = l
		}
	}
	recordBoot(b)
}

// overlay is a disk over the image, which stays as it is.
func overlay(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, vm.Overlay(context.Background(), suite.image, path, diskSize))
	return path
}

// rawCopy is a disk whose bytes the test can look at and change.
func rawCopy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, vm.Copy(suite.image, path, diskSize))
	return path
}

// bootDisk is the disk that the machine is started from.
func bootDisk(path string) vm.Disk {
	d := vm.Disk{Path: path, Serial: "DISK0001", BootIndex: 1}
	if strings.HasSuffix(path, ".qcow2") {
		d.Format = "qcow2"
	}
	return d
}

// forwards lead to the ports of the services at a guest's address.
func forwards(ip string) []vm.Forward {
	return []vm.Forward{{Protocol: "tcp", Guest: ip + ":8883"}, {Protocol: "udp", Guest: ip + ":53"}, {Protocol: "tcp", Guest: ip + ":53"}}
}

// edge is the machine that is edge-01 by its MAC.
func edge(name string, disk vm.Disk) vm.Config {
	return vm.Config{Name: name, Disks: []vm.Disk{disk}, NICs: []vm.NIC{{MAC: edgeMAC, Net: network, DHCPStart: "10.77.0.60", Forwards: forwards(edgeIP)}}}
}

// stranger is a machine with a MAC that is in no file; DHCP gives it an address and, where not empty, a host name.
func stranger(name, mac, ip, hostname string, disks ...vm.Disk) vm.Config {
	return vm.Config{Name: name, Disks: disks, NICs: []vm.NIC{{MAC: foreignMAC + mac, Net: network, DHCPStart: ip, Hostname: hostname, Forwards: forwards(ip)}}}
}

// broker is what a test knows about the brokers' secrets. foreign is an authority of the cluster that signs for no
// broker.
type broker struct {
	roots, foreign *x509.CertPool
	passwords      map[string]string
	bundles        *bundles
}

// newBroker takes them from the keys of the suite's image.
func newBroker(t *testing.T) broker {
	t.Helper()
	return broker{suite.authority(t, "mqtt"), suite.authority(t, "agent"), passwords, &bundles{of: map[string][]byte{}}}
}

// bundles are those that a test has made, so that a machine that is started again gets the one that it had.
type bundles struct {
	mu sync.Mutex
	of map[string][]byte
}

// bundle is the secret bundle of a node, as an SMBIOS credential.
func (b broker) bundle(t *testing.T, node string) vm.SMBIOS {
	t.Helper()
	b.bundles.mu.Lock()
	defer b.bundles.mu.Unlock()
	if b.bundles.of[node] == nil {
		b.bundles.of[node] = suite.bundle(t, node)
	}
	return delivering(node, b.bundles.of[node])
}

// delivering is a machine whose firmware has a bundle for a node.
func delivering(node string, bundle []byte) vm.SMBIOS {
	credentials := map[string][]byte{"spore.bundle": bundle}
	return vm.SMBIOS{Serial: testSerial, UUID: machineUUID(node), Credentials: credentials}
}

// machineUUID is the product UUID of the machine that a test gives to a node.
func machineUUID(node string) string {
	uuids := map[string]string{
		"edge-01": "3a5b8f0e-0000-4000-8000-00000000000b",
		"mqtt-01": "3a5b8f0e-0000-4000-8000-00000000000c",
		"dns-01":  "3a5b8f0e-0000-4000-8000-00000000000d",
	}
	return uuids[node]
}

// nodes are those of cluster.yaml.
func nodeAddresses() map[string]string {
	out := map[string]string{}
	for _, n := range suite.nodes {
		for _, ip := range n.IPs {
			out[n.FQDN] = ip
		}
	}
	return out
}
