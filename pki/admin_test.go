package pki

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARightInKubernetesEndsWithinEightHours(t *testing.T) {
	tree, c, nodes := made(t)
	o := options(begin)
	require.NotContains(t, tree.Leaves, KubernetesAdmin)
	for life, ok := range map[time.Duration]bool{
		time.Minute: false, minPersonLife: true, KubernetesLife: true, KubernetesLife + time.Second: false, LeafLife: false,
	} {
		for name, make := range map[string]func() (*Admin, error){
			"everything": func() (*Admin, error) { return tree.Admin(c, "anna", life, o) },
			"a group":    func() (*Admin, error) { return tree.Member(c, "anna", "spore:view", life, o) },
		} {
			made, err := make()
			if !ok {
				require.ErrorContains(t, err, "is out of bounds; choose 5m0s to 8h0m0s", "%s for %s", name, life)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, o.Now.Add(life), made.Ends)
		}
	}
	_, err := tree.Access(c, NodeReader, "anna", LeafLife, o)
	require.NoError(t, err, "nodes can be told whom to refuse")

	// A folder of before has one.
	old := *tree.Leaves["node-admin"]
	tree.Leaves[KubernetesAdmin] = &old
	require.Equal(t, []Change{{KubernetesAdmin, "dropped", "it is no longer needed"}}, update(t, tree, c, nodes, begin))
}
