package facts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
)

func example() (*Cluster, *Node) {
	return &Cluster{
			Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example", Nodes: 3,
			Network:  spec.Network{NodeSubnets: []string{"10.77.0.0/24"}, Nameservers: []string{"10.77.0.3", "10.77.0.4"}},
			Services: spec.Services{MQTT: &spec.MQTT{}, DNS: &spec.DNS{TTL: 30}},
		}, &Node{
			Name: "edge-01", Hostname: "edge-01", FQDN: "edge-01.plant.example", IPs: []string{"10.77.0.11"}, Roles: []string{"dns-server", "mqtt-broker"},
		}
}

func TestEnvironmentFilesAreSortedAndQuoted(t *testing.T) {
	files := Environment(example())
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
	files := Environment(c, n)
	require.Contains(t, files, "coredns.env")
	require.NotContains(t, files, "mosquitto.env")
	require.Equal(t, []string{"ceph-osd.target", "dns.target"}, NodeTargets(n))
}

func TestNodesOfKubernetesRunPods(t *testing.T) {
	for role, want := range map[string]bool{"worker": true, "control-plane": true, "mqtt-broker": false, "dns-server": false} {
		require.Equal(t, want, RunsPods(&Node{Roles: []string{role}}), role)
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
