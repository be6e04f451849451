package configuration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs/verbstest"
	"spore/cluster/facts"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

func TestFilesAreToldByTheirHashesAndSettingsByTheirText(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"cluster.yaml": "name: plant\n", "services/kafka.yaml": "{}\n", "services/large.yaml": strings.Repeat("x", maxText+1),
		"nodes/odd.yaml": "\xff", "manifests/app.yaml": "kind: ConfigMap\n", "compiled/cluster.json": "{}", "pki/a.crt": "x", "firmware/dbx.auth": "x",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	outside := filepath.Join(t.TempDir(), "secret.yaml")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "nodes/link.yaml")))
	m := node.New("test", paths.Root(t.TempDir()))
	m.Part.Dir = dir
	show := func(file string) ([]machine.ConfigurationFile, error) {
		events, _, err := verbstest.Do(t, m, &facts.Cluster{}, &facts.Node{Name: "a"}, Show, nodeapi.Order{Arguments: map[string]string{"file": file}})
		var all []machine.ConfigurationFile
		for _, e := range events {
			var part []machine.ConfigurationFile
			require.NoError(t, json.Unmarshal(e.Result, &part))
			all = append(all, part...)
		}
		return all, err
	}
	files, err := show("")
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		require.Empty(t, f.Text)
		names = append(names, f.Path)
	}
	require.Equal(t, []string{"cluster.yaml", "manifests/app.yaml", "nodes/odd.yaml", "services/kafka.yaml", "services/large.yaml"}, names)
	sum := sha256.Sum256([]byte("name: plant\n"))
	require.Equal(t, machine.ConfigurationFile{Path: "cluster.yaml", SHA256: hex.EncodeToString(sum[:]), Size: 12}, files[0])
	files, err = show("cluster.yaml")
	require.NoError(t, err)
	require.Equal(t, "name: plant\n", files[0].Text)
	for file, want := range map[string]string{
		"services/large.yaml": "more than", "nodes/odd.yaml": "is not text", "manifests/app.yaml": "is not shown", "pki/a.crt": "is not shown",
		"nodes/none.yaml": "has no nodes/none.yaml", "nodes/link.yaml": "read the cluster part", "services/../pki/../../x.yaml": "",
	} {
		_, err := show(file)
		require.Error(t, err, file)
		require.ErrorContains(t, err, want)
	}
}
