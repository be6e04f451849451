package customize

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/media"
)

// diff is what becomes of the example when texts of its files are replaced.
func diff(t *testing.T, edits ...[3]string) *Diff {
	t.Helper()
	before := small(load(t, example))
	dir := folder(t, example, edits...)
	after := small(load(t, dir))
	after.Image.KernelArguments = []string{"quiet"}
	name := newFactory(t, before).build(t, before, media.Keys{}, "disk", nil)
	was := content(t, name)
	c, err := Plan(Options{Image: name, Config: after, Folder: os.DirFS(dir)})
	require.NoError(t, err)
	defer c.Close()
	d, err := c.Diff()
	require.NoError(t, err)
	require.Equal(t, was, content(t, name))
	requireAlone(t, name)
	return d
}

func TestADiffSaysWhatEachNodeIsToldAnew(t *testing.T) {
	d := diff(t,
		[3]string{"services/dns.yaml", "ttl: 60", "ttl: 90"},
		[3]string{"cluster.yaml", "hostname: dns-01", "hostname: dns-zwei"},
		[3]string{"cluster.yaml", "ips: [10.77.0.11]\n    roles: [mqtt-broker, dns-server]", "ips: [10.77.0.21]\n    roles: [dns-server]"},
		[3]string{"nodes/edge-01.yaml", "10.77.0.11/24", "10.77.0.21/24"},
		[3]string{"cluster.yaml", "ntpServers: [10.77.0.2]", "ntpServers: [10.77.0.2, 10.77.0.4]"},
		[3]string{"cluster.yaml", "name: mqtt-01", "name: mqtt-02"},
	)
	require.Equal(t, []Value{
		{"members.mqtt-broker", "edge-01, mqtt-01", "mqtt-02"},
		{"network.ntpServers", "10.77.0.2", "10.77.0.2, 10.77.0.4"},
		{"timeNodes[0].ip", "10.77.0.11", "10.77.0.21"},
		{"timeNodes[1].name", "mqtt-01", "mqtt-02"},
	}, d.Cluster)

	require.Len(t, d.Nodes, 4)
	byName := map[string]Node{}
	for _, n := range d.Nodes {
		byName[n.Name] = n
	}
	require.Equal(t, Node{
		Name: "dns-01", Change: "changed",
		Identity: []Value{{"fqdn", "dns-01.plant.example", "dns-zwei.plant.example"}, {"hostname", "dns-01", "dns-zwei"}},
		Services: []Value{{"dns.ttl", "60", "90"}},
		Files: []string{
			"/etc/cluster-config/cluster.yaml", "/etc/cluster-config/environment/cluster.env", "/etc/cluster-config/environment/coredns.env",
			"/etc/cluster-config/environment/node.env", "/etc/cluster-config/services/dns.yaml",
		},
	}, byName["dns-01"])

	edge := byName["edge-01"]
	require.Equal(t, []Value{{"roles", "dns-server, mqtt-broker", "dns-server"}}, edge.Roles)
	require.Equal(t, []Value{{"ips", "10.77.0.11", "10.77.0.21"}}, edge.Identity)
	require.Equal(t, []Value{{"interfaces[0].addresses", "10.77.0.11/24", "10.77.0.21/24"}}, edge.Network)
	require.Equal(t, []Value{{"programs", "mosquitto, coredns", "coredns"}, {"dns.ttl", "60", "90"}}, edge.Services)

	require.Equal(t, "removed", byName["mqtt-01"].Change)
	require.Equal(t, "added", byName["mqtt-02"].Change)
	require.Equal(t, []Value{{"programs", "", "mosquitto"}}, byName["mqtt-02"].Services)

	require.Contains(t, d.Files, File{"cluster.yaml", "changed"})
	require.Contains(t, d.Files, File{"compiled/nodes/mqtt-02.json", "added"})
	require.Contains(t, d.Files, File{"compiled/nodes/mqtt-01.json", "removed"})
	require.NotContains(t, d.Files, File{"services/mqtt.yaml", "changed"})
}

func TestADiffSaysWhatBecomesOfTheMedium(t *testing.T) {
	d := diff(t, [3]string{"services/dns.yaml", "ttl: 60", "ttl: 90"})
	stays := map[string]bool{}
	for _, v := range d.Medium {
		stays[v.Name] = v.Old == v.New
		require.NotEmpty(t, v.Old, v.Name)
	}
	require.Equal(t, map[string]bool{
		"root": true, "root partition": true, "verity partition": true, "cluster part": false, "cluster partition": false, "UKI": false, "kernel arguments": false,
	}, stays)
	require.Contains(t, d.Medium[6].New, " quiet")
	require.NotContains(t, d.Medium[6].New, "roothash")
}

func TestNothingChangedIsAnEmptyDiff(t *testing.T) {
	config := small(load(t, example))
	name := newFactory(t, config).build(t, config, media.Keys{}, "iso", nil)
	c, err := Plan(Options{Image: name, Config: config, Folder: os.DirFS(example)})
	require.NoError(t, err)
	defer c.Close()
	d, err := c.Diff()
	require.NoError(t, err)
	require.Empty(t, d.Nodes)
	require.Empty(t, d.Files)
	require.Empty(t, d.Cluster)
	for _, v := range d.Medium {
		require.Equal(t, v.Old, v.New, v.Name)
	}
}

func TestValuesAreComparedDownToTheirLists(t *testing.T) {
	type inner struct {
		A []string          `json:"a"`
		B map[string]int    `json:"b,omitempty"`
		C []map[string]bool `json:"c,omitempty"`
	}
	got, err := compare(inner{A: []string{"x", "y"}, B: map[string]int{"n": 1}, C: []map[string]bool{{"t": true}}}, inner{A: []string{}, B: map[string]int{"n": 12345678901234567}})
	require.NoError(t, err)
	require.Equal(t, []Value{{"a", "x, y", ""}, {"b.n", "1", "12345678901234567"}, {"c[0].t", "true", ""}}, got)
}
