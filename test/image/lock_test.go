//go:build integration

package image

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/accounts"
	cmdlock "spore/builder/cmd/lock"
	"spore/builder/lock"
)

// locked is a configuration with a lock of its own.
func (w *workshop) locked(t *testing.T) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "edge")
	require.NoError(t, copyTree(filepath.Join(w.repo, "examples", "edge"), config))
	r := w.lock(t, 0, config)
	require.Equal(t, "made", r.State)
	require.Empty(t, r.Accounts, "the table has all ids of the examples")
	require.NoFileExists(t, filepath.Join(config, accounts.LockedFile))
	return config
}

// lock runs `spore lock`, which ends with the given exit code.
func (w *workshop) lock(t *testing.T, code int, args ...string) (r cmdlock.Result) {
	t.Helper()
	args = append([]string{"lock", "--json", "--offline", "--source", w.repo, "--cache", w.prepared}, args...)
	cmd := exec.Command(w.spore, args...)
	text, err := cmd.Output()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	require.Equal(t, code, cmd.ProcessState.ExitCode(), "%v", err)
	require.NoError(t, json.Unmarshal(text, &r))
	return r
}

func testLocked(t *testing.T, w *workshop) {
	config := w.locked(t)
	store := filepath.Join(w.dir, "own")
	linkStore(t, w.prepared, store)
	unlocked := w.outputs(t, trial{config: config, store: store})
	require.Equal(t, sparseHash(t, filepath.Join(config, lock.Name)), unlocked["/"+lock.Name], "each build writes the lock that it would need")
	require.NotContains(t, unlocked, "/"+accounts.LockedFile)

	t.Run("ten years later, without an index and a network", func(t *testing.T) {
		later := filepath.Join(w.dir, "later")
		linkStore(t, w.prepared, later)
		notes, err := filepath.Glob(filepath.Join(later, "notes", "apt-*"))
		require.NoError(t, err)
		require.NotEmpty(t, notes)
		for _, n := range notes {
			require.NoError(t, os.Remove(n))
		}
		text, err := w.try(t, &trial{config: config, store: later})
		require.Error(t, err, "a build that is not locked needs an index")
		require.Contains(t, text, "the cache has no index of it")
		require.Equal(t, unlocked, w.outputs(t, trial{before: []string{w.clock, "87600h"}, config: config, store: later, args: []string{"--locked"}}))
	})

	t.Run("a lock is made, checked and updated", func(t *testing.T) {
		require.Equal(t, "up to date", w.lock(t, 0, config).State)
		require.Equal(t, "up to date", w.lock(t, 0, config, "--check").State)
		require.Equal(t, "up to date", w.lock(t, 0, config, "--update").State)
		name := filepath.Join(config, lock.Name)
		before, err := os.ReadFile(name)
		require.NoError(t, err)
		// As if it were from before a security update, with one package more.
		old, err := lock.Parse(before)
		require.NoError(t, err)
		old.Packages[0].Version = "0.1"
		old.Packages[0].SHA256 = old.Packages[1].SHA256
		extra := old.Packages[len(old.Packages)-1]
		extra.Name, extra.Version = "zz-gone", "1.0"
		old.Packages = append(old.Packages, extra)
		require.NoError(t, old.Write(name))
		changed, err := os.ReadFile(name)
		require.NoError(t, err)

		require.Equal(t, "out of date", w.lock(t, 1, config, "--check").State)
		r := w.lock(t, 0, config)
		require.Equal(t, "out of date", r.State)
		require.Len(t, r.Changes, 2)
		require.Equal(t, lock.Change{Change: lock.Changed, Kind: "package", Name: "adduser", Old: "0.1", New: r.Changes[0].New}, r.Changes[0])
		require.Equal(t, lock.Change{Change: lock.Removed, Kind: "package", Name: "zz-gone", Old: "1.0"}, r.Changes[1])
		now, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, changed, now, "nothing is written without --update")
		require.Equal(t, "updated", w.lock(t, 0, config, "--update").State)
		now, err = os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, before, now)
		require.NoError(t, os.Remove(name))
		require.Equal(t, "missing", w.lock(t, 1, config, "--check").State)
		require.NoFileExists(t, name)
	})

	for _, c := range []struct {
		name   string
		change func(t *testing.T, c *trial)
		want   []string
	}{
		{"no lock", func(t *testing.T, c *trial) {
			require.NoError(t, os.Remove(filepath.Join(c.config, lock.Name)))
		}, []string{"image.lock: file does not exist; spore lock makes it"}},
		{"a package more", func(t *testing.T, c *trial) {
			appendTo(t, filepath.Join(c.config, "image.yaml"), "packages: [less]\n")
		}, []string{"image.lock does not match", "\n  + requested package less\n", "run spore lock --update"}},
		{"a service less", func(t *testing.T, c *trial) {
			name := filepath.Join(c.config, lock.Name)
			l, err := lock.Read(name)
			require.NoError(t, err)
			l.Requested = append(l.Requested, "kafkacat")
			require.NoError(t, l.Write(name))
		}, []string{"\n  - requested package kafkacat\n"}},
		{"another time", func(t *testing.T, c *trial) {
			c.env = append(os.Environ(), "SOURCE_DATE_EPOCH=1")
		}, []string{"\n  ~ build time ", " -> 1970-01-01T00:00:01Z\n"}},
		{"another source", func(t *testing.T, c *trial) {
			c.source = filepath.Join(t.TempDir(), "source")
			require.NoError(t, copyTree(w.repo, c.source))
			appendTo(t, filepath.Join(c.source, "overlay/usr/lib/modprobe.d/50-spore.conf"), "# more\n")
			appendTo(t, filepath.Join(c.source, "agent/main.go"), "// more\n")
			appendTo(t, filepath.Join(c.source, "payloads/coredns/go.sum"), "\n")
		}, []string{"\n  ~ source overlay sha256:", "\n  ~ program spore-agent (", "\n  ~ program init (", "\n  ~ program coredns v"}},
		{"another spore", func(t *testing.T, c *trial) {
			program, err := os.ReadFile(w.spore)
			require.NoError(t, err)
			other := filepath.Join(t.TempDir(), "spore")
			require.NoError(t, os.WriteFile(other, append(program, 0), 0o755))
			// $1 is the spore of all other builds.
			c.before = []string{"sh", "-c", `shift; exec "$0" "$@"`, other}
		}, []string{"\n  ~ spore 0.1.0 sha256:"}},
		{"a package that is nowhere", func(t *testing.T, c *trial) {
			name := filepath.Join(c.config, lock.Name)
			l, err := lock.Read(name)
			require.NoError(t, err)
			p := &l.Packages[0]
			p.Version, p.Path, p.SHA256 = "0.0.1", "pool/main/a/adduser/adduser_0.0.1_all.deb", l.Spore.SHA256
			require.NoError(t, l.Write(name))
			c.online = true
		}, []string{"package adduser 0.0.1 is neither in the store nor on the mirrors any more; set mirror and securityMirror in image.yaml to an archive that keeps old versions", "spore lock --update"}},
	} {
		t.Run("refused: "+c.name, func(t *testing.T) {
			attempt := trial{config: filepath.Join(t.TempDir(), "edge"), store: store, args: []string{"--locked"}}
			require.NoError(t, copyTree(filepath.Join(w.repo, "examples", "edge"), attempt.config))
			w.lock(t, 0, attempt.config)
			c.change(t, &attempt)
			text, err := w.try(t, &attempt)
			require.Error(t, err)
			for _, want := range c.want {
				require.Contains(t, text, want)
			}
			require.NoFileExists(t, filepath.Join(attempt.out, "spore.img"))
		})
	}
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
