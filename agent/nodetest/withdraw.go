package nodetest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/cluster/facts"
	"spore/storage/atomicfile"
)

// Withdraw has the machine's configuration withdraw certificates, as one does that is taken at once.
func Withdraw(t *testing.T, m *node.Machine, serials ...string) {
	t.Helper()
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	c.Withdrawn = serials
	require.NoError(t, atomicfile.WriteJSON(filepath.Join(m.Part.Dir, facts.ClusterFile), c))
}
