package cluster

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/service"
)

// store is a role of a configuration's own, with a port and a disk.
type store struct{ Name string }

func (d store) Service() service.Service {
	return service.Service{
		Name:     d.Name,
		Roles:    []service.Role{{Name: d.Name, Target: d.Name + ".target", Programs: []string{d.Name}}},
		Settings: func() spec.Settings { return &storeSettings{name: d.Name} },
		Programs: []service.Program{{
			Name: d.Name, Unit: d.Name + ".service", User: d.Name,
			Ports: []service.Port{service.TCP(6379, "clients").Set(d.Name + ".port")},
		}},
		Disks: map[string]string{d.Name: d.Name},
		Port:  func(s spec.Services, _ string) int { return s.Get(d.Name).(*storeSettings).Port },
	}
}

type storeSettings struct {
	name string `yaml:"-,omitempty"`
	Port int    `yaml:"port" json:"port"`
}

func (s *storeSettings) Service() string { return s.name }

// withStores is the edge example with two such roles: as a folder, and loaded by a program that knows them.
func withStores(t *testing.T, edits map[string]string) (fstest.MapFS, *Config, string) {
	t.Helper()
	f := folder(t, "../examples/edge")
	f["cluster.yaml"].Data = []byte(`name: plant
id: 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11
domain: plant.example
network: {nodeSubnets: [10.77.0.0/24]}
services: [mqtt, valkey, series]
nodes:
  - {name: edge-01, macs: [52:54:00:77:00:0b], ips: [10.77.0.11], roles: [valkey, mqtt-broker, series]}
  - {name: edge-02, macs: [52:54:00:77:00:0c], ips: [10.77.0.12], roles: [mqtt-broker]}
`)
	delete(f, "services/dns.yaml")
	f["services/valkey.yaml"] = &fstest.MapFile{Data: []byte("port: 6380\n")}
	f["services/series.yaml"] = &fstest.MapFile{Data: []byte("port: 8086\n")}
	f["nodes/edge-01.yaml"].Data = []byte("node: edge-01\ndisks:\n  - {use: valkey, selector: {serial: S1}}\n")
	for name, text := range edits {
		f[name] = &fstest.MapFile{Data: []byte(text)}
	}
	l := &loader{fsys: f}
	c := &Config{services: map[string]*source{}}
	c.cluster = l.file(clusterFile, &c.Cluster)
	c.Image.FillDefaults()
	var err error
	c.list, err = services.With([]services.Definition{store{"valkey"}, store{"series"}})
	require.NoError(t, err)
	l.loadServices(c)
	l.statFiles(c)
	l.loadNodes(c)
	return f, c, serious(append(l.report, Validate(c, Options{})...))
}

func TestARoleOfItsOwnIsARowOfTheConfiguration(t *testing.T) {
	f, c, report := withStores(t, nil)
	require.Empty(t, report)
	require.Equal(t, append(services.Ours().Names(), "series", "valkey"), c.List().Names())
	files, err := Compile(c)
	require.NoError(t, err)
	require.Equal(t, []string{"mqtt-broker", "series", "valkey"}, node(t, files, "edge-01").Roles)
	require.Contains(t, files, "services/valkey.yaml")
	var shared struct {
		Roles    map[string]store
		Services map[string]struct{ Port int }
		Members  map[string][]string
	}
	require.NoError(t, json.Unmarshal(files[facts.ClusterFile], &shared))
	require.Equal(t, map[string]store{"series": {"series"}, "valkey": {"valkey"}}, shared.Roles)
	require.Equal(t, 6380, shared.Services["valkey"].Port)
	require.Equal(t, 8086, shared.Services["series"].Port)
	require.Equal(t, []string{"edge-01"}, shared.Members["valkey"])

	_, plain := Check(f, Options{})
	text := plain.String()
	for _, want := range []string{
		`services/valkey.yaml:1:1: error: there is no service "valkey"`, `error: the service "valkey" is unknown`,
		`error: the role "valkey" is unknown`, `error: the use of a disk "valkey" is unknown; write state, osd, kafka, metrics or logs`,
	} {
		require.Contains(t, text, want, "a folder without the role")
	}
}

func TestAFolderWithRolesIsCompiledAndReadByNodes(t *testing.T) {
	files := folder(t, "../examples/own-valkey")
	files["roles/idle.yaml"] = &fstest.MapFile{Data: []byte("description: a role that nobody lists\nunits: [idle.service]\n")}
	c, report := Check(files, Options{})
	require.Empty(t, serious(report))
	require.Equal(t, append(services.Ours().Names(), "gateway", "idle", "valkey"), c.List().Names())
	part, err := Compile(c)
	require.NoError(t, err)
	require.Equal(t, []string{"gateway", "valkey"}, node(t, part, "edge-01").Roles)
	var shared facts.Cluster
	require.NoError(t, services.ReadCluster(part[facts.ClusterFile], &shared))
	l := services.Of(&shared)
	require.Equal(t, append(services.Ours().Names(), "gateway", "valkey"), l.Names(), "nodes hear of what cluster.yaml lists")
	require.True(t, services.Enabled(&shared, "valkey"))
	settings := shared.Services.Get("valkey").(*role.Settings)
	require.Equal(t, []string{"valkey-line-a", "valkey-gateway"}, settings.SecretRefs())
	require.Equal(t, 6379, settings.Port("port"))
	n := node(t, part, "edge-01")
	require.Equal(t, []string{"gateway.target", "valkey.target"}, services.NodeTargets(&shared, &n))
	again, err := json.Marshal(shared)
	require.NoError(t, err)
	require.Equal(t, string(part[facts.ClusterFile]), string(again)+"\n")

	c.Cluster.Services = nil
	c.Services = nil
	part, err = Compile(c)
	require.NoError(t, err)
	require.NotContains(t, string(part[facts.ClusterFile]), `"roles"`)
}

// Two rows never have one name, on or off: what was made for one would be taken for that of the other.
func TestARoleWithANameOfAServiceThatIsOff(t *testing.T) {
	files := folder(t, "../examples/own-valkey")
	files["roles/store.yaml"] = &fstest.MapFile{Data: []byte("description: a store\nunits: [store.service]\nsecrets: {mqtt-password: {length: 32}}\n")}
	c, report := Check(files, Options{})
	require.Equal(t, "roles/store.yaml:1:1: error: the role store has the secret mqtt-password, which is that of mqtt; choose another\n", serious(report))
	require.Equal(t, []string{"gateway", "valkey"}, c.List().OwnNames(), "the others are there")
}

func TestMistakesWithARoleOfItsOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		file, text, want string
	}{
		"a port that another program has": {"services/valkey.yaml", "port: 8883\n",
			"services/mqtt.yaml:7:7: error: port 8883/tcp is not free on node edge-01: valkey has 8883/tcp there for clients, as services/valkey.yaml:1:7 has it"},
		"the port of another of its own": {"services/series.yaml", "port: 6380\n",
			"services/series.yaml:1:7: error: port 6380/tcp is not free on node edge-01: valkey has 6380/tcp there for clients, as services/valkey.yaml:1:7 has it; write another port, such as 6379"},
		"a setting that it does not have": {"services/valkey.yaml", "prot: 6380\n", `services/valkey.yaml:1:1: error: `},
		"a disk on a node without the role": {"nodes/edge-02.yaml", "node: edge-02\ndisks:\n  - {use: valkey, selector: {serial: S1}}\n",
			"nodes/edge-02.yaml:3:11: error: the disk is for valkey, but node edge-02 has no role valkey; add the role in cluster.yaml or remove the disk"},
		"a use of disks that there is not": {"nodes/edge-01.yaml", "node: edge-01\ndisks:\n  - {use: valky, selector: {serial: S1}}\n",
			`nodes/edge-01.yaml:3:11: error: the use of a disk "valky" is unknown; did you mean "valkey"?`},
	} {
		_, _, report := withStores(t, map[string]string{tt.file: tt.text})
		require.Contains(t, report, tt.want, name)
	}
}
