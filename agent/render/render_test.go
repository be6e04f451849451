package render

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/dns"
	"spore/services/mqtt"
	"spore/services/node"
	"spore/services/rendering"
)

const hostsFile = `10.77.0.11 edge-01.lab.internal edge-01
10.77.0.12 broker.lab.internal broker mqtt-01 # its name is not its hostname
10.77.0.13 dns-01.lab.internal dns-01
fd77::13 dns-01.lab.internal dns-01
`

func testCluster() *facts.Cluster {
	return &facts.Cluster{
		Name: "lab", ID: "6f1c2f0e-8a52-4a53-9d8c-1f6a0f3b7c11", Domain: "lab.internal",
		Network: spec.Network{NodeSubnets: []string{"10.77.0.0/24", "fd77::/64"}, Nameservers: []string{"10.77.0.11", "10.77.0.3"}},
		Members: map[string][]string{"mqtt-broker": {"edge-01", "mqtt-01"}, "dns-server": {"dns-01", "edge-01"}},
		Services: spec.Services{
			&mqtt.Settings{
				TLS: mqtt.TLS{Certificate: spec.SecretRef{SecretRef: "mqtt-cert"}, Key: spec.SecretRef{SecretRef: "mqtt-key"}},
				Users: []mqtt.User{
					{Name: "sensor", Password: spec.SecretRef{SecretRef: "mqtt-sensor"}, ACL: []mqtt.ACL{{Topic: "plant/+/temperature", Access: "write"}, {Topic: "plant/secret/#", Access: "deny"}}},
					{Name: "mute", Password: spec.SecretRef{SecretRef: "mqtt-mute"}},
				},
			},
			&dns.Settings{Records: []dns.Record{
				{Name: "www", CNAME: "edge-01"},
				{Name: "printer", Addresses: []string{"10.77.0.99"}},
				{Name: "shop", CNAME: "Shop.example.com."},
			}},
		},
	}
}

func testInput() rendering.Input {
	secrets := map[string]string{"mqtt-cert": "cert", "mqtt-key": "key", "mqtt-sensor": "s3nsor\n", "mqtt-mute": "mute"}
	return rendering.Input{
		Cluster: testCluster(),
		Node:    &facts.Node{Name: "edge-01", Hostname: "edge-01", FQDN: "edge-01.lab.internal"},
		Hosts:   strings.NewReader(hostsFile),
		Addresses: []netip.Addr{
			netip.MustParseAddr("fe80::1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("10.77.0.11"), netip.MustParseAddr("::ffff:10.77.0.11"),
		},
		Dir: "/run/x",
		Secret: func(ref string) ([]byte, error) {
			s, ok := secrets[ref]
			if !ok {
				return nil, fmt.Errorf("secret %s is not in the bundle", ref)
			}
			return []byte(s), nil
		},
		SecretPath: func(ref string) string { return "/run/credentials/x.service/secret_" + ref },
	}
}

// A unit that asks for a rendering gets one.
func TestEveryProgramWhoseUnitAsksForItCanBeRendered(t *testing.T) {
	for _, p := range services.Ours().Programs() {
		unit, err := os.ReadFile(filepath.Join("../../units", p.Unit)) // package test/units holds that there is one
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		for _, call := range regexp.MustCompile(`spore-agent render (\S+)`).FindAllStringSubmatch(string(unit), -1) {
			require.Equal(t, p.Name, call[1])
			require.Contains(t, node.Renderings(), p.Name)
		}
	}
	_, err := Render("telnetd", testInput())
	require.ErrorContains(t, err, "render telnetd: no such program; there are [")
}

// Kubernetes', Kafka's and Ceph's folders have the like of this test.
func TestRenderingTwiceGivesTheSameBytes(t *testing.T) {
	for _, name := range []string{"coredns", "mosquitto"} {
		a, err := Render(name, testInput())
		require.NoError(t, err)
		b, err := Render(name, testInput())
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}

func TestWriteReplacesWholeFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Write(dir, map[string]rendering.File{"a": {Data: []byte("1"), Mode: 0o600}, "b": {Data: []byte("2"), Mode: 0o644}}))
	require.NoError(t, Write(dir, map[string]rendering.File{"a": {Data: []byte("3"), Mode: 0o600}}))
	data, err := os.ReadFile(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Equal(t, "3", string(data))
	info, err := os.Stat(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 2, "no temporary file stays")
	require.ErrorContains(t, Write(filepath.Join(dir, "nope"), map[string]rendering.File{"a": {}}), "nope/a: ")
}
