package roster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/clusterpart"
	"spore/cluster"
)

// plant is the cluster part of examples/edge.
func plant(t *testing.T) *Nodes {
	t.Helper()
	config, report := cluster.LoadDir("../../../examples/edge")
	require.NoError(t, report.Err())
	name := filepath.Join(t.TempDir(), "cluster.squashfs")
	f, err := os.Create(name)
	require.NoError(t, err)
	_, err = clusterpart.Write(f, config, 1_700_000_000)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	n, err := Read(name)
	require.NoError(t, err)
	return n
}

func TestTheNodesOfAnImage(t *testing.T) {
	n := plant(t)
	require.Equal(t, "plant", n.Cluster.Name)
	require.Len(t, n.All, 3)
	node, err := n.Node("edge-01")
	require.NoError(t, err)
	require.Equal(t, []string{"10.77.0.11"}, node.IPs)
	_, err = n.Node("edge-99")
	require.ErrorContains(t, err, `the image has no node "edge-99"; did you mean "edge-01"? Its nodes are dns-01, edge-01, mqtt-01`)
}

func TestAFileThatIsNoClusterPart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	_, err := Read(name)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(name, make([]byte, 8192), 0o600))
	_, err = Read(name)
	require.ErrorContains(t, err, "read the cluster part")
}

func TestWhoAMachineIs(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := New(plant(t), func() time.Time { return now })
	for _, tt := range []struct {
		name      string
		said      Machine
		node, why string
		problem   string
	}{
		{"by its card", Machine{MACs: []string{"52:54:00:77:00:0b"}}, "edge-01", "mac 52:54:00:77:00:0b", ""},
		{"by its address", Machine{MACs: []string{"52:54:00:99:00:01"}, Address: "10.77.0.12"}, "mqtt-01", "ip 10.77.0.12", ""},
		{"by its host name", Machine{MACs: []string{"52:54:00:99:00:02"}, Address: "10.77.0.50", Hostname: "dns-01"}, "dns-01", "hostname dns-01", ""},
		{"by nothing", Machine{MACs: []string{"52:54:00:99:00:03"}, Serial: "SN-0815", Address: "10.77.0.51"}, "", "", ""},
		{"two nodes at once", Machine{MACs: []string{"52:54:00:99:00:04"}, Address: "10.77.0.12", Hostname: "dns-01"}, "", "", "more than one node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, fresh := r.Seen(tt.said)
			require.True(t, fresh)
			require.Equal(t, tt.node, m.Node)
			require.Equal(t, tt.why, m.Why)
			if tt.problem == "" {
				require.Empty(t, m.Problem)
			} else {
				require.Contains(t, m.Problem, tt.problem)
			}
			_, fresh = r.Seen(tt.said)
			require.False(t, fresh, "the same again is nothing new")
		})
	}
}

func TestWhatAMachineSaysIsJoined(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := New(plant(t), func() time.Time { return now })
	m, _ := r.Seen(Machine{MACs: []string{"52:54:00:99:00:01"}, Did: "asked for an address"})
	require.Contains(t, m.Advice(), `macs: ["52:54:00:99:00:01"]`)
	now = now.Add(time.Minute)
	m, fresh := r.Seen(Machine{MACs: []string{"52:54:00:99:00:02", "52:54:00:99:00:01"}, Serial: "SN-0815"})
	require.False(t, fresh)
	require.Equal(t, []string{"52:54:00:99:00:01", "52:54:00:99:00:02"}, m.MACs)
	require.Equal(t, "asked for an address", m.Did)
	require.Equal(t, time.Minute, m.Last.Sub(m.First))
	require.Len(t, r.Machines(), 1)

	m, fresh = r.Seen(Machine{MACs: []string{"52:54:00:99:00:02"}, Address: "10.77.0.12"})
	require.True(t, fresh, "now it is known")
	require.Equal(t, "mqtt-01", m.Node)
	found, ok := r.ByAddress("10.77.0.12")
	require.True(t, ok)
	require.Equal(t, "mqtt-01", found.Node)
	_, ok = r.ByAddress("10.77.0.13")
	require.False(t, ok)
}

func TestMachinesThatWereSilentLongestAreForgotten(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := New(plant(t), func() time.Time { return now })
	for i := range maxMachines + 10 {
		now = now.Add(time.Second)
		r.Seen(Machine{MACs: []string{fmt.Sprintf("52:54:00:98:%02x:%02x", i/256, i%256)}})
	}
	list := r.Machines()
	require.Len(t, list, maxMachines)
	require.Equal(t, "52:54:00:98:00:0a", list[0].MACs[0])
}
