//go:build integration

package cache

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/builder/store"
	"spore/builder/store/kind"
	"spore/test/chance"
)

func change(t *testing.T, name string, fn func(f *os.File, size int64) error) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	require.NoError(t, fn(f, info.Size()))
}

// check is what spore cache check says of a cache with damaged objects.
func check(t *testing.T, l *lab, cache string) string {
	t.Helper()
	text, err := exec.Command(l.spore, "cache", "check", "--cache", cache).CombinedOutput()
	require.Error(t, err, "%s", text)
	return string(text)
}

// pruneRoots makes the next build compose and link.
func pruneRoots(t *testing.T, cache string) {
	t.Helper()
	objects, err := store.List(cache)
	require.NoError(t, err)
	for _, o := range objects {
		k, err := kind.OfFile(o.Path)
		require.NoError(t, err)
		if k == kind.Roots {
			require.NoError(t, os.Remove(o.Path))
		}
	}
}

// soak is the number of rounds of the long counts, or few.
func soak(few int) int {
	if n, err := strconv.Atoi(os.Getenv("SPORE_SOAK")); err == nil && n > few {
		return n
	}
	return few
}

func TestABuildThatIsKilledLosesNothing(t *testing.T) {
	l := setup(t)
	r := rand.New(rand.NewPCG(chance.Seed(t), 0))
	cache, out := l.clone(t, kind.Roots, kind.Packages), filepath.Join(t.TempDir(), "out")
	a := l.build(cache, out)
	a.good(t)
	signals := []unix.Signal{unix.SIGKILL, unix.SIGTERM, unix.SIGKILL, unix.SIGINT}
	for round := range soak(len(signals)) {
		pruneRoots(t, cache)
		// An image of an earlier build, which the killed one must not spoil.
		require.NoError(t, os.WriteFile(filepath.Join(out, "spore.img"), []byte("older"), 0o644))
		older := hashes(t, out)
		signal := signals[round%len(signals)]
		after := time.Duration(r.Float64() * float64(l.took))
		cmd := a.command(t.Context())
		require.NoError(t, cmd.Start())
		time.Sleep(after)
		_ = cmd.Process.Signal(signal)
		err := cmd.Wait()
		t.Logf("round %d: %s after %s: %v", round, signal, after.Round(time.Millisecond), err)
		for name, hash := range hashes(t, out) {
			require.Contains(t, []string{older[name], l.want[name]}, hash, "%s is half-written", name)
		}
		a.good(t)
	}
}

func TestBuildsAtOnce(t *testing.T) {
	l := setup(t)
	for name, folder := range map[string]func(i int) string{
		"into folders of their own": strconv.Itoa,
		"into one folder":           func(int) string { return "same" },
	} {
		t.Run(name, func(t *testing.T) {
			cache, out := l.clone(t, kind.Roots), t.TempDir()
			var builds sync.WaitGroup
			ended := make([]ended, 2)
			for i := range ended {
				builds.Go(func() {
					a := l.build(cache, filepath.Join(out, folder(i)))
					text, err := a.command(context.Background()).CombinedOutput()
					ended[i].said, ended[i].err = string(text), err
				})
			}
			done := make(chan struct{})
			go func() { builds.Wait(); close(done) }()
			pruned := 0
			for more := true; more; pruned++ {
				// Everything that nobody used for a day: of a cache that was just cloned that is what only other builds have used.
				text, err := exec.Command(l.spore, "cache", "prune", "--older-than", "24h", "--cache", cache).CombinedOutput()
				require.NoError(t, err, "%s", text)
				select {
				case <-done:
					more = false
				case <-time.After(50 * time.Millisecond):
				}
			}
			for i, e := range ended {
				require.NoError(t, e.err, e.said)
				a := l.build(cache, filepath.Join(out, folder(i)))
				require.Equal(t, l.want, hashes(t, a.out))
				requireTidy(t, a)
			}
			require.Positive(t, pruned)
		})
	}
}

// The limit is that of the environment; the smallest that can be met is what the build uses.
func TestACacheIsHeldToItsLimit(t *testing.T) {
	l := setup(t)
	cache, out := l.clone(t), filepath.Join(t.TempDir(), "out")
	a := l.build(cache, out)
	cmd := a.command(t.Context())
	cmd.Env = append(cmd.Env, "SPORE_CACHE_LIMIT=10MiB")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Contains(t, string(text), "a limit of 10 MiB, but running builds use what is left; raise it with spore cache limit")
	require.Equal(t, l.want, hashes(t, out))
	left, err := store.List(cache)
	require.NoError(t, err)
	for _, o := range left {
		k, err := kind.OfFile(o.Path)
		require.NoError(t, err)
		require.NotEqual(t, kind.Packages, k, "no package was asked for: %s\n%s", o.Path, text)
	}
	before := len(left)
	// What the build uses is all there: it can be repeated without a network.
	l.build(cache, filepath.Join(t.TempDir(), "out"), "--offline").in("--net", "").good(t)
	left, err = store.List(cache)
	require.NoError(t, err)
	require.Len(t, left, before)
}
