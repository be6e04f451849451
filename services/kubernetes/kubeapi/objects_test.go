package kubeapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	kubernetesnode "spore/services/kubernetes/node"
)

func testCluster() *facts.Cluster {
	return &facts.Cluster{Name: "lab", Network: spec.Network{
		PodCIDRs: []string{"10.78.0.0/16", "fd78::/56"}, ServiceCIDRs: []string{"10.79.0.0/16"},
	}, Services: spec.Services{&kubernetes.Settings{}}}
}

// The objects of a cluster are in testdata/objects.json; UPDATE=1 writes them.
func TestTheObjectsOfACluster(t *testing.T) {
	list, err := Objects(testCluster())
	require.NoError(t, err)
	list = append(list, dnsSlice(dnsServers(testCluster(), testNodes())))
	for _, o := range list {
		_, err := pathOf(o)
		require.NoError(t, err)
	}
	got, err := json.MarshalIndent(list, "", "  ")
	require.NoError(t, err)
	file := filepath.Join("testdata", "objects.json")
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got)+"\n")
}

func TestClustersThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		want   string
		change func(*spec.Network)
	}{
		{"add them to cluster.yaml", func(n *spec.Network) { n.ServiceCIDRs = nil }},
		{"serviceCIDRs: 10.79.0.0/29 has no address 10", func(n *spec.Network) { n.ServiceCIDRs = []string{"10.79.0.0/29"} }},
		{"serviceCIDRs: ", func(n *spec.Network) { n.ServiceCIDRs = []string{"x"} }},
		{"podCIDRs: ", func(n *spec.Network) { n.PodCIDRs = []string{"x"} }},
	} {
		c := testCluster()
		tt.change(&c.Network)
		_, err := Objects(c)
		require.ErrorContains(t, err, tt.want)
	}
}

func TestTheServersOfTheDNSService(t *testing.T) {
	c := testCluster()
	nodes := []facts.Node{
		{Name: "m1", IPs: []string{"10.77.0.21", "fd77::21"}, Roles: []string{"control-plane"}},
		{Name: "m2", IPs: []string{"10.77.0.22"}, Roles: []string{"control-plane", "worker"}},
		{Name: "m3", IPs: []string{"fd77::23"}, Roles: []string{"control-plane"}},
		{Name: "w1", IPs: []string{"10.77.0.31"}, Roles: []string{"worker"}},
	}
	servers := dnsServers(c, nodes)
	require.Len(t, servers, 2, "masters with an address of the Service's family")
	ready := func() []bool {
		var out []bool
		for _, e := range dnsSlice(servers)["endpoints"].([]any) {
			out = append(out, e.(map[string]any)["conditions"].(map[string]any)["ready"].(bool))
		}
		return out
	}
	require.Equal(t, []bool{true, true}, ready(), "before any node is there")
	b := &bootstrap{servers: servers}
	require.True(t, b.setReady(map[string]bool{"m2": true}))
	require.False(t, b.setReady(map[string]bool{"m2": true, "w1": true}))
	require.Equal(t, []bool{false, true}, ready())
	require.True(t, b.setReady(nil))
	require.Equal(t, []bool{true, true}, ready(), "a server needs no kubelet")

	c.Network.ServiceCIDRs = []string{"fd79::/108"}
	servers = dnsServers(c, nodes)
	require.Len(t, servers, 1)
	require.Equal(t, "IPv6", dnsSlice(servers)["addressType"])
}

func TestTaintsAreMerged(t *testing.T) {
	have := func(list ...kubernetesnode.Taint) (out []map[string]any) {
		for _, x := range list {
			out = append(out, taintObject(x))
		}
		return out
	}
	a, a2, b, theirs := kubernetesnode.Taint{Key: "a", Value: "1", Effect: "NoSchedule"}, kubernetesnode.Taint{Key: "a", Value: "2", Effect: "NoSchedule"}, kubernetesnode.Taint{Key: "b", Effect: "NoExecute"}, kubernetesnode.Taint{Key: "t", Effect: "NoSchedule"}
	for _, tt := range []struct {
		name                     string
		have, former, want, next []kubernetesnode.Taint
		changed                  bool
	}{
		{"nothing", nil, nil, nil, nil, false},
		{"all there", []kubernetesnode.Taint{a, theirs}, []kubernetesnode.Taint{a}, []kubernetesnode.Taint{a}, []kubernetesnode.Taint{a, theirs}, false},
		{"a new one", []kubernetesnode.Taint{theirs}, nil, []kubernetesnode.Taint{a}, []kubernetesnode.Taint{theirs, a}, true},
		{"another value", []kubernetesnode.Taint{a, theirs}, []kubernetesnode.Taint{a}, []kubernetesnode.Taint{a2}, []kubernetesnode.Taint{a2, theirs}, true},
		{"one is gone from cluster.yaml", []kubernetesnode.Taint{a, b, theirs}, []kubernetesnode.Taint{a, b}, []kubernetesnode.Taint{b}, []kubernetesnode.Taint{b, theirs}, true},
		{"what was never ours stays", []kubernetesnode.Taint{theirs}, []kubernetesnode.Taint{a}, nil, []kubernetesnode.Taint{theirs}, false},
	} {
		next, changed := mergeTaints(have(tt.have...), tt.former, tt.want)
		require.ElementsMatch(t, have(tt.next...), next, tt.name)
		require.Equal(t, tt.changed, changed, tt.name)
	}
	at := map[string]any{"key": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
	next, changed := mergeTaints([]map[string]any{at}, nil, nil)
	require.False(t, changed)
	require.Equal(t, []map[string]any{at}, next, "fields of controllers stay")
}

func TestWhatClusterYAMLSaysOfNodes(t *testing.T) {
	wants, err := nodeWants(testNodes())
	require.NoError(t, err)
	require.Len(t, wants, 2)
	require.Equal(t, nodeWant{
		labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}, taints: []kubernetesnode.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"}},
	}, wants["master-01"])
	require.Equal(t, nodeWant{
		labels: map[string]string{"example.com/zone": "b", "node-role.kubernetes.io/gpu": "", "node-role.kubernetes.io/worker": ""},
		taints: []kubernetesnode.Taint{{Key: "only", Value: "batch", Effect: "NoExecute"}},
	}, wants["worker-01"])
	_, err = nodeWants([]facts.Node{{Name: "w", Roles: []string{"worker"}, Taints: []string{"x"}}})
	require.ErrorContains(t, err, `taint "x" of node w`)
}

func TestKindsAreDefinitionsOneALine(t *testing.T) {
	kinds, err := ParseKinds([]byte(`{"kind":"CustomResourceDefinition","metadata":{"name":"a"},"status":{"conditions":[]}}` + "\n" + `{"kind":"CustomResourceDefinition"}` + "\n"))
	require.NoError(t, err)
	require.Len(t, kinds, 2)
	require.NotContains(t, kinds[0], "status", "that is the API server's")
	for text, want := range map[string]string{
		"": "there is none", `{"kind":"Secret"}`: "definition 1 is a Secret and no CustomResourceDefinition", `{"kind":"CustomResourceDefinition"}{`: "definition 2: unexpected EOF",
	} {
		_, err := ParseKinds([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

func FuzzParseKinds(f *testing.F) {
	f.Add([]byte(`{"kind":"CustomResourceDefinition"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		kinds, err := ParseKinds(data)
		require.True(t, err != nil || len(kinds) > 0)
		for _, k := range kinds {
			require.Equal(t, "CustomResourceDefinition", k["kind"])
		}
	})
}
