package cache

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/store"
)

// said is what a command prints; it must succeed.
func said(t *testing.T, args ...string) string {
	t.Helper()
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	require.NoError(t, cmd.Execute())
	return out.String()
}

func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	st, err := store.Open(dir)
	require.NoError(t, err)
	for i, text := range []string{"!<arch>\ndebian-binary", "\x7fELF program", "SPOREPK1"} {
		k := store.KeyOf(text)
		require.NoError(t, st.Put(k, func(w *os.File) error { _, err := io.WriteString(w, text); return err }))
		old := time.Now().Add(-time.Duration(3-i) * 24 * time.Hour)
		require.NoError(t, os.Chtimes(st.Path(k), old, old))
	}
	require.NoError(t, st.Close())
	return dir
}

func TestTheCacheIsShown(t *testing.T) {
	dir := filled(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "partial", "x"), make([]byte, 2048), 0o644))
	text := said(t, "--cache", dir)
	require.Contains(t, text, "size      41 B in 3 objects\n")
	require.Contains(t, text, "begun     2.0 KiB of downloads\n")
	require.Regexp(t, `packages +1 +21 B  20`, text)
	require.Regexp(t, `programs +1 +12 B  20`, text)
	var s summary
	require.NoError(t, json.Unmarshal([]byte(said(t, "--cache", dir, "--json")), &s))
	require.EqualValues(t, 41, s.Size)
	require.Len(t, s.Kinds, 3)
	none := filepath.Join(t.TempDir(), "none")
	require.Equal(t, none+" is empty\n", said(t, "--cache", none))
	require.NoDirExists(t, none, "to look makes nothing")
}

func TestTheCacheIsPruned(t *testing.T) {
	dir := filled(t)
	require.Equal(t, "would remove 2 objects, 33 B; 8 B are left\n", said(t, "prune", "--cache", dir, "--older-than", "36h", "--dry-run"))
	require.Equal(t, "removed 0 objects, 0 B; 41 B are left\n", said(t, "prune", "--cache", dir), "down to the limit")
	require.Equal(t, "removed 1 objects, 21 B; 20 B are left\n", said(t, "prune", "--cache", dir, "--to", "30B"))
	require.JSONEq(t, `{"removed":2,"freed":20,"left":0,"inUse":0,"sessions":0}`, said(t, "prune", "--cache", dir, "--all", "--json"))
}

func TestTheLimitIsKept(t *testing.T) {
	t.Setenv("SPORE_CACHE_LIMIT", "")
	dir := filled(t)
	require.Equal(t, "10 GiB\n", said(t, "limit", "10GiB", "--cache", dir))
	require.Equal(t, "10 GiB\n", said(t, "limit", "--cache", dir))
	require.JSONEq(t, `{"limit":0}`, said(t, "limit", "none", "--cache", dir, "--json"))
	t.Setenv("SPORE_CACHE_LIMIT", "1GiB")
	require.Equal(t, "1.0 GiB\n", said(t, "limit", "--cache", dir))
}

func TestTheCacheIsChecked(t *testing.T) {
	dir := filled(t)
	require.Regexp(t, `read 3 objects, 41 B; [03] of them`, said(t, "check", "--cache", dir))
}

func TestWrongUsage(t *testing.T) {
	dir := filled(t)
	for _, args := range [][]string{
		{"prune", "--to", "much"}, {"prune", "--older-than", "0d"}, {"prune", "--older-than", "soon"}, {"prune", "--older-than", "-1h"},
		{"prune", "x"}, {"limit", "much"}, {"limit", "0"}, {"export"}, {"import"}, {"x"},
	} {
		cmd := Command()
		cmd.SetArgs(append(args, "--cache", dir))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := cmd.Execute()
		require.Error(t, err, args)
		if args[0] != "x" {
			require.Equal(t, exit.Misuse, exit.Code(err), args)
		}
	}
}
