//go:build integration

package payloads

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/payload"
	"spore/builder/payload/carry"
	"spore/builder/store"
)

// programsArePinned: what go.mod and go.sum pin compiles to what program.sum says. UPDATE=1 writes it anew.
func programsArePinned(t *testing.T, b image) {
	byPayload := map[string][]payload.Program{}
	for _, p := range b.programs {
		if p.Compiled {
			byPayload[p.Payload] = append(byPayload[p.Payload], p)
		}
	}
	for name, programs := range byPayload {
		got, err := payload.ProgramSums(programs)
		require.NoError(t, err)
		file := filepath.Join(root, name, payload.ProgramSumFile)
		if os.Getenv("UPDATE") != "" {
			require.NoError(t, os.WriteFile(file, got, 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "UPDATE=1 go test writes %s again; review the changes", file)
	}
}

// imported: a store that only imported has the bytes of the programs that were compiled here, and a build takes them as
// they are. Some are compiled once more, by themselves, so that two of the three have nothing to do with each other.
func imported(t *testing.T, b image) {
	var carried []payload.Program
	for _, p := range b.programs {
		if p.Sum != nil {
			carried = append(carried, p)
		}
	}
	from, err := store.Open(filepath.Join(userCache(t), "spore"))
	require.NoError(t, err)
	defer from.Close()
	var archive bytes.Buffer
	out, err := carry.Export(&archive, from, carried)
	require.NoError(t, err)
	require.Equal(t, len(carried), out.Programs+out.Jars)

	to, err := store.Open(t.TempDir())
	require.NoError(t, err)
	defer to.Close()
	size := archive.Len()
	in, err := carry.Import(&archive, to, carried)
	require.NoError(t, err)
	require.Equal(t, out, in)
	t.Logf("%d programs and %d jars, %d MiB, carried in %d MiB", in.Programs, in.Jars, in.Size>>20, size>>20)
	for _, p := range carried {
		want, err := os.ReadFile(p.Path)
		require.NoError(t, err)
		got, err := os.ReadFile(to.Path(p.Key))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s is not what was compiled", p.Name)
	}

	require.NoError(t, payload.TrustJars(to, kafkaPins))
	nothing := payload.Options{Env: []string{"PATH=/nonexistent"}, Maven: "/nonexistent", Go: "/nonexistent"}
	fresh, err := store.Open(t.TempDir())
	require.NoError(t, err)
	defer fresh.Close()
	for _, name := range []string{"cni", "etcd", "kafka", "pause"} {
		dir := filepath.Join(root, name)
		taken, err := payload.Build(context.Background(), to, dir, nothing)
		require.NoError(t, err, "neither Go nor Maven is needed")
		if payload.OfJars(dir) {
			continue
		}
		compiled, err := payload.Build(context.Background(), fresh, dir, payload.Options{Env: os.Environ()})
		require.NoError(t, err)
		for i, p := range taken {
			require.True(t, p.Cached)
			require.False(t, compiled[i].Cached)
			want, err := os.ReadFile(compiled[i].Path)
			require.NoError(t, err)
			got, err := os.ReadFile(p.Path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), "%s that was imported is another than %s that was compiled", p.Name, compiled[i].Name)
		}
	}
}
