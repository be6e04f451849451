package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/atomicfile"
	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/etcd/origin"
	"spore/agent/formation"
	"spore/agent/paths"
	"spore/cluster"
	"spore/cluster/identity"
	"spore/cluster/spec"
)

// mastersOf is a master of a cluster with these masters, whose addresses count up from 10.77.0.1. It is the first of them.
func mastersOf(t *testing.T, root paths.Root, names ...string) *machine {
	t.Helper()
	config := &cluster.Config{
		Cluster: spec.Cluster{
			Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example", Services: []string{"kubernetes"},
			Network: spec.Network{NodeSubnets: []string{"10.77.0.0/24"}, PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"}},
		},
		Services: spec.Services{&spec.Kubernetes{}},
	}
	for i, name := range names {
		config.Cluster.Nodes = append(config.Cluster.Nodes, spec.Node{Name: name, IPs: []string{"10.77.0." + string(rune('1'+i))}, Roles: []string{"control-plane"}})
	}
	files, err := cluster.Compile(config)
	require.NoError(t, err)
	m := newMachine(root)
	m.say = func(s string) { t.Log(s) }
	for name, data := range files {
		_, err := atomicfile.Write(filepath.Join(root.At(bootinfo.ClusterDir), name), data, 0o644)
		require.NoError(t, err)
	}
	require.NoError(t, atomicfile.WriteJSON(root.At(paths.Identity), detect.Identity{Result: identity.Result{Node: names[0], By: "mac", Phase: 1}}))
	return m
}

// unit runs the command as etcd.service does, and tells whether the others may be there.
func unit(t *testing.T, m *machine) (several bool) {
	t.Helper()
	runtime, state := filepath.Join(t.TempDir(), "etcd"), m.root.At(origin.Home)
	require.NoError(t, os.MkdirAll(runtime, 0o755))
	require.NoError(t, os.MkdirAll(state, 0o700))
	t.Setenv("RUNTIME_DIRECTORY", runtime)
	t.Setenv("STATE_DIRECTORY", state)
	require.NoError(t, dispatch(t.Context(), m, []string{"spore-agent", "etcd-member"}))
	_, err := os.Stat(filepath.Join(runtime, etcdSeveral))
	return err == nil
}

// started does what etcd does at its first start: a log with an entry (see package origin).
func started(t *testing.T, dir origin.Dir) {
	t.Helper()
	wal := filepath.Join(string(dir), "wal")
	require.NoError(t, os.MkdirAll(wal, 0o700))
	entry := append([]byte{4, 0, 0, 0, 0, 0, 0, 0x84}, 0x08, 2, 0x10, 7, 0, 0, 0, 0)
	require.NoError(t, os.WriteFile(filepath.Join(wal, "0000000000000000-0000000000000000.wal"), entry, 0o600))
}

func TestALonelyMasterFormsAtOnceAndNeedsNoOther(t *testing.T) {
	m := mastersOf(t, paths.Root(t.TempDir()), "master-1")
	dir := origin.Dir(m.root.At(origin.Data))
	require.False(t, unit(t, m))
	first, err := dir.Read()
	require.NoError(t, err)
	require.Equal(t, formation.Form, first.Kind)
	require.True(t, first.Alone)
	require.Equal(t, "master-1=https://10.77.0.1:2380", first.InitialCluster())

	// A power cut before etcd has written anything, and others after that.
	require.False(t, unit(t, m))
	again, err := dir.Read()
	require.NoError(t, err)
	require.Equal(t, first, again, "it begins the same")
	started(t, dir)
	for range 2 {
		require.False(t, unit(t, m))
	}
	again, err = dir.Read()
	require.NoError(t, err)
	require.True(t, again.Ran)
	require.Equal(t, first.Token, again.Token)
}

func TestDataOfAnOlderReleaseJustRuns(t *testing.T) {
	m := mastersOf(t, paths.Root(t.TempDir()), "master-1")
	dir := origin.Dir(m.root.At(origin.Data))
	started(t, dir)
	require.True(t, unit(t, m), "nobody knows whether there were other members")
	require.DirExists(t, filepath.Join(string(dir), "wal"))
	o, err := dir.Read()
	require.NoError(t, err)
	require.Nil(t, o)
	file, err := formation.Read(m.root.At(paths.Formation), "etcd")
	require.NoError(t, err)
	require.True(t, file.Made)
}

func TestAMasterThatGetsCompanyIsNotAloneAnyMore(t *testing.T) {
	root := paths.Root(t.TempDir())
	m := mastersOf(t, root, "master-1")
	require.False(t, unit(t, m))
	started(t, origin.Dir(m.root.At(origin.Data)))
	require.True(t, unit(t, mastersOf(t, root, "master-1", "master-2")))
	// And is never again taken for one that was: the other may be a member still.
	require.NoError(t, os.Remove(m.root.At(etcdTried)))
	require.True(t, unit(t, mastersOf(t, root, "master-1")))
}

func TestALonelyMasterThatLostItsDataWaits(t *testing.T) {
	m := mastersOf(t, paths.Root(t.TempDir()), "master-1")
	dir := origin.Dir(m.root.At(origin.Data))
	require.False(t, unit(t, m))
	started(t, dir)
	require.False(t, unit(t, m))
	require.NoError(t, os.RemoveAll(string(dir)))
	empty, err := dir.Settle()
	require.NoError(t, err)
	require.True(t, empty)
	// What it begins is to join others, which it waits for as spore-etcd, and never to form.
	c, n, err := m.quorumMember()
	require.NoError(t, err)
	o, err := m.enterEtcd(t.Context(), c, n, []string{"master-1"}, dir)
	require.NoError(t, err)
	require.Equal(t, formation.Join, o.Kind)
	require.False(t, o.Ran)
}
