package unit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/cluster/facts"
	"spore/services/kubernetes/applyset"
	"spore/storage/atomicfile"
)

func TestHowNewTheManifestsAre(t *testing.T) {
	root := paths.Root(t.TempDir())
	m := nodetest.Master(t, root, "master-01")
	require.NoError(t, bootinfo.Write(root.At(bootinfo.Path), bootinfo.Info{RootHash: "aa", ClusterHash: "11"}))
	require.Zero(t, serial(m), "nothing was pushed")
	record := slot.Record{Serial: 7, RootHash: "aa", ClusterHash: "22", Previous: "11"}
	require.NoError(t, os.MkdirAll(filepath.Dir(root.At(paths.Update)), 0o755))
	require.NoError(t, record.Write(root.At(paths.Update)))
	require.Zero(t, serial(m), "the node runs what was before the update")
	require.NoError(t, os.MkdirAll(root.At(paths.LiveParts), 0o755))
	require.NoError(t, os.Symlink("/run/spore/parts/22", root.At(paths.LiveNow)))
	require.EqualValues(t, 7, serial(m), "it took the update while it ran")
	require.NoError(t, os.Remove(root.At(paths.LiveNow)))
	require.NoError(t, bootinfo.Write(root.At(bootinfo.Path), bootinfo.Info{RootHash: "aa", ClusterHash: "22"}))
	require.EqualValues(t, 7, serial(m), "it was started with it")
}

func TestAMasterHasTheObjectsOfItsClusterPart(t *testing.T) {
	root := paths.Root(t.TempDir())
	m := nodetest.Master(t, root, "master-01")
	c, n := &facts.Cluster{}, &facts.Node{Name: "master-01"}
	none := keeper(m, nil, c, n)
	require.Empty(t, none.Objects)
	require.False(t, none.Alone)
	c.Members = map[string][]string{"control-plane": {"master-01", "master-02"}}
	several := keeper(m, nil, c, n)
	require.False(t, several.Alone)
	c.Members = map[string][]string{"control-plane": {"master-01"}}
	alone := keeper(m, nil, c, n)
	require.True(t, alone.Alone)
	_, err := atomicfile.Write(filepath.Join(m.Part.Dir, facts.ManifestsFile), []byte(`[{"file":"manifests/a.yaml","line":1,"object":{"kind":"ConfigMap"}}]`), 0o644)
	require.NoError(t, err)
	some := keeper(m, nil, c, n)
	require.Len(t, some.Objects, 1)
	require.NotEqual(t, none.Configuration.Hash, some.Configuration.Hash)
	_, err = atomicfile.Write(filepath.Join(m.Part.Dir, facts.ManifestsFile), []byte("?"), 0o644)
	require.NoError(t, err)
	require.NoFileExists(t, root.At(applyset.File))
	require.Nil(t, keeper(m, nil, c, n), "it keeps nothing, and the master does the rest")
	state, err := applyset.Read(root.At(applyset.File))
	require.NoError(t, err)
	require.Equal(t, 1, state.Count)
	require.Contains(t, state.Problems[0].Reason, "this master applies none of them")
	require.Contains(t, state.Problems[0].Reason, "compiled/manifests.json")
}
