package services

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/dns"
	"spore/services/kafka"
	"spore/services/kubernetes"
	"spore/services/mqtt"
)

func example() (*facts.Cluster, *facts.Node) {
	return &facts.Cluster{
			Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example", Nodes: 3,
			Network:  spec.Network{NodeSubnets: []string{"10.77.0.0/24"}, Nameservers: []string{"10.77.0.3", "10.77.0.4"}},
			Services: spec.Services{&mqtt.Settings{}, &dns.Settings{TTL: 30}},
		}, &facts.Node{
			Name: "edge-01", Hostname: "edge-01", FQDN: "edge-01.plant.example", IPs: []string{"10.77.0.11"}, Roles: []string{"dns-server", "mqtt-broker"},
		}
}

func TestEnvironmentFilesAreSortedAndQuoted(t *testing.T) {
	c, n := example()
	files := Environment(c, n, 1<<30)
	require.Len(t, files, 4)
	require.Equal(t, `CLUSTER_CONTROL_PLANE_ENDPOINT=
CLUSTER_DOMAIN=plant.example
CLUSTER_GATEWAYS=
CLUSTER_ID=6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11
CLUSTER_NAME=plant
CLUSTER_NAMESERVERS="10.77.0.3 10.77.0.4"
CLUSTER_NODE_COUNT=3
CLUSTER_NODE_SUBNETS=10.77.0.0/24
CLUSTER_NTP_SERVERS=
CLUSTER_POD_CIDRS=
CLUSTER_SERVICE_CIDRS=
`, string(files["cluster.env"]))
	require.Equal(t, `NODE_FQDN=edge-01.plant.example
NODE_HOSTNAME=edge-01
NODE_IPS=10.77.0.11
NODE_NAME=edge-01
NODE_ROLES="dns-server mqtt-broker"
`, string(files["node.env"]))
	require.Equal(t, "MQTT_PORT=8883\n", string(files["mosquitto.env"]))
	require.Equal(t, "DNS_DOMAIN=plant.example\nDNS_FORWARDERS=\"10.77.0.3 10.77.0.4\"\nDNS_TTL=30\n", string(files["coredns.env"]))
}

func TestANodeHasTheFilesOfItsProgramsOnly(t *testing.T) {
	c, n := example()
	n.Roles = []string{"ceph-osd", "dns-server"}
	files := Environment(c, n, 1<<30)
	require.Contains(t, files, "coredns.env")
	require.NotContains(t, files, "mosquitto.env")
	require.Equal(t, []string{"ceph-osd.target", "dns.target"}, NodeTargets(c, n))
}

// What the units of these programs take from their files, with ${NAME} as a word of the command line.
func TestUnitsFindTheirSettings(t *testing.T) {
	master := func() (*facts.Cluster, *facts.Node) {
		return &facts.Cluster{
			Network:  spec.Network{ServiceCIDRs: []string{"10.79.0.0/16", "fd79::/108"}},
			Members:  map[string][]string{"control-plane": {"master-01"}, "kafka-broker": {"master-01"}},
			Services: spec.Services{&kubernetes.Settings{}, &kafka.Settings{}},
		}, &facts.Node{Name: "master-01", IPs: []string{"10.77.0.21", "fd77::21"}, Roles: []string{"control-plane", "kafka-broker"}}
	}
	serial := "KAFKA_JVM_PERFORMANCE_OPTS=\"-XX:+UseSerialGC -XX:TieredStopAtLevel=1\"\n"
	for _, tt := range []struct {
		name, file, want string
		memory           uint64
		change           func(*facts.Cluster, *facts.Node)
	}{
		{name: "kubelet", file: "kubelet.env", want: "KUBELET_HOSTNAME_OVERRIDE=master-01\nKUBELET_NODE_IP=10.77.0.21\n"},
		{name: "the API server", file: "kube-apiserver.env", want: "KUBE_APISERVER_ADVERTISE_ADDRESS=10.77.0.21\nKUBE_APISERVER_BIND_ADDRESS=0.0.0.0\n" +
			"KUBE_APISERVER_SECURE_PORT=6443\nKUBE_APISERVER_SERVICE_CLUSTER_IP_RANGE=10.79.0.0/16,fd79::/108\n"},
		{name: "the API server of a node with IPv6", file: "kube-apiserver.env", want: "KUBE_APISERVER_ADVERTISE_ADDRESS=fd77::21\nKUBE_APISERVER_BIND_ADDRESS=::\n" +
			"KUBE_APISERVER_SECURE_PORT=6443\nKUBE_APISERVER_SERVICE_CLUSTER_IP_RANGE=10.79.0.0/16,fd79::/108\n",
			change: func(_ *facts.Cluster, n *facts.Node) { n.IPs = []string{"fd77::21"} }},
		{name: "the API server behind a virtual address of the other family", file: "kube-apiserver.env",
			want: "KUBE_APISERVER_ADVERTISE_ADDRESS=10.77.0.21\nKUBE_APISERVER_BIND_ADDRESS=::\n" +
				"KUBE_APISERVER_SECURE_PORT=6443\nKUBE_APISERVER_SERVICE_CLUSTER_IP_RANGE=10.79.0.0/16,fd79::/108\n",
			change: func(c *facts.Cluster, _ *facts.Node) { c.Network.ControlPlaneEndpoint = "fd77::200" }},
		{name: "Kafka on a small machine", file: "kafka.env", memory: 512 << 20, want: "KAFKA_HEAP_OPTS=-Xmx256m\n" + serial},
		{name: "Kafka has a quarter", file: "kafka.env", memory: 2 << 30, want: "KAFKA_HEAP_OPTS=-Xmx512m\n" + serial},
		{name: "Kafka on a large machine", file: "kafka.env", memory: 256 << 30, want: "KAFKA_HEAP_OPTS=-Xmx6144m\n" +
			"KAFKA_JVM_PERFORMANCE_OPTS=\"-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent\"\n"},
		{name: "Kafka with the heap of kafka.yaml", file: "kafka.env", memory: 8 << 30, want: "KAFKA_HEAP_OPTS=-Xmx700m\n" + serial,
			change: func(c *facts.Cluster, _ *facts.Node) { kafka.Of(c.Services).Heap = 700 }},
		{name: "Kafka on a machine that nobody has seen yet", file: "kafka.env", want: ""},
		{name: "Kafka with the heap of kafka.yaml on one that nobody has seen yet", file: "kafka.env", want: "KAFKA_HEAP_OPTS=-Xmx700m\n" + serial,
			change: func(c *facts.Cluster, _ *facts.Node) { kafka.Of(c.Services).Heap = 700 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, n := master()
			if tt.change != nil {
				tt.change(c, n)
			}
			files := Environment(c, n, tt.memory)
			require.Contains(t, files, tt.file)
			require.Equal(t, tt.want, string(files[tt.file]))
		})
	}
}

func TestNodesOfKubernetesRunPods(t *testing.T) {
	for role, want := range map[string]bool{"worker": true, "control-plane": true, "mqtt-broker": false, "dns-server": false} {
		require.Equal(t, want, RunsPods(&facts.Cluster{}, &facts.Node{Roles: []string{role}}), role)
	}
}

// A POSIX shell reads back what was written, whatever is in the value.
func TestAShellReadsTheValuesBack(t *testing.T) {
	for _, v := range []string{"", "a b", `a"b`, `a\b`, "$HOME", "`id`", "it's", "a;b&c|d", "#x", "ä ö", `\$`, "~", "*"} {
		file := filepath.Join(t.TempDir(), "x.env")
		require.NoError(t, os.WriteFile(file, environment(map[string]string{"V": v}), 0o644))
		out, err := exec.Command("sh", "-c", `. "$1"; printf %s "$V"`, "sh", file).Output()
		require.NoError(t, err)
		require.Equal(t, v, string(out))
		require.Equal(t, 1, strings.Count(string(environment(map[string]string{"V": v})), "\n"))
	}
}
