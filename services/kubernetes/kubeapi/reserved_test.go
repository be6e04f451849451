package kubeapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/manifests"
	"spore/services/ceph"
)

// Nobody's folder has an object that the masters apply besides: two would write it against each other.
func TestWhatIsAppliedHereIsNoManifest(t *testing.T) {
	c := cephCluster(&ceph.Settings{
		Pools:       []ceph.Pool{{Name: "fast", Kubernetes: true}, {Name: "slow", Kubernetes: true}},
		Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}, {Name: "more", Kubernetes: true}},
	})
	list, err := Objects(c)
	require.NoError(t, err)
	list = append(list, dnsSlice(dnsServers(testCluster(), testNodes())), Object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "ippools." + calicoGroup},
	})
	require.Greater(t, len(list), 25)
	for _, o := range list {
		group := ""
		if version := o["apiVersion"].(string); version != "v1" {
			group = version[:len(version)-len("/v1")]
		}
		metadata := o["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		require.NotEmpty(t, manifests.Reserved(group, o["kind"].(string), namespace, metadata["name"].(string)), nameOf(o))
	}
	require.NotEmpty(t, manifests.Reserved("", "ConfigMap", "kube-system", "spore-manifests"), "the parent of the set")
	require.Empty(t, manifests.Reserved("", "ConfigMap", "default", "spore-of-mushrooms"))
}
