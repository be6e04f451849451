package staged

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/services"
	"spore/services/dataversion"
)

func TestVersionsOfTheRootThatRuns(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	var said []string
	m.Say = func(s string) { said = append(said, s) }
	require.Nil(t, versions(m, services.Ours()), "a root without a manifest")
	nodetest.Put(t, m, dataversion.ManifestPath, "text")
	require.Nil(t, versions(m, services.Ours()))
	require.Len(t, said, 2)
	require.Contains(t, said[1], "it is not known whether another root reads this node's data: read the manifest of an image")
	nodetest.Put(t, m, dataversion.ManifestPath, `{"payloads":[{"name":"etcd","version":"v3.6.16"}]}`)
	require.Equal(t, map[string]string{"etcd": "v3.6.16"}, versions(m, services.Ours()))
	require.Len(t, said, 2)
}

func TestOnlyTheDataOfTheNodesRolesHoldsItBack(t *testing.T) {
	newer, older := map[string]string{"etcd": "v3.6.16"}, map[string]string{"etcd": "v3.4.1"}
	require.Contains(t, unsafeBack(services.Ours(), newer, older, []string{"control-plane"}), "the way back of etcd from v3.6.16 to v3.4.1 is unsafe")
	require.Empty(t, unsafeBack(services.Ours(), newer, older, []string{"mqtt-broker"}))
	require.Empty(t, unsafeBack(services.Ours(), older, newer, []string{"control-plane"}))
}

func TestARootThatCannotBeLookedAtIsARiskThatIsSaid(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	refused, said := lookAt(m, "/no/root", "/no/tree", "aa")
	require.Empty(t, refused)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "it is not known whether the new root has a driver for each device: ")
}
