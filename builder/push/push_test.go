package push

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/customize"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/pki"
	"spore/wire/update"
)

func TestForceIsInWhatIsSigned(t *testing.T) {
	config := &cluster.Config{Cluster: spec.Cluster{
		Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example",
		Nodes: []spec.Node{{Name: "edge-02"}, {Name: "edge-01"}},
	}}
	c, nodes := cluster.Facts(config)
	tree := pki.New(&c)
	now := time.Now()
	_, err := tree.Update(&c, nodes, pki.Options{Now: now, Random: rand.Reader})
	require.NoError(t, err)
	keys, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	dir, hash := t.TempDir(), strings.Repeat("a", 64)
	content := customize.Content{
		RootHash: hash, ClusterHash: hash, ClusterFile: filepath.Join(dir, "part"), UKI: []byte("uki"),
	}
	require.NoError(t, os.WriteFile(content.ClusterFile, []byte("part"), 0o600))
	for _, force := range []bool{false, true} {
		u := &Update{}
		u.file, err = os.Create(filepath.Join(dir, "update"))
		require.NoError(t, err)
		require.NoError(t, u.write(Options{Config: config, Tree: tree, Now: now, Force: force}, content))
		data := make([]byte, u.Content().Size())
		_, err = u.Content().ReadAt(data, 0)
		require.NoError(t, err)
		h, err := update.Read(bufio.NewReader(bytes.NewReader(data)), keys)
		require.NoError(t, err)
		require.Equal(t, force, h.Force)
		require.Equal(t, []string{"edge-01", "edge-02"}, h.Nodes)
		require.NoError(t, u.Close())
	}
}
