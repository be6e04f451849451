package etc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"spore/agent/detect"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
)

func input(t *testing.T) Input {
	return Input{
		Root: paths.Root(t.TempDir()), Part: "/run/spore/cluster",
		Cluster: &facts.Cluster{Name: "plant", ID: "id", Domain: "plant.example", Network: spec.Network{Nameservers: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}, NTPServers: []string{"ntp.example"}}},
		Node: &facts.Node{
			Name: "edge-01", Hostname: "edge", FQDN: "edge.plant.example", Roles: []string{"dns-server"}, Sysctl: map[string]string{"b": "2", "a": "1\n2"},
			Labels: map[string]string{"example.com/zone": "yes", "off": "no: #"}, Taints: []string{"a=b:NoSchedule"},
			Interfaces: []spec.Interface{{MAC: "52:54:00:77:00:0b", Addresses: []string{"10.77.0.11/24"}, MTU: 9000}, {Name: "v", VLAN: &spec.VLAN{ID: 7, Parent: "x"}}},
		},
		Identity: detect.Identity{Result: identity.Result{Node: "edge-01", By: "serial", Value: `CZ "1" $x`, Phase: 1}},
		Hosts:    []byte("10.77.0.11 edge.plant.example edge\n10.77.0.12 mqtt.plant.example mqtt\n"),
	}
}

func read(t *testing.T, in Input, path string) string {
	data, err := os.ReadFile(in.Root.At(path))
	require.NoError(t, err)
	return string(data)
}

func TestWrite(t *testing.T) {
	in := input(t)
	require.NoError(t, Write(in))
	for path, want := range map[string]string{
		"/etc/hostname":    "edge\n",
		"/etc/hosts":       "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n10.77.0.11 edge.plant.example edge\n10.77.0.12 mqtt.plant.example mqtt\n",
		"/etc/resolv.conf": "# Written by spore-agent at each boot.\nsearch plant.example\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\noptions edns0 timeout:2 attempts:2\n",
		"/etc/systemd/timesyncd.conf.d/10-spore.conf": "[Time]\nNTP=ntp.example\n",
		"/etc/sysctl.d/90-spore-node.conf":            "net.ipv4.conf.all.arp_notify = 1\nnet.ipv4.conf.default.arp_notify = 1\na = 1 2\nb = 2\n",
		"/etc/cluster-config/node-identity": "CLUSTER=\"plant\"\nCLUSTER_ID=\"id\"\nNODE=\"edge-01\"\nHOSTNAME=\"edge\"\nFQDN=\"edge.plant.example\"\nROLES=\"dns-server\"\n" +
			"MATCHED_BY=\"serial\"\nMATCHED_VALUE=\"CZ \\\"1\\\" \\$x\"\nMATCHED_PHASE=\"1\"\n",
	} {
		require.Equal(t, want, read(t, in, path), path)
	}
	target, err := os.Readlink(in.Root.At("/etc/cluster-config/cluster.yaml"))
	require.NoError(t, err)
	require.Equal(t, "/run/spore/cluster/cluster.yaml", target)
}

func TestANodeWithPodsForwards(t *testing.T) {
	in := input(t)
	in.Node.Roles, in.Node.Sysctl = []string{"worker"}, map[string]string{"vm.overcommit_memory": "1"}
	require.NoError(t, Write(in))
	got := read(t, in, "/etc/sysctl.d/90-spore-node.conf")
	require.Contains(t, got, "\nnet.ipv4.ip_forward = 1\n")
	require.Contains(t, got, "\nkernel.panic = 10\n")
	require.True(t, strings.HasSuffix(got, "\nvm.overcommit_memory = 1\n"), "the node's own come last")
}

func TestWritingTwiceGivesTheSame(t *testing.T) {
	in := input(t)
	snapshot := func() map[string]string {
		out := map[string]string{}
		require.NoError(t, filepath.Walk(string(in.Root), func(path string, st os.FileInfo, err error) error {
			if err == nil && st.Mode().IsRegular() {
				data, _ := os.ReadFile(path)
				out[path] = string(data) + st.ModTime().String()
			}
			return err
		}))
		return out
	}
	require.NoError(t, Write(in))
	before := snapshot()
	require.NoError(t, Write(in))
	require.Equal(t, before, snapshot())
}

func TestTheNodesYAMLSaysWhatTheNodeWasTold(t *testing.T) {
	in := input(t)
	require.NoError(t, Write(in))
	var got any
	require.NoError(t, yaml.Unmarshal([]byte(read(t, in, "/etc/cluster-config/current-node.yaml")), &got))
	data, err := json.Marshal(in.Node)
	require.NoError(t, err)
	back, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, string(data), string(back))
}

func TestWhatDHCPSaysIsUsedOnlyWhereTheClusterSaysNothing(t *testing.T) {
	in := input(t)
	in.Resolvers, in.SearchDomain = []string{"192.0.2.1"}, "dhcp.example"
	require.NoError(t, WriteResolvers(in))
	require.NotContains(t, read(t, in, "/etc/resolv.conf"), "192.0.2.1")
	in.Cluster.Network.Nameservers = nil
	require.NoError(t, WriteResolvers(in))
	require.Contains(t, read(t, in, "/etc/resolv.conf"), "search plant.example\nnameserver 192.0.2.1\n")
}

func TestANodeThatIsNotInTheHostsFileKnowsItself(t *testing.T) {
	in := input(t)
	in.Hosts = []byte("10.77.0.12 mqtt.plant.example # edge.plant.example\n")
	require.NoError(t, Write(in))
	require.Contains(t, read(t, in, "/etc/hosts"), "127.0.1.1 edge.plant.example edge\n")
}

func TestAMachineThatIsNoNode(t *testing.T) {
	in := input(t)
	in.Node, in.Hosts = nil, nil
	in.Identity = detect.Identity{Seen: detect.Seen{MACs: []string{"52:54:00:77:00:99"}}}
	require.NoError(t, Write(in))
	require.Equal(t, "unknown-770099\n", read(t, in, "/etc/hostname"))
	require.NoFileExists(t, in.Root.At("/etc/cluster-config/node-identity"))
	require.Equal(t, "unknown", Hostname(nil, detect.Identity{}))
}

func TestTimesyncdIsToldAgainWhenTheClockIsRight(t *testing.T) {
	in := input(t)
	in.Cluster.TimeNodes = []facts.TimeNode{{Name: "edge-01", IP: "10.77.0.11"}, {Name: "mqtt-01", IP: "10.77.0.12"}}
	in.ClockWrong = true
	require.NoError(t, Write(in))
	require.Equal(t, "[Time]\nNTP=ntp.example 10.77.0.12\n", read(t, in, timesyncdFile), "a clock that was wrong asks everybody")
	changed, err := WriteTimeServers(in)
	require.NoError(t, err)
	require.False(t, changed)
	in.ClockWrong = false
	changed, err = WriteTimeServers(in)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "[Time]\nNTP=ntp.example\n", read(t, in, timesyncdFile), "the first of the time nodes follows none of them")
	in.Node = nil
	_, err = WriteTimeServers(in)
	require.NoError(t, err)
	require.Equal(t, "[Time]\nNTP=ntp.example 10.77.0.11 10.77.0.12\n", read(t, in, timesyncdFile), "a machine that is no node may ask all")
}
