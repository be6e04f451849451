//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/pki/bundle"
)

const (
	largeMasters, largeWorkers = 3, 50
	// largeMaster is the one that is booted.
	largeMaster, largeMAC = "master-01", "52:54:00:77:01:01"
)

// TestTheLargestBundleArrives boots a master of a large cluster, which has every role that a master can have besides,
// up to where it has taken its bundle: roles come after that.
func TestTheLargestBundleArrives(t *testing.T) {
	inTurn(t)
	dir := t.TempDir()
	writeLargePlant(t, filepath.Join(dir, "plant"))
	p, err := buildPlant(filepath.Join(dir, "plant"), dir, nil, "disk")
	require.NoError(t, err)
	require.Len(t, p.nodes, largeMasters+largeWorkers)
	var data []byte
	for _, n := range p.nodes {
		if b := p.bundle(t, n.Name); len(b) > len(data) {
			data = b
			require.Contains(t, n.Name, "master-", "the largest bundle is that of a master")
		}
	}
	require.Greater(t, len(data), 48<<10, "it has more than fits into 64 KiB as Base64, or this test shows nothing")
	require.Less(t, 8*len(data), bundle.MaxSize, "no bound is near it")

	disk := filepath.Join(dir, "disk.qcow2")
	require.NoError(t, vm.Overlay(t.Context(), p.image, disk, diskSize))
	g := boot(t, vm.Config{
		Name: largeMaster, Memory: 2048, Disks: []vm.Disk{bootDisk(disk)}, SMBIOS: delivering(largeMaster, p.bundle(t, largeMaster)),
		NICs: []vm.NIC{{MAC: largeMAC, Net: network}},
	})
	s := g.await("a status line with the bundle", func(s vm.Status) bool { return s.Bundle.Serial > 0 })
	require.Equal(t, largeMaster, s.Node, s.Raw)
	require.Equal(t, "firmware", s.Bundle.From, s.Raw)
	require.Equal(t, "host", s.Bundle.Sealed, s.Raw)
	require.Empty(t, s.Held, s.Raw)
	g.off()
}

// writeLargePlant is the shipped configuration with as many masters and workers, and every service.
func writeLargePlant(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(sourceTree, "configs"))))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "nodes")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "nodes"), 0o755))
	path := filepath.Join(dir, "cluster.yaml")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	head, _, found := strings.Cut(string(data), "\nnodes:\n")
	require.True(t, found)
	var b strings.Builder
	b.WriteString(strings.Replace(head, "nodeSubnets:", "controlPlaneEndpoint: 10.77.0.200\n  nodeSubnets:", 1) + "\nnodes:\n")
	node := func(name, mac, ip, roles string) {
		fmt.Fprintf(&b, "  - {name: %s, macs: [%q], ips: [%s], roles: [%s]}\n", name, mac, ip, roles)
	}
	for i := 1; i <= largeMasters; i++ {
		name := fmt.Sprintf("master-%02d", i)
		// The first one has the address of the name server that the shipped records name.
		node(name, fmt.Sprintf("52:54:00:77:01:%02x", i), fmt.Sprintf("10.77.0.%d", 15+i),
			"control-plane, ceph-mon, ceph-osd, kafka-broker, mqtt-broker, dns-server")
		disk := fmt.Sprintf("node: %s\ndisks: [{use: osd, selector: {serial: OSD-%s}}]\n", name, name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "nodes", name+".yaml"), []byte(disk), 0o644))
	}
	for i := 1; i <= largeWorkers; i++ {
		node(fmt.Sprintf("worker-%02d", i), fmt.Sprintf("52:54:00:77:02:%02x", i), fmt.Sprintf("10.77.0.%d", 100+i), "worker")
	}
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	records := filepath.Join(dir, "services", "dns.yaml")
	data, err = os.ReadFile(records)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(records, []byte(strings.Replace(string(data), "cname: edge-01", "cname: master-01", 1)), 0o644))
}
