package staged

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/cluster/facts"
)

func TestAMasterNamesTheObjectsThatItHas(t *testing.T) {
	m := nodetest.Master(t, paths.Root(t.TempDir()), "master-01")
	master := &facts.Node{Name: "master-01", Roles: []string{"control-plane"}}
	sums, err := manifestsOf(m, master)
	require.NoError(t, err)
	require.Empty(t, sums)
	text := `[{"file":"manifests/a.yaml","line":1,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}}]`
	require.NoError(t, os.WriteFile(filepath.Join(m.Part.Dir, facts.ManifestsFile), []byte(text), 0o644))
	sums, err = manifestsOf(m, master)
	require.NoError(t, err)
	require.Contains(t, sums, "ConfigMap b/a")
	sums, err = manifestsOf(m, &facts.Node{Name: "worker-01", Roles: []string{"worker"}})
	require.NoError(t, err)
	require.Empty(t, sums)
}
