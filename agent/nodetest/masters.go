package nodetest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	"spore/storage/atomicfile"
)

// Master is a master of a cluster with these masters, whose addresses count up from 10.77.0.1. It is the first of them.
func Master(t *testing.T, root paths.Root, names ...string) *node.Machine {
	t.Helper()
	config := &cluster.Config{
		Cluster: spec.Cluster{
			Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example", Services: []string{"kubernetes"},
			Network: spec.Network{NodeSubnets: []string{"10.77.0.0/24"}, PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"}},
		},
		Services: spec.Services{&kubernetes.Settings{}},
	}
	for i, name := range names {
		config.Cluster.Nodes = append(config.Cluster.Nodes, spec.Node{Name: name, IPs: []string{"10.77.0." + string(rune('1'+i))}, Roles: []string{"control-plane"}})
	}
	files, err := cluster.Compile(config)
	require.NoError(t, err)
	m := node.New("spore-agent", root)
	m.Say = func(s string) { t.Log(s) }
	for name, data := range files {
		_, err := atomicfile.Write(filepath.Join(root.At(bootinfo.ClusterDir), name), data, 0o644)
		require.NoError(t, err)
	}
	Is(t, m, names[0])
	return m
}
