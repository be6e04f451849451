package identity

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/activate"
	"spore/agent/detect"
	"spore/agent/environment"
	"spore/agent/nic"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/cluster/identity"
)

// become does what detect and run do for a machine with this MAC, up to the jobs for systemd.
func become(t testing.TB, m *node.Machine, macs ...string) (detect.Identity, []string, []activate.Held) {
	d := detect.Machine{
		Sys: os.DirFS(string(m.Root)), Match: m.Part.Match, Say: m.Say, Settled: func(context.Context) error { return nil },
		Cards: func() (cards []nic.Card, err error) {
			for i, a := range macs {
				cards = append(cards, nic.Card{Index: i + 2, MAC: a, Permanent: true})
			}
			return cards, nil
		},
	}
	id, err := detect.PhaseOne(context.Background(), d)
	require.NoError(t, err)
	require.NoError(t, Derive(m, id))
	_, c, n, err := m.Node()
	require.NoError(t, err)
	if n == nil {
		return id, nil, nil
	}
	require.NoError(t, environment.Write(m.Root.At(paths.Environment), c, n, node.Memory()))
	_, targets, held := activate.Plan(activate.Input{
		Cluster: c, Node: n, Identity: id, Have: activate.HaveIn(m.Root.At(paths.Secrets)), Unit: func(string) bool { return true },
	})
	return id, targets, held
}

func TestAMachineBecomesItsNode(t *testing.T) {
	m, host := nodetest.New(t, 3)
	id, targets, held := become(t, m, nodetest.MAC(1))
	require.Equal(t, identity.Result{Node: "node-00001", By: "mac", Value: nodetest.MAC(1), Phase: 1, Candidates: []identity.Candidate{{Node: "node-00001", By: "mac", Value: nodetest.MAC(1)}}}, id.Result)
	require.Equal(t, "node-00001", *host)
	require.Equal(t, []string{"dns.target"}, targets)
	require.Equal(t, "mqtt-broker", held[0].Role)
	for _, path := range []string{
		"/etc/systemd/network/10-spore-525400000101.network", "/etc/hosts", paths.Environment + "/coredns.env", paths.Identity, paths.Probe,
	} {
		require.FileExists(t, m.Root.At(path))
	}
	require.Equal(t, []static{{mac: nodetest.MAC(1), ip: staticIP(t, "10.64.1.2")}}, nodeStatics(t, m))
}

func TestDerivingTwiceEndsInTheSameState(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	snapshot := func() map[string]string {
		out := map[string]string{}
		for _, dir := range []string{"/etc", "/run/spore"} {
			require.NoError(t, filepath.Walk(m.Root.At(dir), func(path string, st os.FileInfo, err error) error {
				if err == nil && st.Mode().IsRegular() {
					data, err := os.ReadFile(path)
					require.NoError(t, err)
					out[path] = string(data)
				}
				return err
			}))
		}
		return out
	}
	become(t, m, nodetest.MAC(1))
	first := snapshot()
	become(t, m, "52:54:00:ff:ff:ff")
	require.NotEqual(t, first, snapshot(), "an unknown machine derives something else")
	become(t, m, nodetest.MAC(1))
	require.Equal(t, first, snapshot())
}

// TestTheBudget holds the agent to its bound for detection, environment and activation, in CPU time of the host.
func TestTheBudget(t *testing.T) {
	for nodes, budget := range map[int]float64{1000: 100, 10000: 200} {
		m, _ := nodetest.New(t, nodes)
		before := status.UsedCPU()
		become(t, m, nodetest.MAC(nodes-1))
		used := status.UsedCPU() - before
		t.Logf("%d nodes: %.1f ms of CPU, %.0f allowed", nodes, used, budget)
		require.Less(t, used, budget, "%d nodes", nodes)
	}
}

func BenchmarkBecome(b *testing.B) {
	for _, nodes := range []int{3, 1000, 10000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			m, _ := nodetest.New(b, nodes)
			for b.Loop() {
				become(b, m, nodetest.MAC(nodes-1))
			}
		})
	}
}

func staticIP(t *testing.T, s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	require.NoError(t, err)
	return a
}

func nodeStatics(t *testing.T, m *node.Machine) []static {
	_, _, n, err := m.Node()
	require.NoError(t, err)
	return staticAddresses(n)
}
