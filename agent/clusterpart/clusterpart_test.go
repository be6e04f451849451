package clusterpart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/services/kubernetes"
)

func TestWhoeverStartsTheMachineSaysHowSlowItIs(t *testing.T) {
	for name, c := range map[string]struct {
		settings   string
		slow, want int
	}{
		"nobody says":              {`{"services":{"kubernetes":{}}}`, 0, 1},
		"the command line":         {`{"services":{"kubernetes":{}}}`, 5, 5},
		"the configuration":        {`{"services":{"kubernetes":{"slowMachine":3}}}`, 0, 3},
		"the larger, said later":   {`{"services":{"kubernetes":{"slowMachine":3}}}`, 5, 5},
		"the larger, said at home": {`{"services":{"kubernetes":{"slowMachine":7}}}`, 5, 7},
		"without Kubernetes":       {`{}`, 5, 1},
	} {
		root := paths.Root(t.TempDir())
		if c.slow > 0 {
			require.NoError(t, bootinfo.Write(root.At(bootinfo.Path), bootinfo.Info{Slow: c.slow}))
		}
		file := filepath.Join(root.At(bootinfo.ClusterDir), facts.ClusterFile)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(c.settings), 0o644))
		got, err := Mounted(root).Cluster()
		require.NoError(t, err, name)
		require.Equal(t, c.want, kubernetes.Of(got.Services).Slow(), name)
	}
}

func TestManifestsAreReadAsTheyWereWritten(t *testing.T) {
	p := Part{Dir: t.TempDir()}
	objects, data, err := p.Manifests()
	require.NoError(t, err)
	require.Empty(t, objects, "a configuration without any has no file")
	require.Empty(t, data)

	file := filepath.Join(p.Dir, facts.ManifestsFile)
	text := `[{"file":"manifests/a.yaml","line":3,"object":{"kind":"ConfigMap","n":9007199254740993}}]` + "\n"
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	objects, data, err = p.Manifests()
	require.NoError(t, err)
	require.Equal(t, text, string(data))
	again, err := json.Marshal(objects)
	require.NoError(t, err)
	require.Equal(t, text, string(again)+"\n", "large numbers too")

	require.NoError(t, os.WriteFile(file, []byte("{"), 0o644))
	_, _, err = p.Manifests()
	require.ErrorContains(t, err, "read the cluster part: compiled/manifests.json: ")
}
