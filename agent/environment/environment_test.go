package environment

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
)

func TestFilesOfAnEarlierIdentityGo(t *testing.T) {
	dir := t.TempDir()
	c := &facts.Cluster{Name: "plant"}
	require.NoError(t, Write(dir, c, &facts.Node{Name: "a", Roles: []string{"dns-server", "mqtt-broker"}}, 1<<30))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README"), nil, 0o644))
	before, err := filepath.Glob(dir + "/*.env")
	require.NoError(t, err)
	require.NoError(t, Write(dir, c, &facts.Node{Name: "a", Roles: []string{"dns-server"}}, 1<<30))
	after, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	require.Contains(t, before, dir+"/mosquitto.env")
	require.Equal(t, []string{dir + "/README", dir + "/cluster.env", dir + "/coredns.env", dir + "/node.env"}, after)
}
