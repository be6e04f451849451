package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/logs"
	"spore/services/logs/sending"
	"spore/services/rendering"
)

// ofSender is the input of a node that sends.
func ofSender() rendering.Input {
	in := input("edge-01", &logs.Settings{})
	in.Cluster.Domain, in.Dir = "plant.example", "/run/spore-logs"
	in.Hosts = strings.NewReader("10.0.0.1 observer-01.plant.example observer-01\n10.0.0.2 box.plant.example observer-02\n")
	in.Authority = func(string) ([]byte, error) { return []byte("PEM"), nil }
	return in
}

func TestTheSenderKnowsEachStore(t *testing.T) {
	files, err := toSender(ofSender())
	require.NoError(t, err)
	require.Len(t, files, 4)
	require.Equal(t, "STORE=observer-01\n", string(files["stores/1"].Data))
	require.Equal(t, "STORE=observer-02\n", string(files["stores/2"].Data))
	require.Equal(t, "PEM", string(files["agent.crt"].Data))
	require.NotContains(t, string(files[sending.File].Data), "swordfish")
	c, err := sending.Parse(files[sending.File].Data)
	require.NoError(t, err)
	require.Equal(t, sending.Config{
		Stores: []sending.Store{
			{Name: "observer-01", Address: "observer-01.plant.example:8643", ServerName: "observer-01.plant.example"},
			{Name: "observer-02", Address: "box.plant.example:8643", ServerName: "box.plant.example"}, // as its certificate has it
		},
		CA: "/run/spore-logs/agent.crt", Certificate: "/run/credentials/x/secret_logs-sender-certificate",
		Key: "/run/credentials/x/secret_logs-sender-key",
	}, c)
}

func TestWhatTheSenderCannotDoWithout(t *testing.T) {
	for want, change := range map[string]func(*rendering.Input){
		"no store of logs; add services/logs.yaml": func(in *rendering.Input) { in.Cluster.Services = nil },
		"give a node the role logs-store":          func(in *rendering.Input) { delete(in.Cluster.Members, logs.Role) },
		"3 stores of logs; 2 are possible":         func(in *rendering.Input) { in.Cluster.Members[logs.Role] = []string{"a", "b", "c"} },
		"what the node sends logs with: not given": func(in *rendering.Input) {
			in.Secret = func(string) ([]byte, error) { return nil, errors.New("not given") }
		},
		"the authority of the nodes: not there": func(in *rendering.Input) {
			in.Authority = func(string) ([]byte, error) { return nil, errors.New("not there") }
		},
		"hosts file of the cluster part: not given": func(in *rendering.Input) { in.Hosts = nil },
	} {
		in := ofSender()
		change(&in)
		_, err := toSender(in)
		require.ErrorContains(t, err, want)
	}
}
