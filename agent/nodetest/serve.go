package nodetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
)

// Serve is spore-api.service of a machine, whose command is api.
func Serve(t *testing.T, m *node.Machine, api func(context.Context, *node.Machine) error) (stop func()) {
	t.Helper()
	credentials := t.TempDir()
	dir := m.Root.At(paths.Secrets + "/api")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "its unit is given the agent's certificate and key, and nothing else")
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(credentials, "secret_"+e.Name()), data, 0o600))
	}
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- api(ctx, m) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}
