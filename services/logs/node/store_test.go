package node

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/logs"
	"spore/services/logs/store"
	"spore/services/rendering"
)

// input is a node of two with a store.
func input(name string, s *logs.Settings) rendering.Input {
	c := &facts.Cluster{Name: "plant", Members: map[string][]string{
		logs.Role: {"observer-01", "observer-02"}, "worker": {"edge-01", "observer-02"}, "dns-server": {"edge-01"},
	}}
	if s != nil {
		c.Services = spec.Services{s}
	}
	return rendering.Input{
		Cluster: c, Node: &facts.Node{Name: name},
		Secret:     func(string) ([]byte, error) { return []byte("swordfish"), nil },
		SecretPath: func(ref string) string { return "/run/credentials/x/secret_" + ref },
	}
}

func rendered(t *testing.T, in rendering.Input) store.Config {
	files, err := toTaker(in)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.EqualValues(t, 0o600, files[store.File].Mode)
	require.NotContains(t, string(files[store.File].Data), "swordfish")
	c, err := store.Parse(files[store.File].Data)
	require.NoError(t, err)
	return c
}

func TestTheTakerKnowsEveryNodeAndTheStore(t *testing.T) {
	require.Equal(t, store.Config{
		Cluster: "plant", Node: "observer-02", Data: "/var/lib/spore-logs-store", Days: 30, Queue: 2 << 30,
		Roles: map[string]string{"observer-01": "logs-store", "observer-02": "logs-store,worker", "edge-01": "dns-server,worker"},
		URL:   "http://127.0.0.1:9428", User: "spore", PasswordFile: "/run/credentials/x/secret_logs-store-password",
	}, rendered(t, input("observer-02", &logs.Settings{})))
}

func TestTheTakerHasItsDataOnTheDiskOfTheStore(t *testing.T) {
	in := input("observer-02", &logs.Settings{})
	in.Node.Disks = []spec.Disk{{Use: "metrics"}, {Use: logs.Use}}
	require.Equal(t, "/var/lib/logs-disks/1/spore-logs-store", rendered(t, in).Data)
}

func TestOfTwoStoresOneGivesOn(t *testing.T) {
	ref := func(name string) *spec.SecretRef { return &spec.SecretRef{SecretRef: name} }
	s := &logs.Settings{Days: 7, Queue: "1GiB", Give: []logs.Receiver{
		{Name: "plant", Sources: []string{"audit"}, Priority: "warning", Syslog: &logs.Syslog{Address: "log.example:6514", CA: "PEM"}},
		{Name: "loki", Loki: &logs.Loki{URL: "https://loki.example", Tenant: "t", User: "u", Password: ref("loki")}},
		{Name: "loki-token", Loki: &logs.Loki{URL: "https://loki.example", Token: ref("token")}},
		{Name: "search", Elasticsearch: &logs.Elasticsearch{URL: "https://search.example", Index: "logs", APIKey: ref("key"), CA: "PEM"}},
		{Name: "file", File: &logs.File{Size: "1GiB"}},
	}}
	got := rendered(t, input("observer-01", s))
	all := []string{"journal", "pod", "audit"}
	require.Equal(t, 7, got.Days)
	require.EqualValues(t, 1<<30, got.Queue)
	require.Equal(t, []store.Receiver{
		{Name: "plant", Sources: []string{"audit"}, Least: 4, Syslog: &store.Syslog{Address: "log.example:6514", Transport: "tls", CA: "PEM"}},
		{Name: "loki", Sources: all, Least: 7, Loki: &store.Loki{URL: "https://loki.example", Tenant: "t", User: "u", PasswordFile: "/run/credentials/x/secret_loki"}},
		{Name: "loki-token", Sources: all, Least: 7, Loki: &store.Loki{URL: "https://loki.example", TokenFile: "/run/credentials/x/secret_token"}},
		{Name: "search", Sources: all, Least: 7, Elasticsearch: &store.Elasticsearch{URL: "https://search.example", Index: "logs", APIKeyFile: "/run/credentials/x/secret_key", CA: "PEM"}},
		{Name: "file", Sources: all, Least: 7, File: &store.FileReceiver{Size: 1 << 30}},
	}, got.Give)
	require.Empty(t, rendered(t, input("observer-02", s)).Give)
}

func TestATakerThatCannotBeTold(t *testing.T) {
	_, err := toTaker(input("observer-01", nil))
	require.ErrorContains(t, err, "add services/logs.yaml")
	in := input("observer-01", &logs.Settings{})
	in.Secret = func(string) ([]byte, error) { return nil, errors.New("it is not there") }
	_, err = toTaker(in)
	require.EqualError(t, err, "what VictoriaLogs is asked with: it is not there")
	_, err = store.Parse([]byte("["))
	require.ErrorContains(t, err, "store.json is malformed: ")
}
