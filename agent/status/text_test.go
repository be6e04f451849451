package status

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/delivery"
	"spore/agent/paths"
	"spore/agent/sealed"
)

func TestStatusIsWhatTheDaemonWroteLast(t *testing.T) {
	root := paths.Root(t.TempDir())
	require.NoError(t, os.MkdirAll(filepath.Dir(root.At(paths.Status)), 0o755))
	_, err := Show(root, false)
	require.ErrorContains(t, err, "there is no status yet")
	l := Line{Spore: 1, Cluster: "plant", Node: "a", Matched: &Matched{By: "mac", Value: "x"}, Roles: []string{"dns-server"}, System: "running"}
	require.NoError(t, os.WriteFile(root.At(paths.Status), []byte(l.String()+"\n"), 0o644))
	line, err := Show(root, true)
	require.NoError(t, err)
	require.Equal(t, l.String()+"\n", line)
	require.Contains(t, Text(l), "node       a of cluster plant, by mac x\nsystem     running\nroles      dns-server\n")
	l.Bundle = &delivery.Info{Serial: 3, From: delivery.Medium, Sealed: sealed.TPM, Problem: "the bundle stays"}
	require.Contains(t, Text(l), "bundle     3, from the boot medium, sealed to the TPM\n           the bundle stays\n")
	require.Contains(t, Text(Line{Cluster: "plant", Problem: "who is it"}), "problem    who is it\n")
}
