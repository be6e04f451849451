package bundle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	taken "spore/agent/bundle"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/agent/verbs/verbstest"
	"spore/pki"
	"spore/services/service"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// withBundle is a machine that was given a bundle by its firmware, and keeps it.
func withBundle(t *testing.T) *node.Machine {
	t.Helper()
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	nodetest.KeepsState(t, m)
	tree := nodetest.WithKeys(t, m)
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	n, err := m.Part.Node("node-00000")
	require.NoError(t, err)
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), "spore.bundle"), data, 0o600))
	require.NoError(t, taken.Take(t.Context(), m, false))
	return m
}

func show(t *testing.T, m *node.Machine) (b machine.Bundle, done string) {
	t.Helper()
	a := verbstest.Call(t, m, "bundle", nodeapi.Order{}, Show)
	require.NoError(t, a.Err)
	require.Len(t, a.Results, 1)
	require.NoError(t, json.Unmarshal(a.Results[0], &b))
	return b, a.Done
}

func TestANodeSaysWhichBundleItHasAndWhenItsCertificatesEnd(t *testing.T) {
	m := withBundle(t)
	b, done := show(t, m)
	require.Equal(t, "bundle 1, with 2 certificates", done)
	require.Equal(t, []any{uint64(1), "firmware", "host", ""}, []any{b.Serial, b.From, b.Sealed, b.Problem})
	require.WithinDuration(t, time.Now(), b.Made, time.Minute)
	var names []string
	for _, c := range b.Certificates {
		names = append(names, c.Name)
		require.WithinDuration(t, time.Now().Add(pki.LeafLife), c.Ends, time.Hour, c.Name)
		require.Empty(t, c.Problem)
	}
	require.Equal(t, []string{"agent", "mqtt-server"}, names)
	require.Empty(t, b.Pending)
}

func TestNoSecretIsInTheAnswer(t *testing.T) {
	m := withBundle(t)
	a := verbstest.Call(t, m, "bundle", nodeapi.Order{}, Show)
	require.NoError(t, a.Err)
	files, err := filepath.Glob(m.Root.At(paths.Secrets + "/*/*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NotContains(t, string(a.Results[0]), string(text[:min(len(text), 16)]), f)
	}
}

func TestWhatIsNotAsItShouldBeIsSaid(t *testing.T) {
	m := withBundle(t)
	certificates, err := filepath.Glob(m.Root.At(paths.Secrets + "/*/tls-cert"))
	require.NoError(t, err)
	require.Len(t, certificates, 1)
	require.NoError(t, os.WriteFile(certificates[0], []byte("nothing"), 0o600))
	require.NoError(t, (&renewal.File{Path: m.Root.At(paths.Renewal)}).Change(func(s *renewal.State) {
		s.Add(map[string]service.Way{"mosquitto": service.Restarts}, renewal.Clock())
		s.Problem = "kafka-02 restarts first"
	}))
	b, _ := show(t, m)
	require.Equal(t, "it is not PEM", b.Certificates[1].Problem)
	require.Equal(t, []string{"mosquitto"}, b.Pending)
	require.Equal(t, "kafka-02 restarts first", b.Waits)

	require.NoError(t, os.WriteFile(m.Root.At(paths.BundleInfo), []byte("{"), 0o600))
	a := verbstest.Call(t, m, "bundle", nodeapi.Order{}, Show)
	require.ErrorContains(t, a.Err, "read what became of the bundle")
}

func TestANodeWithoutABundleSaysSo(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	b, done := show(t, m)
	require.Equal(t, "the node has no bundle", done)
	require.Equal(t, machine.Bundle{}, b)
}
