package cis

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	page   = "../../docs/cis.md"
	config = "../services/testdata/kubernetes"
	units  = "../../units"
)

// UPDATE=1 writes the page anew.
func TestThePageIsWhatTheListSaysOfOurNodes(t *testing.T) {
	dir, version, err := Module(".")
	require.NoError(t, err)
	list, err := ReadList(os.DirFS(dir), version)
	require.NoError(t, err)
	evidence, err := RenderedFrom(config, units)
	require.NoError(t, err)
	lines, err := Evaluate(list, evidence)
	require.NoError(t, err)
	text := Table(list, lines)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	}
	want, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "UPDATE=1 go test ./test/cis writes the page anew")
}
