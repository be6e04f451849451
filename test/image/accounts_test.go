//go:build integration

package image

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/accounts"
	"spore/builder/lock"
)

// testAccounts builds with a user that the fixed table does not have, from a folder that nothing can be written to.
func testAccounts(t *testing.T, w *workshop) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	config := filepath.Join(t.TempDir(), "edge")
	require.NoError(t, copyTree(filepath.Join(w.repo, "examples", "edge"), config))
	appendTo(t, filepath.Join(config, "image.yaml"), "scripts: {mosquitto: {users: [{name: sniffer}]}}\n")
	store := filepath.Join(w.dir, "accounts")
	linkStore(t, w.prepared, store)
	readOnly := []string{"unshare", "--mount", "sh", "-c",
		`mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && ! touch "$0/x" && exec "$@"`, config}
	ids, locked := filepath.Join(config, accounts.LockedFile), filepath.Join(config, lock.Name)

	first := trial{before: readOnly, config: config, store: store, out: filepath.Join(w.dir, "with ids")}
	t.Cleanup(func() { os.RemoveAll(first.out) })
	for range 2 { // the root of the second is from the store, and so is the folder's
		text, err := w.try(t, &first)
		require.NoError(t, err, "%s", text)
		require.Regexp(t, `note: new ids: user sniffer \d+, group sniffer \d+; run spore lock and commit accounts\.yaml\n`, text)
	}
	told, err := os.ReadFile(filepath.Join(first.out, accounts.LockedFile))
	require.NoError(t, err)
	made, err := os.ReadFile(filepath.Join(first.out, lock.Name))
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(locked, made, 0o644))
	held := first
	held.args = []string{"--locked"}
	text, err := w.try(t, &held)
	require.Error(t, err, "of an unchanged folder too")
	require.Contains(t, text, "image.lock does not match")
	require.Regexp(t, `\n  \+ user sniffer \d+\n  \+ group sniffer \d+\n`, text)

	require.Equal(t, "missing", w.lock(t, 1, config, "--check").AccountsState)
	require.NoFileExists(t, ids)
	r := w.lock(t, 0, config)
	require.Equal(t, "made", r.AccountsState)
	require.Equal(t, "up to date", r.State)
	require.Len(t, r.Changes, 2)
	require.Equal(t, "up to date", w.lock(t, 0, config, "--check").AccountsState)
	data, err := os.ReadFile(ids)
	require.NoError(t, err)
	require.Equal(t, string(told), string(data))

	before, err := os.ReadFile(filepath.Join(first.out, "spore.manifest.json"))
	require.NoError(t, err)
	text, err = w.try(t, &held)
	require.NoError(t, err, "%s", text)
	require.NotContains(t, text, "new ids")
	after, err := os.ReadFile(filepath.Join(first.out, "spore.manifest.json"))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the ids are those that the build chose")
}
