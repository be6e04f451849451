package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/services/dataversion"
)

func TestVersionsAreReadOnceWhenAllIsUp(t *testing.T) {
	var said []string
	a := &agent{m: &node.Machine{Root: paths.Root(t.TempDir()), Say: func(s string) { said = append(said, s) }}}
	name := a.m.Root.At(dataversion.ManifestPath)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	write := func(text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o644)) }
	write(`{"payloads":[{"name":"etcd","version":"v3.6.1"}]}`)
	require.Nil(t, a.versions())
	a.complete = true
	a.line.Versions = a.versions()
	require.Equal(t, map[string]string{"etcd": "v3.6.1"}, a.line.Versions)
	write("damaged")
	require.Equal(t, map[string]string{"etcd": "v3.6.1"}, a.versions())

	a.line.Versions = nil
	a.line.Versions = a.versions()
	require.Empty(t, a.line.Versions)
	require.NotNil(t, a.line.Versions)
	require.NoError(t, os.Remove(name))
	require.Empty(t, a.versions())
	require.Len(t, said, 1, "an image without a readable manifest is said once")
	a.line.Versions = nil
	require.Empty(t, a.versions())
	require.Contains(t, said[1], "say which versions keep data: open ")
}
