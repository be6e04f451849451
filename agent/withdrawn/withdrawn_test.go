package withdrawn

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/cluster/facts"
	"spore/storage/atomicfile"
)

// withdraw has the machine's configuration withdraw certificates, as one does that is taken at once.
func withdraw(t *testing.T, m *node.Machine, serials ...string) {
	t.Helper()
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	c.Withdrawn = serials
	require.NoError(t, atomicfile.WriteJSON(filepath.Join(m.Part.Dir, facts.ClusterFile), c))
}

func TestTheCertificatesThatAreWithdrawnAreReadAgain(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	said := 0
	w := Of(m.Part, func(string) { said++ })
	require.Empty(t, w.Now())
	withdraw(t, m, "4f", "5f")
	require.Equal(t, map[string]bool{"4f": true, "5f": true}, w.Now())
	file := filepath.Join(m.Part.Dir, facts.ClusterFile)
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.Remove(file))
	require.Len(t, w.Now(), 2, "it is being replaced")
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o644))
	require.Len(t, w.Now(), 2, "what was known is refused all the same")
	require.Len(t, w.Now(), 2)
	require.Equal(t, 1, said, "it is said once")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, good, 0o644))
	require.Len(t, w.Now(), 2)
	withdraw(t, m)
	require.Empty(t, w.Now(), "a configuration takes it back")
}
