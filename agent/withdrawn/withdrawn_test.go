package withdrawn

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/cluster/facts"
)

func TestTheCertificatesThatAreWithdrawnAreReadAgain(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	said := 0
	w := Of(m.Part, func(string) { said++ })
	require.Empty(t, w.Now())
	nodetest.Withdraw(t, m, "4f", "5f")
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
	nodetest.Withdraw(t, m)
	require.Empty(t, w.Now(), "a configuration takes it back")
}
