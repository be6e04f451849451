package schema

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/configs"
)

// valkey is a folder with a role.
func valkey(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../../examples/own-valkey")))
	return dir
}

// run runs the command, and returns its status and what it printed.
func run(args ...string) (int, string) {
	cmd := Command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	return exit.Run(context.Background(), cmd), out.String()
}

func TestSchemasOfAFolderComeUpToDate(t *testing.T) {
	dir := valkey(t)
	status, out := run(dir)
	require.Equal(t, exit.OK, status, out)
	own := filepath.Join(dir, ".schema", "services", "valkey.json")
	require.Contains(t, out, filepath.Join(dir, ".schema", "role.json")+"\n")
	require.Contains(t, out, own+"\n")
	want, err := configs.Files.ReadFile(".schema/role.json")
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, ".schema", "role.json"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))

	status, out = run(dir)
	require.Equal(t, exit.OK, status)
	require.Empty(t, out, "nothing changed")

	file := filepath.Join(dir, "roles", "valkey.yaml")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data = bytes.Replace(data, []byte("default: 6379"), []byte("default: 6379\n    min: 1024"), 1)
	require.NoError(t, os.WriteFile(file, data, 0o644))
	status, out = run(dir)
	require.Equal(t, exit.OK, status)
	require.Equal(t, own+"\n", out)
	data, err = os.ReadFile(own)
	require.NoError(t, err)
	require.Contains(t, string(data), `"minimum": 1024`)
}

func TestSchemasOfRolesWithErrorsAreNotWritten(t *testing.T) {
	dir := valkey(t)
	file := filepath.Join(dir, "roles", "valkey.yaml")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.Replace(data, []byte("type: size"), []byte("type: sise"), 1), 0o644))
	status, out := run(dir)
	require.Equal(t, exit.Failed, status)
	require.Contains(t, out, file+":")
	require.Contains(t, out, `the type "sise" is unknown`)
	require.NoDirExists(t, filepath.Join(dir, ".schema"))

	empty := t.TempDir()
	status, out = run(empty)
	require.Equal(t, exit.Failed, status)
	require.Contains(t, out, "cluster.yaml:1:1: error: cannot be read")
	require.NoDirExists(t, filepath.Join(empty, ".schema"))

	status, _ = run("a", "b")
	require.Equal(t, exit.Misuse, status)
}

// A fault elsewhere is spore validate's.
func TestAnErrorInAnotherFileLeavesTheSchemasAlone(t *testing.T) {
	dir := valkey(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "services", "valkey.yaml"), []byte("maxMemory: x\n"), 0o644))
	status, out := run(dir)
	require.Equal(t, exit.OK, status, out)
	require.FileExists(t, filepath.Join(dir, ".schema", "services", "valkey.json"))
}
