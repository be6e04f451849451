package initialize

import (
	"bytes"
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/cluster"
)

func TestEveryStarterFolderIsValidAndHasItsOwnID(t *testing.T) {
	for example, nodes := range map[string]int{starter: 6, "plant": 6, "kubernetes": 2, "edge": 3, "observed": 2} {
		t.Run(example, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			names, err := Write(dir, example, rand.Reader)
			require.NoError(t, err)
			require.Contains(t, names, "cluster.yaml")

			c, report := cluster.Check(os.DirFS(dir), cluster.Options{Strict: true})
			require.False(t, report.Failed(), report.String())
			require.Len(t, c.Cluster.Nodes, nodes)
			require.Len(t, c.Cluster.ID, 36)

			other, _ := cluster.Check(os.DirFS(again(t, example)), cluster.Options{})
			require.NotEqual(t, other.Cluster.ID, c.Cluster.ID)
		})
	}
}

func again(t *testing.T, example string) string {
	dir := t.TempDir()
	_, err := Write(dir, example, rand.Reader)
	require.NoError(t, err)
	return dir
}

func TestEachFileLeadsToItsSchema(t *testing.T) {
	for _, example := range exampleNames {
		dir := again(t, example)
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".yaml" {
				return err
			}
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			if role := filepath.Join(dir, "roles", filepath.Base(name)); filepath.Base(filepath.Dir(name)) == "services" && exists(role) {
				return nil // The schema of a role's settings is what `spore schema` makes of the role.
			}
			if filepath.Base(filepath.Dir(name)) == "alerts" {
				return nil // Rules are in the format of Prometheus.
			}
			schema, found := strings.CutPrefix(strings.SplitN(string(data), "\n", 2)[0], "# yaml-language-server: $schema=")
			require.True(t, found, name)
			require.FileExists(t, filepath.Join(filepath.Dir(name), schema))
			require.NotContains(t, schema, "configs")
			return nil
		})
		require.NoError(t, err)
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func TestNothingIsOverwrittenAndNothingIsHalfWritten(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "services"), 0o755))
	mine := filepath.Join(dir, "services", "mqtt.yaml")
	require.NoError(t, os.WriteFile(mine, []byte("mine\n"), 0o644))
	_, err := Write(dir, starter, rand.Reader)
	require.ErrorContains(t, err, mine+" exists already and is not overwritten; name another folder")
	data, err := os.ReadFile(mine)
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(data))
	require.NoFileExists(t, filepath.Join(dir, "cluster.yaml"))
}

func TestAGitignoreThatIsThereStays(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, ".gitignore")
	require.NoError(t, os.WriteFile(mine, []byte("mine\n"), 0o644))
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{dir})
	require.Equal(t, exit.OK, exit.Run(context.Background(), cmd))
	require.Contains(t, out.String(), mine+" exists already: add the files with keys that commands write, see docs/keys.md\n")
	require.FileExists(t, filepath.Join(dir, "cluster.yaml"))
	data, err := os.ReadFile(mine)
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(data))
}

func TestInitNamesWhatItWrote(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plant")
	cmd := Command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs([]string{dir})
	require.Equal(t, exit.OK, exit.Run(context.Background(), cmd), errs.String())
	require.Contains(t, out.String(), filepath.Join(dir, "services", "dns.yaml")+"\n")
	require.Contains(t, out.String(), "then: spore validate "+dir)
	require.Equal(t, exit.Failed, exit.Run(context.Background(), cmd))

	for _, wrong := range [][]string{{"a", "b"}, {dir + "2", "--example", "factory"}} {
		cmd.SetArgs(wrong)
		require.Equal(t, exit.Misuse, exit.Run(context.Background(), cmd))
	}
	require.NoDirExists(t, dir+"2")
}
