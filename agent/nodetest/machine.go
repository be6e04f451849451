// Package nodetest makes machines for tests: a root in a temporary folder with the cluster part of a cluster.
package nodetest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/pki"
	"spore/services/dns"
	"spore/services/mqtt"
	"spore/storage/atomicfile"
)

// New is a machine that has the cluster part of a cluster with n nodes under a temporary root.
func New(t testing.TB, n int) (*node.Machine, *string) {
	root := paths.Root(t.TempDir())
	m := node.New("spore-agent", root)
	host := new(string)
	m.SetHostname = func(name string) error { *host = name; return nil }
	m.Say = func(s string) { t.Log(s) }
	m.Group = func(string) (int, error) { return os.Getgid(), nil }
	c := &cluster.Config{
		Cluster: spec.Cluster{
			Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example",
			Network:  spec.Network{NodeSubnets: []string{"10.64.0.0/10"}, Nameservers: []string{"10.64.0.3"}},
			Services: []string{"mqtt", "dns"},
		},
		Services: spec.Services{
			&mqtt.Settings{TLS: mqtt.TLS{Certificate: spec.SecretRef{SecretRef: "tls-cert"}, Key: spec.SecretRef{SecretRef: "tls-key"}}},
			&dns.Settings{},
		},
	}
	for i := range n {
		c.Cluster.Nodes = append(c.Cluster.Nodes, spec.Node{
			Name: fmt.Sprintf("node-%05d", i), MACs: []string{MAC(i)}, IPs: []string{fmt.Sprintf("10.64.%d.%d", 1+i/250, 1+i%250)},
			Serial: fmt.Sprintf("SN-%d", i), Roles: []string{"mqtt-broker", "dns-server"},
		})
	}
	files, err := cluster.Compile(c)
	require.NoError(t, err)
	for name, data := range files {
		path := filepath.Join(root.At(bootinfo.ClusterDir), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	return m, host
}

// MAC is the address of the card of a node of New.
func MAC(i int) string { return fmt.Sprintf("52:54:00:%02x:%02x:01", i>>8, i&255) }

// Is has the machine be a node; "" is one that no node matches.
func Is(t testing.TB, m *node.Machine, name string) {
	t.Helper()
	id := detect.Identity{}
	if name != "" {
		id.Result = identity.Result{Node: name, By: "mac", Phase: 1}
	}
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Identity), id))
}

// KeepsState gives the machine a state partition, and a systemd-creds that only dresses up what it is given.
func KeepsState(t *testing.T, m *node.Machine) {
	t.Helper()
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), state.Info{Kind: state.Partition}))
	bin := t.TempDir()
	script := `#!/bin/sh
case $1 in
encrypt) { printf '\132\034\152\206\337\235\100\226\261\325\246\136\010\142\361\232'; cat; } | base64 ;;
decrypt) base64 -d | tail -c +17 ;;
*) exit 1 ;;
esac
`
	require.NoError(t, os.WriteFile(filepath.Join(bin, "systemd-creds"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(paths.HostKey)), 0o755))
	key, err := hex.DecodeString("89f70f6d90b84795b60b94afac71e928")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(m.Root.At(paths.HostKey), key, 0o400))
	require.NoError(t, os.MkdirAll(m.Root.At("/etc"), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At("/etc/machine-id"), []byte("3d1219c7c4c5404aaa1f6d2a48adfda4\n"), 0o444))
}

// WithKeys gives the machine's image the public half of new keys.
func WithKeys(t *testing.T, m *node.Machine) *pki.Tree {
	t.Helper()
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	var nodes []facts.Node
	for _, name := range c.Members["mqtt-broker"] {
		n, err := m.Part.Node(name)
		require.NoError(t, err)
		nodes = append(nodes, *n)
	}
	tree := pki.New(c)
	_, err = tree.Update(c, nodes, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	for name, data := range tree.Public().Files() {
		path := filepath.Join(m.Part.Dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	keys, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	for _, k := range keys {
		c.SigningKeys = append(c.SigningKeys, base64.StdEncoding.EncodeToString(k))
	}
	require.NoError(t, atomicfile.WriteJSON(filepath.Join(m.Part.Dir, facts.ClusterFile), c))
	return tree
}
