package program_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/agent/render/program"
)

func TestAUnitGetsItsConfigurationBeforeItBecomesItsProgram(t *testing.T) {
	m, _ := nodetest.New(t, 2)
	t.Setenv("RUNTIME_DIRECTORY", "")
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	require.ErrorContains(t, program.Run(t.Context(), m, "coredns", nil), "RUNTIME_DIRECTORY is not set")
	dir := filepath.Join(t.TempDir(), "coredns")
	require.NoError(t, os.Mkdir(dir, 0o755))
	t.Setenv("RUNTIME_DIRECTORY", dir)
	require.ErrorContains(t, program.Run(t.Context(), m, "coredns", nil), "read which node this is")
	nodetest.Is(t, m, "")
	require.ErrorContains(t, program.Run(t.Context(), m, "coredns", nil), "this machine does not match any node")

	nodetest.Is(t, m, "node-00001")
	require.Error(t, program.Run(t.Context(), m, "frobnicate", nil), "nobody knows such a program")
	require.NoError(t, program.Run(t.Context(), m, "coredns", nil))
	require.FileExists(t, filepath.Join(dir, "Corefile"))
	require.ErrorContains(t, program.Run(t.Context(), m, "coredns", []string{"/no/such/program"}), "run /no/such/program: ")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, program.Run(stopped, m, "coredns", []string{"/bin/false"}), context.Canceled)
	require.ErrorContains(t, program.Run(t.Context(), m, "mosquitto", nil), "tls", "its secrets were not given to the unit")
}
