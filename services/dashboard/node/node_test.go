package node

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/dashboard"
	"spore/services/dashboard/serving"
	"spore/services/rendering"
)

func TestTheProgramIsToldWhereItListensAndWhoItIs(t *testing.T) {
	in := rendering.Input{
		Cluster: &facts.Cluster{Name: "plant", Services: spec.Services{&dashboard.Settings{Port: 9000}}}, Node: &facts.Node{Name: "edge-01"},
		Secret:     func(string) ([]byte, error) { return []byte("swordfish"), nil },
		SecretPath: func(ref string) string { return "/x/" + ref },
	}
	files, err := render(in)
	require.NoError(t, err)
	require.NotContains(t, string(files[serving.File].Data), "swordfish")
	c, err := serving.Parse(files[serving.File].Data)
	require.NoError(t, err)
	require.Equal(t, serving.Config{
		Node: "edge-01", Listen: ":9000",
		Server: serving.Pair{Certificate: "/x/dashboard-server-certificate", Key: "/x/dashboard-server-key"},
		Reader: serving.Pair{Certificate: "/x/dashboard-reader-certificate", Key: "/x/dashboard-reader-key"},
	}, c)

	in.Secret = func(ref string) ([]byte, error) {
		if ref == dashboard.ReaderKey {
			return nil, errors.New("it is not in the bundle")
		}
		return nil, nil
	}
	_, err = render(in)
	require.ErrorContains(t, err, "what the pages are served with: it is not in the bundle")
	in.Cluster.Services = nil
	_, err = render(in)
	require.ErrorContains(t, err, "add services/dashboard.yaml")
	for _, text := range []string{"", "{}", `{"node":"a","listen":":1"}`, `{"node":"a","listen":":1","server":{"certificate":"c"}}`} {
		_, err := serving.Parse([]byte(text))
		require.ErrorContains(t, err, serving.File, text)
	}
}
