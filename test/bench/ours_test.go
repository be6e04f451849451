package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// object puts a file into a store below dir under a name, which is the content's hash when that is empty.
func object(t *testing.T, dir, content, name string) string {
	t.Helper()
	if name == "" {
		sum := sha256.Sum256([]byte(content))
		name = hex.EncodeToString(sum[:])
	}
	rel := filepath.Join("spore", "objects", name[:2], name[2:])
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, rel)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, rel), []byte(content), 0o644))
	return rel
}

func TestAColdCacheHasWhatWasDownloadedAndNothingThatWasMade(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "cold")
	deb := object(t, from, "a package", "")
	pack := object(t, from, "a pack", "aa"+hex.EncodeToString(make([]byte, 31)))
	note := filepath.Join("spore", "notes", "mirror")
	require.NoError(t, os.MkdirAll(filepath.Join(from, "spore", "notes"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, note), []byte("seen"), 0o644))

	require.NoError(t, clone(from, to, downloaded))
	require.FileExists(t, filepath.Join(to, deb))
	require.NoFileExists(t, filepath.Join(to, pack))
	require.FileExists(t, filepath.Join(to, note))

	all := filepath.Join(t.TempDir(), "warm")
	require.NoError(t, clone(from, all, everything))
	require.FileExists(t, filepath.Join(all, pack))
	require.NoError(t, os.WriteFile(filepath.Join(all, note), []byte("changed"), 0o644))
	text, err := os.ReadFile(filepath.Join(from, note))
	require.NoError(t, err)
	require.Equal(t, "seen", string(text), "a note of the copy is not that of the cache")
}

func TestTheColdBuildAloneRunsTheMeter(t *testing.T) {
	b := &bench{work: t.TempDir(), log: io.Discard, self: "true"}
	said := filepath.Join(b.work, "said")
	b.spore = filepath.Join(b.work, "spore")
	require.NoError(t, os.WriteFile(b.spore, fmt.Appendf(nil, "#!/bin/sh\ncommand -v go > '%s'\necho '0.01 s scripts of 1 packages replayed'\n", said), 0o755))
	o := &ours{b: b, dir: t.TempDir(), cache: t.TempDir()}
	var err error
	o.meter, err = newCompilerMeter(o.dir, b.self)
	require.NoError(t, err)

	for name, c := range map[string]struct {
		build func() (Usage, error)
		found string
	}{
		"cold":            {func() (Usage, error) { return o.cold(t.Context(), 1) }, filepath.Join(o.meter.dir, "go")},
		"nothing changed": {func() (Usage, error) { return o.unchanged(t.Context(), 1) }, o.meter.command},
		"an edit":         {func() (Usage, error) { return o.warm(func(int) error { return nil })(t.Context(), 1) }, o.meter.command},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.build()
			require.NoError(t, err)
			found, err := os.ReadFile(said)
			require.NoError(t, err)
			require.Equal(t, c.found, strings.TrimSpace(string(found)))
		})
	}
}

func TestEditsChangeTheConfiguration(t *testing.T) {
	o := &ours{b: &bench{started: time.Unix(1, 0)}, config: t.TempDir(), source: t.TempDir()}
	require.NoError(t, copyFolder("../../examples/edge", o.config))
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(o.config, name))
		require.NoError(t, err)
		return string(text)
	}
	image := read("image.yaml")
	require.NoError(t, o.editPackages(true))
	require.Equal(t, image+"packages: [strace]\n", read("image.yaml"))
	require.NoError(t, o.editPackages(true))
	require.Equal(t, image+"packages: [strace]\n", read("image.yaml"), "once")
	require.NoError(t, o.editPackages(false))
	require.Equal(t, image, read("image.yaml"))
	require.NoError(t, os.WriteFile(filepath.Join(o.config, "image.yaml"), []byte("packages:\n  - a\n  - b\nsuite: trixie\n"), 0o644))
	require.NoError(t, o.editPackages(false))
	require.Equal(t, "suite: trixie\n", read("image.yaml"))

	seen := map[string]bool{read("cluster.yaml"): true}
	for round := 1; round <= 3; round++ {
		require.NoError(t, o.editCluster(round))
		require.False(t, seen[read("cluster.yaml")], "each round has an edit of its own")
		seen[read("cluster.yaml")] = true
	}
	o.b = &bench{started: time.Unix(2, 0)}
	require.NoError(t, o.editCluster(1))
	require.False(t, seen[read("cluster.yaml")], "and so has each run")
	require.NoError(t, os.WriteFile(filepath.Join(o.config, "cluster.yaml"), []byte("name: x\n"), 0o644))
	require.ErrorContains(t, o.editCluster(1), "no line of nameservers")
}

func TestTheSourceTreeIsCopiedWithoutWhatIsMade(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, name := range []string{"go.mod", "agent/main.go", "out/spore.img", ".git/HEAD", "configs.pki/keys", "bin/spore"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(from, name), nil, 0o755))
	}
	require.NoError(t, os.Symlink("main.go", filepath.Join(from, "agent", "link")))
	require.NoError(t, copySource(from, to))
	for _, name := range []string{"go.mod", "agent/main.go"} {
		require.FileExists(t, filepath.Join(to, name))
	}
	target, err := os.Readlink(filepath.Join(to, "agent", "link"))
	require.NoError(t, err)
	require.Equal(t, "main.go", target)
	for _, name := range []string{"out", ".git", "configs.pki", "bin"} {
		require.NoDirExists(t, filepath.Join(to, name))
	}
}

func TestTheReplayOfScriptsIsReadFromWhatABuildSays(t *testing.T) {
	took, err := scriptsOf("   0.02 s  packages     218, kernel 6.12\n   0.07 s  scripts      of 218 packages replayed\n")
	require.NoError(t, err)
	require.Equal(t, 70*time.Millisecond, took)
	_, err = scriptsOf("   0.02 s  packages\nscripts\n")
	require.Error(t, err)
}
