package staged

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/services/kubernetes/applyset"
	"spore/wire/update"
)

func TestAMasterNamesTheObjectsThatItHas(t *testing.T) {
	m := nodetest.Master(t, paths.Root(t.TempDir()), "master-01")
	master := &facts.Node{Name: "master-01", Roles: []string{"control-plane"}}
	told := func(n *facts.Node) (update.Change, error) {
		var c update.Change
		err := tellManifests(m, n, &c)
		return c, err
	}
	c, err := told(master)
	require.NoError(t, err)
	require.Empty(t, c.Manifests)
	require.Empty(t, c.Kept)
	text := `[{"file":"manifests/a.yaml","line":1,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}}]`
	require.NoError(t, os.WriteFile(filepath.Join(m.Part.Dir, facts.ManifestsFile), []byte(text), 0o644))
	c, err = told(master)
	require.NoError(t, err)
	require.Contains(t, c.Manifests, "ConfigMap b/a")
	require.Empty(t, c.Kept, "nothing is known of what the API server has")
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(applyset.File)), 0o755))
	state := applyset.State{Stays: map[string]string{"ConfigMap b/a": "was there before the folder had it"}}
	require.NoError(t, applyset.Write(m.Root.At(applyset.File), state))
	c, err = told(master)
	require.NoError(t, err)
	require.False(t, c.MoreKept)
	require.Equal(t, map[string]update.Kept{"ConfigMap b/a": {Why: "was there before the folder had it"}}, c.Kept)
	state.MoreStay = true
	require.NoError(t, applyset.Write(m.Root.At(applyset.File), state))
	c, err = told(master)
	require.NoError(t, err)
	require.True(t, c.MoreKept)
	require.NoError(t, os.WriteFile(m.Root.At(applyset.File), []byte("{"), 0o644))
	_, err = told(master)
	require.Error(t, err)
	c, err = told(&facts.Node{Name: "worker-01", Roles: []string{"worker"}})
	require.NoError(t, err)
	require.Empty(t, c)
}
