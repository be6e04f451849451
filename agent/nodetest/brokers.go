package nodetest

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/activate"
	"spore/agent/bootinfo"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/secrets"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services/kafka"
	"spore/storage/atomicfile"
)

// Brokers makes the machines of a cluster of Kafka with their bundles taken. They share the addresses of this machine.
func Brokers(t *testing.T, addresses ...string) map[string]*node.Machine {
	t.Helper()
	machines, _, _ := BrokersWithKeys(t, addresses...)
	return machines
}

// BrokersWithKeys is Brokers, with what the operator has.
func BrokersWithKeys(t *testing.T, addresses ...string) (map[string]*node.Machine, *facts.Cluster, *pki.Tree) {
	t.Helper()
	return BrokersOf(t, func(*cluster.Config) {}, addresses...)
}

// BrokersOf is BrokersWithKeys of a configuration that is changed before.
func BrokersOf(
	t *testing.T, change func(*cluster.Config), addresses ...string,
) (map[string]*node.Machine, *facts.Cluster, *pki.Tree) {
	t.Helper()
	config := &cluster.Config{
		Cluster:  spec.Cluster{Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example", Services: []string{"kafka"}},
		Services: spec.Services{&kafka.Settings{}},
	}
	names := []string{"kafka-1", "kafka-2", "kafka-3"}[:len(addresses)]
	for i, name := range names {
		config.Cluster.Nodes = append(config.Cluster.Nodes, spec.Node{Name: name, IPs: []string{addresses[i]}, Roles: []string{"kafka-broker"}})
	}
	change(config)
	c, nodes := cluster.Facts(config)
	tree := pki.New(&c)
	_, err := tree.Update(&c, nodes, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	return Installed(t, config, tree), &c, tree
}

// Installed makes the machines of a configuration with their bundles taken. tree has the keys of all of them.
func Installed(t *testing.T, config *cluster.Config, tree *pki.Tree) map[string]*node.Machine {
	t.Helper()
	c, nodes := cluster.Facts(config)
	signing, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	for _, key := range signing {
		config.Public.SigningKeys = append(config.Public.SigningKeys, base64.StdEncoding.EncodeToString(key))
	}
	files, err := cluster.Compile(config)
	require.NoError(t, err)
	for name, data := range tree.Public().Files() {
		files[name] = data
	}
	out := map[string]*node.Machine{}
	for i := range nodes {
		m := node.New("spore-agent", paths.Root(t.TempDir()))
		m.Say = func(s string) { t.Log(nodes[i].Name + ": " + s) }
		for name, data := range files {
			_, err := atomicfile.Write(filepath.Join(m.Root.At(bootinfo.ClusterDir), name), data, 0o644)
			require.NoError(t, err)
		}
		Is(t, m, nodes[i].Name)
		data, err := tree.BundleFor(&c, &nodes[i], time.Now())
		require.NoError(t, err)
		b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.ID, Node: nodes[i].Name, Keys: signing})
		require.NoError(t, err)
		_, err = secrets.Install(m.Root.At(paths.Secrets), b.Secrets, activate.Secrets(&c, &nodes[i]))
		require.NoError(t, err)
		out[nodes[i].Name] = m
	}
	return out
}
