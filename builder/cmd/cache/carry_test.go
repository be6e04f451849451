package cache

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/payload"
	"spore/builder/store"
)

// tree is a source tree with the payload hello, compiled in a cache; its checksum is committed.
func tree(t *testing.T) (source, cache string) {
	t.Helper()
	source, cache = t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                    "module spore\n",
		"payloads/hello/go.mod":     "module example.test/hello\n\ngo 1.26.0\n",
		"payloads/hello/go.sum":     "",
		"payloads/hello/main.go":    "package main\n\nfunc main() { println(\"hello\") }\n",
		"payloads/unneeded/go.mod":  "module example.test/unneeded\n\ngo 1.26.0\n",
		"payloads/unneeded/go.sum":  "",
		"payloads/unneeded/main.go": "package main\n\nfunc main() {}\n",
	} {
		file := filepath.Join(source, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	st, err := store.Open(cache)
	require.NoError(t, err)
	dir := filepath.Join(source, "payloads/hello")
	made, err := payload.Build(context.Background(), st, dir, payload.Options{Env: os.Environ()})
	require.NoError(t, err)
	sums, err := payload.ProgramSums(made)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, payload.ProgramSumFile), sums, 0o644))
	return source, cache
}

func TestPayloadsAreCarriedToAnotherMachine(t *testing.T) {
	source, cache := tree(t)
	file, other := filepath.Join(t.TempDir(), "payloads.tar.zst"), t.TempDir()
	require.Regexp(t, `^1 programs and 0 jars, [0-9.]+ MiB, are in `+file+`
left out, because they belong to other pins than the checksums beside them: unneeded
$`, said(t, "export", "--payloads", file, "--source", source, "--cache", cache))
	require.Regexp(t, `^1 programs and 0 jars, [0-9.]+ MiB, are in the cache\n$`, said(t, "import", file, "--source", source, "--cache", other))
	require.JSONEq(t, `{"programs":0,"jars":0,"size":0,"present":1,"missing":[],"unpinned":[]}`, said(t, "import", file, "--source", source, "--cache", other, "--json"))

	st, err := store.Open(other)
	require.NoError(t, err)
	built, err := payload.Build(context.Background(), st, filepath.Join(source, "payloads/hello"), payload.Options{Env: os.Environ(), Report: func(payload.Progress) { t.Error("it is compiled") }})
	require.NoError(t, err)
	require.True(t, built[0].Cached)
	require.NoError(t, st.Close())

	cmd := Command()
	cmd.SetArgs([]string{"export", "--payloads", filepath.Join(t.TempDir(), "none", "x"), "--source", source, "--cache", cache})
	cmd.SetErr(io.Discard)
	require.ErrorContains(t, cmd.Execute(), "no such file or directory")
}

func TestAnExportThatFailsLeavesNothing(t *testing.T) {
	source, _ := tree(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "payloads.tar.zst")
	require.NoError(t, os.WriteFile(file, []byte("of yesterday"), 0o644))
	cmd := Command()
	cmd.SetArgs([]string{"export", "--payloads", file, "--source", source, "--cache", t.TempDir()})
	cmd.SetErr(io.Discard)
	require.ErrorContains(t, cmd.Execute(), "all compiled payloads are missing")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "of yesterday", string(data))
}
