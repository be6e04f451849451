package spare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	root    = strings.Repeat("a", 64)
	cluster = strings.Repeat("b", 64)
)

const file = "spore_1_0a1b2c.efi"

// once is what the boot loader is told to start once; empty for nothing.
func once(t *testing.T, vars string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vars, oneShot))
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	require.Equal(t, []byte{7, 0, 0, 0}, data[:4])
	return string(data[4:])
}

func keep(t *testing.T, vars, root, cluster, file string) bool {
	t.Helper()
	fresh, err := Keep(vars, root, cluster, file)
	require.NoError(t, err)
	return fresh
}

func begin(t *testing.T, vars string) (before int, next string) {
	t.Helper()
	before, next, err := Begin(vars, root, cluster)
	require.NoError(t, err)
	return before, next
}

func TestTheSystemBeforeIsStartedAfterTheThirdFailure(t *testing.T) {
	vars := t.TempDir()
	keep(t, vars, strings.ToUpper(root), cluster, file)
	for n := range Tries - 1 {
		before, next := begin(t, vars)
		require.Equal(t, n, before)
		require.Empty(t, next)
		require.Empty(t, once(t, vars))
	}
	for n := range 2 {
		before, next := begin(t, vars)
		require.Equal(t, Tries-1+n, before)
		require.Equal(t, file, next)
		require.Equal(t, "s\x00p\x00o\x00r\x00e\x00", once(t, vars)[:10])
		require.True(t, strings.HasSuffix(once(t, vars), "i\x00\x00\x00"))
		require.NoError(t, os.Remove(filepath.Join(vars, oneShot))) // The loader has taken it.
	}
}

func TestASystemThatStartsAfterAllTakesBackWhatTheLoaderWasTold(t *testing.T) {
	vars := t.TempDir()
	keep(t, vars, root, cluster, file)
	for range Tries {
		begin(t, vars)
	}
	require.NotEmpty(t, once(t, vars))
	require.NoError(t, Started(vars, root, cluster))
	require.Empty(t, once(t, vars))
	before, next := begin(t, vars)
	require.Zero(t, before)
	require.Empty(t, next)

	begin(t, vars)
	begin(t, vars)
	other := []byte("\x07\x00\x00\x00a\x00\x00\x00")
	require.NoError(t, os.WriteFile(filepath.Join(vars, oneShot), other, 0o600))
	require.NoError(t, Started(vars, root, cluster))
	require.Equal(t, string(other[4:]), once(t, vars), "what a person has told it stays")
}

func TestASystemThatStartsForgetsItsFailures(t *testing.T) {
	vars := t.TempDir()
	keep(t, vars, root, cluster, file)
	begin(t, vars)
	keep(t, vars, root, cluster, file)
	n, err := Read(vars)
	require.NoError(t, err)
	require.Equal(t, Note{Root: root, Cluster: cluster, Entry: file}, n)
}

func TestASystemThatHasStartedForgetsItsFailuresAndKeepsItsNote(t *testing.T) {
	vars := t.TempDir()
	require.NoError(t, Started(vars, root, cluster), "there is no note")
	keep(t, vars, root, cluster, file)
	begin(t, vars)
	require.NoError(t, Started(vars, cluster, root))
	n, err := Read(vars)
	require.NoError(t, err)
	require.Equal(t, 1, n.Failed, "another system has started")
	require.NoError(t, Started(vars, root, cluster))
	n, err = Read(vars)
	require.NoError(t, err)
	require.Equal(t, Note{Root: root, Cluster: cluster, Entry: file}, n)
	require.NoError(t, os.Chmod(filepath.Join(vars, variable), 0o400))
	info, err := os.Stat(filepath.Join(vars, variable))
	require.NoError(t, err)
	require.NoError(t, Started(vars, root, cluster))
	again, err := os.Stat(filepath.Join(vars, variable))
	require.NoError(t, err)
	require.Equal(t, info.ModTime(), again.ModTime(), "and nothing is written")
}

func TestNothingIsWrittenThatTheFirmwareHas(t *testing.T) {
	vars := t.TempDir()
	require.True(t, keep(t, vars, root, cluster, file))
	require.False(t, keep(t, vars, root, cluster, file))
	require.True(t, keep(t, vars, root, cluster, "spore_2.efi"))
}

func TestAnotherSystemsNoteIsLeftAlone(t *testing.T) {
	vars := t.TempDir()
	keep(t, vars, root, cluster, file)
	before, next, err := Begin(vars, cluster, root)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Zero(t, before)
	require.NoError(t, Drop(vars, cluster, root))
	n, err := Read(vars)
	require.NoError(t, err)
	require.True(t, n.Is(root, cluster))
	require.Zero(t, n.Failed)
	require.NoError(t, Drop(vars, root, cluster))
	n, err = Read(vars)
	require.NoError(t, err)
	require.Equal(t, Note{}, n)
	require.False(t, n.Is("", ""))
	require.NoError(t, Drop(vars, root, cluster), "there is none any more")
}

func TestWhatIsNoNoteStartsNothing(t *testing.T) {
	good := `{"root":"` + root + `","cluster":"` + cluster + `","entry":"` + file + `"}`
	for name, text := range map[string]string{
		"nothing":             "",
		"no JSON":             "x",
		"another hash":        strings.Replace(good, root, root[1:], 1),
		"no cluster part":     strings.Replace(good, cluster, "", 1),
		"an entry elsewhere":  strings.Replace(good, file, `..\\x.efi`, 1),
		"a pattern":           strings.Replace(good, file, "*.efi", 1),
		"no entry":            strings.Replace(good, file, "", 1),
		"a counted entry":     strings.Replace(good, file, "spore_1+3.efi", 1),
		"a long entry":        strings.Replace(good, file, strings.Repeat("x", 200)+".efi", 1),
		"fewer than none":     strings.Replace(good, "}", `,"failed":-1}`, 1),
		"more than there are": strings.Replace(good, "}", `,"failed":4}`, 1),
		"too long":            good + strings.Repeat(" ", 17<<10),
	} {
		t.Run(name, func(t *testing.T) {
			vars := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(vars, variable), append([]byte{7, 0, 0, 0}, text...), 0o600))
			_, next, err := Begin(vars, root, cluster)
			require.Error(t, err)
			require.Empty(t, next)
			require.Empty(t, once(t, vars))
			require.Error(t, Drop(vars, root, cluster))
			keep(t, vars, root, cluster, file)
			n, err := Read(vars)
			require.NoError(t, err)
			require.Equal(t, file, n.Entry)
		})
	}
	_, err := Keep(t.TempDir(), root, cluster, "x y.efi")
	require.ErrorIs(t, err, ErrForm)
	_, err = Keep(t.TempDir(), "x", cluster, file)
	require.ErrorIs(t, err, ErrForm)
	// efivarfs has a file without content where the firmware refused to make the variable.
	vars := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(vars, variable), nil, 0o600))
	n, err := Read(vars)
	require.NoError(t, err)
	require.Equal(t, Note{}, n)
}

func FuzzNote(f *testing.F) {
	f.Add([]byte(`{"root":"` + root + `","cluster":"` + cluster + `","entry":"` + file + `","failed":2}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := parse(data)
		if err != nil {
			require.Equal(t, Note{}, n)
			return
		}
		require.NotContains(t, n.Entry, "/")
		require.NotContains(t, n.Entry, "*")
		require.True(t, n.Failed >= 0 && n.Failed <= Tries)
	})
}
