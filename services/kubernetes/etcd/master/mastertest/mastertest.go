// Package mastertest makes masters for tests.
package mastertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/paths"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/master"
)

// New is a node of a cluster with Kubernetes: two masters and a worker. node is its name; "" is a machine that is none.
func New(t *testing.T, node string) *master.Machine {
	t.Helper()
	m := master.New(paths.Root(t.TempDir()))
	m.Say = func(s string) { t.Log(s) }
	c := &cluster.Config{
		Cluster: spec.Cluster{
			Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example", Services: []string{"kubernetes"},
			Network: spec.Network{NodeSubnets: []string{"10.77.0.0/24"}, PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"}},
			Nodes: []spec.Node{
				{Name: "master-1", MACs: []string{"52:54:00:77:00:01"}, IPs: []string{"10.77.0.1"}, Roles: []string{"control-plane"}},
				{Name: "master-2", MACs: []string{"52:54:00:77:00:02"}, IPs: []string{"10.77.0.2"}, Roles: []string{"control-plane"}},
				{Name: "worker-1", MACs: []string{"52:54:00:77:00:03"}, IPs: []string{"10.77.0.3"}, Roles: []string{"worker"}},
			},
		},
		Services: spec.Services{&kubernetes.Settings{}},
	}
	files, err := cluster.Compile(c)
	require.NoError(t, err)
	place := func(path string, data []byte) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	for name, data := range files {
		place(filepath.Join(m.Root.At(bootinfo.ClusterDir), name), data)
	}
	id, err := json.Marshal(map[string]string{"node": node})
	require.NoError(t, err)
	place(m.Root.At(paths.Identity), id)
	return m
}
