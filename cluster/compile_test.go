package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/manifests"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/kafka"
	"spore/services/mqtt"
)

// load reads a folder of the repository and requires that nothing is wrong with it.
func load(t testing.TB, dir string) *Config {
	c, report := LoadDir(dir)
	require.Empty(t, report.String())
	return c
}

func compiled(t testing.TB, dir string) map[string][]byte {
	files, err := Compile(load(t, dir))
	require.NoError(t, err)
	return files
}

func node(t testing.TB, files map[string][]byte, name string) facts.Node {
	var n facts.Node
	require.NoError(t, json.Unmarshal(files["compiled/nodes/"+name+".json"], &n))
	return n
}

func TestCompileHoldsTheSourceAsItIs(t *testing.T) {
	files := compiled(t, "../examples/edge")
	for _, name := range []string{"cluster.yaml", "services/mqtt.yaml", "services/dns.yaml", "nodes/edge-01.yaml"} {
		want, err := os.ReadFile(filepath.Join("../examples/edge", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(files[name]))
	}
	require.NotContains(t, files, "image.yaml")
}

func TestCompileOfTheExampleCluster(t *testing.T) {
	files := compiled(t, "../examples/edge")

	require.Equal(t, facts.Node{
		Name: "edge-01", Hostname: "edge-01", FQDN: "edge-01.plant.example",
		MACs: []string{"52:54:00:77:00:0b"}, IPs: []string{"10.77.0.11"}, Roles: []string{"dns-server", "mqtt-broker"},
		Interfaces: []spec.Interface{{MAC: "52:54:00:77:00:0b", Addresses: []string{"10.77.0.11/24"}, Gateways: []string{"10.77.0.2"}}},
		Sysctl:     map[string]string{"net.core.somaxconn": "4096"},
	}, node(t, files, "edge-01"))
	require.Equal(t, facts.Node{
		Name: "mqtt-01", Hostname: "mqtt-01", FQDN: "mqtt-01.plant.example", IPs: []string{"10.77.0.12"}, Roles: []string{"mqtt-broker"},
	}, node(t, files, "mqtt-01"))
	require.Equal(t, facts.Node{
		Name: "dns-01", Hostname: "dns-01", FQDN: "dns-01.plant.example", IPs: []string{"10.77.0.13"}, Roles: []string{"dns-server"},
	}, node(t, files, "dns-01"))

	var shared facts.Cluster
	require.NoError(t, services.ReadCluster(files[facts.ClusterFile], &shared))
	require.Equal(t, 3, shared.Nodes)
	require.Equal(t, map[string][]string{"mqtt-broker": {"edge-01", "mqtt-01"}, "dns-server": {"dns-01", "edge-01"}}, shared.Members)
	require.Equal(t, "mqtt-password-sensor", mqtt.Of(shared.Services).Users[0].Password.SecretRef)
	require.Nil(t, kafka.Of(shared.Services))

	require.Equal(t, "10.77.0.11 edge-01.plant.example edge-01\n10.77.0.12 mqtt-01.plant.example mqtt-01\n10.77.0.13 dns-01.plant.example dns-01\n", string(files[facts.HostsFile]))

	x, err := identity.FromBytes(files[facts.IdentityIndex])
	require.NoError(t, err)
	for want, f := range map[string]identity.Facts{
		"edge-01": {MACs: []string{"52:54:00:77:00:0b"}}, "mqtt-01": {IPs: []string{"10.77.0.12"}}, "dns-01": {Hostnames: []string{"dns-01.plant.example"}},
	} {
		r, err := x.Match(f)
		require.NoError(t, err)
		require.Equal(t, want, r.Node)
	}
}

func TestWhereMachinesAskForTheirBundlesEndsInASlash(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "http://10.77.0.2": "http://10.77.0.2/", "http://10.77.0.2/": "http://10.77.0.2/",
		"http://10.77.0.2:8080/": "http://10.77.0.2:8080/", "http://serve.plant.example:8080": "http://serve.plant.example:8080/",
	} {
		files := goodFolder(t)
		if text != "" {
			apply(t, files, []edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: " + text}})
		}
		c, report := Check(files, Options{})
		require.Empty(t, strings.TrimSpace(serious(report)), text)
		shared, _ := Facts(c)
		require.Equal(t, want, shared.Enroll)
	}
}

func TestCompileIsDeterministic(t *testing.T) {
	require.Equal(t, compiled(t, "testdata/six-nodes"), compiled(t, "testdata/six-nodes"))
}

func TestInterfaceDefaults(t *testing.T) {
	net := spec.Network{NodeSubnets: []string{"10.0.0.0/24", "fd00::/64"}, Gateways: []string{"10.0.0.1", "fd00::1"}}
	mac, other := "52:54:00:00:00:01", "52:54:00:00:00:02"
	for name, tc := range map[string]struct {
		node facts.Node
		list []spec.Interface
		want []spec.Interface
	}{
		"no card and no file is DHCP everywhere": {node: facts.Node{IPs: []string{"10.0.0.5"}}},
		"the first card gets the addresses": {
			node: facts.Node{MACs: []string{mac, other}, IPs: []string{"10.0.0.5", "fd00::5"}},
			want: []spec.Interface{{MAC: mac, Addresses: []string{"10.0.0.5/24", "fd00::5/64"}, Gateways: []string{"10.0.0.1", "fd00::1"}}},
		},
		"a card without addresses asks DHCP": {
			node: facts.Node{MACs: []string{mac}}, want: []spec.Interface{{MAC: mac, DHCP: true}},
		},
		"a gateway out of reach is not a default": {
			list: []spec.Interface{{MAC: "52-54-00-00-00-01", Addresses: []string{"192.168.9.2/24"}}},
			want: []spec.Interface{{MAC: mac, Addresses: []string{"192.168.9.2/24"}}},
		},
		"a named gateway stays": {
			list: []spec.Interface{{MAC: mac, Addresses: []string{"10.0.0.5/24"}, Gateways: []string{"10.0.0.9"}}},
			want: []spec.Interface{{MAC: mac, Addresses: []string{"10.0.0.5/24"}, Gateways: []string{"10.0.0.9"}}},
		},
		"a bond gets its mode and a VLAN its parent in normal form": {
			list: []spec.Interface{
				{Name: "bond0", Bond: &spec.Bond{Members: []string{"52-54-00-00-00-01"}}},
				{Name: "v5", VLAN: &spec.VLAN{ID: 5, Parent: "52-54-00-00-00-02"}},
				{Name: "v6", VLAN: &spec.VLAN{ID: 6, Parent: "bond0"}},
			},
			want: []spec.Interface{
				{Name: "bond0", Bond: &spec.Bond{Members: []string{mac}, Mode: "active-backup"}},
				{Name: "v5", VLAN: &spec.VLAN{ID: 5, Parent: other}},
				{Name: "v6", VLAN: &spec.VLAN{ID: 6, Parent: "bond0"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, interfaces(&net, tc.node, tc.list)) })
	}
}

func TestCompileRefusesWhatCannotIdentify(t *testing.T) {
	c, _ := Load(fstest.MapFS{"cluster.yaml": {Data: []byte("name: x\ndomain: x.example\nnodes:\n- {name: 'a b', roles: []}\n")}})
	_, err := Compile(c)
	require.ErrorContains(t, err, "compile identity index")
}

func TestANodesFileSaysHowItsStateIsEncryptedOrElseClusterYAML(t *testing.T) {
	tpm := &spec.State{Encrypt: spec.EncryptTPM, WithoutTPM: spec.EncryptHostKey}
	for name, tc := range map[string]struct{ cluster, node, want *spec.State }{
		"nobody asks":              {nil, nil, nil},
		"none is no encryption":    {&spec.State{Encrypt: "none"}, nil, nil},
		"the cluster asks":         {tpm, nil, tpm},
		"the node asks":            {nil, tpm, tpm},
		"the node wants none":      {tpm, &spec.State{Encrypt: "none"}, nil},
		"the node wants another":   {tpm, &spec.State{Encrypt: "passphrase"}, &spec.State{Encrypt: "passphrase"}},
		"without a TPM it refuses": {&spec.State{Encrypt: "tpm2"}, nil, &spec.State{Encrypt: "tpm2", WithoutTPM: "refuse"}},
	} {
		require.Equal(t, tc.want, stateOf(&spec.Cluster{State: tc.cluster}, spec.NodeFile{State: tc.node}), name)
	}
}

func TestManifestsAreCompiledAsTheyWereWritten(t *testing.T) {
	c := load(t, "../examples/edge")
	c.Manifests = []*manifests.Document{{Line: 1, Content: map[string]any{"a": "x < y && y > z"}}}
	files, err := Compile(c)
	require.NoError(t, err)
	require.Contains(t, string(files[facts.ManifestsFile]), "x < y && y > z", "no escapes of HTML, which are six times as long")
	require.True(t, strings.HasSuffix(string(files[facts.ManifestsFile]), "}]\n"))
}

// A node would read no more of them.
func TestManifestsThatANodeWouldNotReadAreNotBuilt(t *testing.T) {
	c := load(t, "../examples/edge")
	c.Manifests = []*manifests.Document{{Line: 1, Content: map[string]any{"a": strings.Repeat("\n", facts.MaxManifests/2)}}}
	_, err := Compile(c)
	require.EqualError(t, err, "compile the manifests: the objects of manifests/ have 67108905 bytes as JSON; at most 67108864 are read by a master: "+
		"give the masters less to apply")
}
