package kubeapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/ceph"
)

func cephCluster(c *ceph.Settings) *facts.Cluster {
	out := testCluster()
	out.Services.Set(c)
	out.Members = map[string][]string{"ceph-mon": {"storage-01"}}
	return out
}

// classes are the names of the classes that are for claims which name none, and of all.
func classes(t *testing.T, c *facts.Cluster) (usual, all []string) {
	list, err := Objects(c)
	require.NoError(t, err)
	for _, o := range list {
		if o["kind"] != "StorageClass" {
			continue
		}
		_, err := pathOf(o)
		require.NoError(t, err)
		m := o["metadata"].(map[string]any)
		all = append(all, m["name"].(string))
		if a, _ := m["annotations"].(map[string]any); a[defaultClass] == "true" {
			usual = append(usual, m["name"].(string))
		}
	}
	return usual, all
}

func TestOneClassIsTheDefault(t *testing.T) {
	nobody := cephCluster(&ceph.Settings{})
	nobody.Members = nil
	for _, tt := range []struct {
		name       string
		cluster    *facts.Cluster
		usual, all []string
	}{
		{"without Ceph", testCluster(), []string{"local"}, []string{"local"}},
		{"with Ceph that no node runs", nobody, []string{"local"}, []string{"local"}},
		{"with Ceph", cephCluster(&ceph.Settings{}), []string{"ceph-rbd"}, []string{"local", "ceph-rbd"}},
		{"with Ceph that Kubernetes has no pool of", cephCluster(&ceph.Settings{Pools: []ceph.Pool{{Name: "mine"}}}), []string{"local"}, []string{"local"}},
		{"with two pools", cephCluster(&ceph.Settings{Pools: []ceph.Pool{{Name: "fast", Kubernetes: true}, {Name: "mine"}, {Name: "slow", Kubernetes: true}}}),
			[]string{"ceph-rbd"}, []string{"local", "ceph-rbd", "ceph-rbd-slow"}},
		{"with file systems that Kubernetes has none of", cephCluster(&ceph.Settings{Filesystems: []ceph.Filesystem{{Name: "mine"}}}), []string{"ceph-rbd"}, []string{"local", "ceph-rbd"}},
		{"with file systems and no pool", cephCluster(&ceph.Settings{Pools: []ceph.Pool{{Name: "mine"}}, Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}, {Name: "more", Kubernetes: true}}}),
			[]string{"local"}, []string{"local", "cephfs", "cephfs-more"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			usual, all := classes(t, tt.cluster)
			require.Equal(t, tt.usual, usual)
			require.Equal(t, tt.all, all)
		})
	}
}

// The objects of volumes are in testdata/volumes.json; UPDATE=1 writes them.
func TestTheObjectsOfVolumes(t *testing.T) {
	var list []Object
	for _, a := range volumeObjects(cephCluster(&ceph.Settings{Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}}})) {
		_, err := pathOf(a.object)
		require.NoError(t, err)
		list = append(list, a.object)
	}
	got, err := json.MarshalIndent(list, "", "  ")
	require.NoError(t, err)
	file := filepath.Join("testdata", "volumes.json")
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got)+"\n")
}
