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

// variable is where the manager says which directory has the credentials of a unit.
const variable = "CREDENTIALS_DIRECTORY"

// Serve is spore-api.service of a machine, whose command is api. It sets a variable of the process, so that the test runs
// beside no other.
func Serve(t *testing.T, m *node.Machine, api func(context.Context, *node.Machine) error) (stop func()) {
	t.Helper()
	t.Setenv(variable, credentials(t, m))
	return serve(t, m, api)
}

// ServeAlone is Serve for a test that runs beside others, where no other one of the process has a machine that serves.
func ServeAlone(t *testing.T, m *node.Machine, api func(context.Context, *node.Machine) error) (stop func()) {
	t.Helper()
	_, taken := os.LookupEnv(variable)
	require.False(t, taken, "another machine serves, or the tests were begun with it")
	require.NoError(t, os.Setenv(variable, credentials(t, m)))
	t.Cleanup(func() { require.NoError(t, os.Unsetenv(variable)) })
	return serve(t, m, api)
}

// credentials makes the directory that the unit is given.
func credentials(t *testing.T, m *node.Machine) string {
	t.Helper()
	to := t.TempDir()
	dir := m.Root.At(paths.Secrets + "/api")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "its unit is given the agent's certificate and key, and nothing else")
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, "secret_"+e.Name()), data, 0o600))
	}
	return to
}

func serve(t *testing.T, m *node.Machine, api func(context.Context, *node.Machine) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- api(ctx, m) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}
