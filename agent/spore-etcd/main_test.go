package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/etcd/client"
	"spore/agent/etcd/member"
	"spore/agent/etcd/origin"
	"spore/agent/formation"
	"spore/agent/paths"
	"spore/cluster"
	"spore/cluster/spec"
)

// testMachine is a node of a cluster with Kubernetes: two masters and a worker. node is its name; "" is a machine that is none.
func testMachine(t *testing.T, node string) *machine {
	t.Helper()
	m := newMachine(paths.Root(t.TempDir()))
	m.say = func(s string) { t.Log(s) }
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
		Services: spec.Services{&spec.Kubernetes{}},
	}
	files, err := cluster.Compile(c)
	require.NoError(t, err)
	place := func(path string, data []byte) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	for name, data := range files {
		place(filepath.Join(m.root.At(bootinfo.ClusterDir), name), data)
	}
	id, err := json.Marshal(map[string]string{"node": node})
	require.NoError(t, err)
	place(m.root.At(paths.Identity), id)
	return m
}

func TestCommandsRefuseWhatTheyDoNotKnow(t *testing.T) {
	m := testMachine(t, "master-1")
	var wrong usageError
	for _, args := range [][]string{{"spore-etcd"}, {"spore-etcd", "frobnicate"}, {"spore-etcd", "bootstrap"}, {"spore-etcd", "bootstrap", "--lose", "a"}, {"spore-etcd", "enter", "x"}, {"spore-etcd", "show", "--yaml"}} {
		require.ErrorAs(t, dispatch(t.Context(), m, args), &wrong, "%v", args)
	}
	require.NoError(t, dispatch(t.Context(), m, []string{"spore-etcd", "help"}))
	require.Contains(t, usage(), "Example: spore-agent etcd show")
}

func TestOnlyAMasterWithItsSecretsAsksEtcd(t *testing.T) {
	for name, tt := range map[string]struct{ node, want string }{
		"a machine that is no node":        {"", "this machine is no node"},
		"a master without its bundle":      {"master-1", "secret etcd-agent-certificate of this node"},
		"a node that is not in the config": {"master-9", "master-9"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, dispatch(t.Context(), testMachine(t, tt.node), []string{"spore-etcd", "show"}), tt.want)
		})
	}
}

func TestAnEntrantKnowsTheOtherMasters(t *testing.T) {
	e, err := newEntrant(testMachine(t, "master-1"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"master-2": "https://10.77.0.2:2379"}, e.others)
	require.Equal(t, "https://10.77.0.1:2380", e.peer)
}

// testEntrant is master-1, which has no data and is to join the others.
func testEntrant(t *testing.T) *entrant {
	t.Helper()
	m := testMachine(t, "master-1")
	dir := origin.Dir(m.root.At(origin.Data))
	require.NoError(t, os.MkdirAll(filepath.Dir(string(dir)), 0o755))
	require.NoError(t, dir.Make(origin.Origin{Kind: formation.Join, Nonce: "n"}, os.Getuid(), os.Getgid()))
	e, err := newEntrant(m)
	require.NoError(t, err)
	e.origin, err = e.dir.Read()
	require.NoError(t, err)
	return e
}

func TestWhoIsLetInIsNotedBesideTheOthers(t *testing.T) {
	e := testEntrant(t)
	require.NoError(t, e.note(7, client.Cluster{Members: []member.Member{
		{ID: 3, Name: "master-2", Peers: []string{"https://10.77.0.2:2380"}}, {ID: 7, Peers: []string{"https://10.77.0.1:2380"}}, {ID: 0x1f, Peers: []string{"https://10.77.0.4:2380"}},
	}}))
	o, err := e.dir.Read()
	require.NoError(t, err)
	require.Equal(t, uint64(7), o.ID)
	require.Equal(t, "000000000000001f=https://10.77.0.4:2380,master-1=https://10.77.0.1:2380,master-2=https://10.77.0.2:2380", o.InitialCluster())
}

func TestAWaitIsSaidOnceAndGoneAtItsEnd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root writes the status line")
	}
	m := testMachine(t, "master-1")
	var said []string
	m.say = func(s string) { said = append(said, s) }
	file := filepath.Join(m.root.At(paths.Waiting), "etcd")
	m.waits("etcd", "waiting for master-2")
	m.waits("etcd", "waiting for master-2")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "waiting for master-2", string(data))
	require.Equal(t, []string{"waiting for master-2"}, said)
	m.waits("etcd", "")
	require.NoFileExists(t, file)
}

// etcd-members.service may not look into the data of etcd.
func TestWhoKeepsTheMembersNeedsNothingOfTheData(t *testing.T) {
	m := testMachine(t, "master-1")
	require.NoError(t, os.MkdirAll(filepath.Dir(m.root.At(origin.Data)), 0o755))
	require.NoError(t, os.WriteFile(m.root.At(origin.Data), nil, 0o600)) // what reads below it fails
	_, err := newEntrant(m)
	require.NoError(t, err)
}
