//go:build e2e

package e2e

import (
	"context"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/client"
)

// Scenario 7: the cluster's keys as `spore pki` makes them. The image carries their public half, and takes no bundle that
// they have not signed.

// keyed is an image that was built with keys, and edge-01's bundle and what its clients need.
type keyed struct {
	image    string
	bundle   []byte
	password string
	roots    *x509.CertPool
}

func buildKeyed(t *testing.T) keyed {
	t.Helper()
	work := t.TempDir()
	plant := filepath.Join(work, "plant")
	require.NoError(t, os.CopyFS(plant, os.DirFS(filepath.Join(sourceTree, "configs"))))
	spore := func(args ...string) {
		t.Helper()
		cmd := exec.Command("go", append([]string{"run", "./builder"}, args...)...)
		cmd.Dir = sourceTree
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	spore("pki", "init", plant, "--plain")
	spore("build", plant, "-o", filepath.Join(work, "out"), "--source", ".")
	spore("pki", "bundle", plant, "--node", "edge-01", "-o", filepath.Join(work, "bundle"))
	spore("pki", "export", plant, "--name", "mqtt", "-o", filepath.Join(work, "export"))
	spore("pki", "export", plant, "--name", "mqtt-password-operator", "-o", filepath.Join(work, "export"))

	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(work, name))
		require.NoError(t, err)
		return data
	}
	k := keyed{image: filepath.Join(work, "out", "spore.img"), bundle: read("bundle"), password: string(read("export/mqtt-password-operator")), roots: x509.NewCertPool()}
	require.True(t, k.roots.AppendCertsFromPEM(read("export/mqtt.crt")))
	return k
}

// machine is edge-01 with a bundle.
func (k keyed) machine(t *testing.T, name string, bundle []byte) vm.Config {
	t.Helper()
	over := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, vm.Overlay(context.Background(), k.image, over, diskSize))
	c := edge(name, bootDisk(over))
	c.SMBIOS = vm.SMBIOS{Serial: "SPORE-TEST", UUID: machineUUID("edge-01"), Credentials: map[string][]byte{"spore.bundle": bundle}}
	return c
}

func TestAnImageWithKeysTakesOnlyWhatTheySigned(t *testing.T) {
	t.Parallel()
	k := buildKeyed(t)

	t.Run("the signed bundle lets MQTT serve", func(t *testing.T) {
		t.Parallel()
		g := boot(t, k.machine(t, "keys", k.bundle))
		s := g.running()
		require.Equal(t, []string{"dns-server", "mqtt-broker"}, s.Roles)
		require.Empty(t, s.Held)
		addr, err := g.Address("tcp", edgeIP+":8883")
		require.NoError(t, err)
		c, err := client.DialMQTT(client.MQTTOptions{
			Address: addr, ServerName: "edge-01." + suite.config.Cluster.Domain, Roots: k.roots, ID: "keys", User: "operator", Password: k.password,
		})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Subscribe("commands/#"))
		require.NoError(t, c.Publish("commands/a", "1", false))
		m, err := c.Await("commands/a", time.Minute)
		require.NoError(t, err)
		require.Equal(t, "1", m.Payload)
	})
	t.Run("a bundle that was changed is refused", func(t *testing.T) {
		t.Parallel()
		changed := append([]byte(nil), k.bundle...)
		changed[len(changed)-20] ^= 1
		g := boot(t, k.machine(t, "keys-changed", changed))
		s := g.settled()
		require.Equal(t, []string{"dns-server"}, s.Roles)
		require.Len(t, s.Held, 1, s.Raw)
		require.Contains(t, s.Held[0].Reason, "not signed by this cluster")
		_, err := client.DialMQTT(client.MQTTOptions{Address: mustAddress(t, g, edgeIP+":8883"), ServerName: "edge-01", Roots: k.roots, ID: "keys", User: "operator", Password: k.password})
		require.Error(t, err, "nothing listens")
	})
}

func mustAddress(t *testing.T, g *guest, guestEnd string) string {
	t.Helper()
	addr, err := g.Address("tcp", guestEnd)
	require.NoError(t, err)
	return addr
}
