package initialize

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/cluster"
	"spore/configs"
)

func TestTheStarterFolderIsValidAndHasItsOwnID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	names, err := Write(dir, rand.Reader)
	require.NoError(t, err)
	require.Contains(t, names, "cluster.yaml")
	require.Contains(t, names, ".schema/cluster.json")

	c, report := cluster.Check(os.DirFS(dir), cluster.Options{Strict: true})
	require.False(t, report.Failed(), report.String())
	require.Len(t, c.Cluster.Nodes, 3)
	require.NotEqual(t, configs.ExampleID, c.Cluster.ID)
	require.Len(t, c.Cluster.ID, 36)
}

func TestTheExampleHasTheExampleID(t *testing.T) {
	data, err := configs.Files.ReadFile("cluster.yaml")
	require.NoError(t, err)
	require.Contains(t, string(data), "id: "+configs.ExampleID+"\n")
}

func TestNothingIsOverwrittenAndNothingIsHalfWritten(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "services"), 0o755))
	mine := filepath.Join(dir, "services", "mqtt.yaml")
	require.NoError(t, os.WriteFile(mine, []byte("mine\n"), 0o644))
	_, err := Write(dir, rand.Reader)
	require.ErrorContains(t, err, mine+" is there already and is not overwritten; name another folder")
	data, err := os.ReadFile(mine)
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(data))
	require.NoFileExists(t, filepath.Join(dir, "cluster.yaml"))
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

	cmd.SetArgs([]string{"a", "b"})
	require.Equal(t, exit.Misuse, exit.Run(context.Background(), cmd))
}
