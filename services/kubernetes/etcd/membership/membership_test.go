package membership

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/formation"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/master/mastertest"
	"spore/services/kubernetes/etcd/member"
	"spore/services/kubernetes/etcd/origin"
)

func TestAnEntrantKnowsTheOtherMasters(t *testing.T) {
	e, err := newEntrant(mastertest.New(t, "master-1"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"master-2": "https://10.77.0.2:2379"}, e.others)
	require.Equal(t, "https://10.77.0.1:2380", e.peer)
}

// testEntrant is master-1, which has no data and is to join the others.
func testEntrant(t *testing.T) *entrant {
	t.Helper()
	m := mastertest.New(t, "master-1")
	dir := origin.Dir(m.Root.At(origin.Data))
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

// etcd-members.service may not look into the data of etcd.
func TestWhoKeepsTheMembersNeedsNothingOfTheData(t *testing.T) {
	m := mastertest.New(t, "master-1")
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(origin.Data)), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At(origin.Data), nil, 0o600)) // what reads below it fails
	_, err := newEntrant(m)
	require.NoError(t, err)
}

func TestOnlyAMasterWithItsSecretsAsksEtcd(t *testing.T) {
	for name, tt := range map[string]struct{ node, want string }{
		"a machine that does not match any node": {"", "this machine does not match any node"},
		"a master without its bundle":            {"master-1", "secret etcd-agent-certificate of this node"},
		"a node that is not in the config":       {"master-9", "master-9"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, Show(t.Context(), mastertest.New(t, tt.node), io.Discard, false), tt.want)
		})
	}
}
