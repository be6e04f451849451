//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/clusterpart"
	"spore/builder/image"
	"spore/builder/vm"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/pki"
	"spore/test/client"
)

// A cluster that was off for longer than its certificates last: the node that holds the authorities' keys makes its own
// again. edge-01 is a control plane besides what it is, for which an image has no programs yet; so the test gives a
// built image another cluster part. That one knows the machine by its UUID and not by its card.
func TestACertificateThatRanOutIsMadeAgainAtBoot(t *testing.T) {
	inTurn(t)
	const later = 400 * 24 * time.Hour
	p, disk := masterDisk(t)
	now := time.Now().Add(later).UTC()
	c := edge("reissue", bootDisk(disk))
	c.SMBIOS, c.RTC = delivering("edge-01", p.bundle(t, "edge-01")), now.Format("2006-01-02T15:04:05")
	g := boot(t, c)
	g.awaitLine(`spore-agent: certificate mqtt-server/edge-01: renewed: it ended`)
	s := g.settled()
	t.Run("its UUID makes it the node", func(t *testing.T) {
		requireMatched(t, s, "edge-01", "uuid", machineUUID("edge-01"))
	})
	require.Contains(t, s.Roles, "mqtt-broker", s.Raw)
	require.Empty(t, s.Bundle.Problem)

	dial := func(at time.Time) error {
		addr, err := g.Address("tcp", edgeIP+":8883")
		require.NoError(t, err)
		c, err := client.DialMQTT(client.MQTTOptions{
			Address: addr, ServerName: "edge-01." + p.cluster.Domain, Roots: p.authority(t, "mqtt"),
			ID: "later", User: "sensor", Password: passwords["sensor"], Time: func() time.Time { return at },
		})
		if err == nil {
			c.Close()
		}
		return err
	}
	require.NoError(t, dial(now))
	require.ErrorContains(t, dial(time.Now()), "not yet valid", "it is a new one")
}

// masterDisk is a disk on which edge-01 is a control plane too, and the keys that its cluster part has.
func masterDisk(t *testing.T) (*plant, string) {
	t.Helper()
	p, err := makeKeys("examples/edge", t.TempDir(), given())
	require.NoError(t, err)
	config, report := cluster.LoadDir(filepath.Join(sourceTree, "examples", "edge"))
	require.NoError(t, report.Err())
	i := slices.IndexFunc(config.Cluster.Nodes, func(n spec.Node) bool { return n.Name == "edge-01" })
	config.Cluster.Nodes[i].Roles = append(config.Cluster.Nodes[i].Roles, "control-plane")
	config.Cluster.Nodes[i].MACs, config.Cluster.Nodes[i].UUID = nil, machineUUID("edge-01")
	config.Cluster.Network.NTPServers = nil // The host is one while TestMetal runs.
	p.cluster, p.nodes = cluster.Facts(config)
	_, err = p.keys.Update(&p.cluster, p.nodes, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	config.Public = cluster.Public{SigningKeys: signingKeys(t, p), Files: p.keys.Public().Files()}
	p.cluster, p.nodes = cluster.Facts(config)
	return p, withClusterPart(t, config)
}

// withClusterPart is a copy of the image with another cluster part, whose hash takes the place of the old one's in the
// UKI.
func withClusterPart(t *testing.T, config *cluster.Config) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "cluster"))
	require.NoError(t, err)
	defer file.Close()
	part, err := clusterpart.Write(file, config, time.Now().Unix())
	require.NoError(t, err)
	content, err := os.ReadFile(file.Name())
	require.NoError(t, err)

	disk := rawCopy(t)
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	old, err := image.Inspect(f, info.Size())
	require.NoError(t, err)
	slot, err := vm.FindPartition(disk, "cluster-a")
	require.NoError(t, err)
	require.LessOrEqual(t, int64(len(content)), slot.Size)
	_, err = f.WriteAt(content, slot.Start)
	require.NoError(t, err)

	esp, err := vm.FindPartition(disk, "esp")
	require.NoError(t, err)
	boot := make([]byte, esp.Size)
	_, err = f.ReadAt(boot, esp.Start)
	require.NoError(t, err)
	at := bytes.Index(boot, []byte("spore.clusterhash="+old.ClusterHash))
	require.Positive(t, at)
	_, err = f.WriteAt([]byte("spore.clusterhash="+part.RootHash), esp.Start+int64(at))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	uuid, _ := image.HashUUIDs(part.RootHash)
	run(t, "sgdisk", "-e", "-u", "4:"+strings.ToUpper(uuid), disk)
	return disk
}
