package stamp

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// notes keeps notes in memory.
type notes map[string][]byte

func (n notes) ReadNote(name string) ([]byte, error) {
	if data, ok := n[name]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (n notes) WriteNote(name string, data []byte) error {
	n[name] = data
	return nil
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

func TestFilesAreAsTheyWereMadeUntilOneOfThemChanges(t *testing.T) {
	for _, row := range []struct {
		what   string
		change func(t *testing.T, name string)
		same   bool
	}{
		{"nothing", func(*testing.T, string) {}, true},
		{"it was read", func(t *testing.T, name string) {
			_, err := os.ReadFile(name)
			require.NoError(t, err)
		}, true},
		{"one byte of it, at once", func(t *testing.T, name string) {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("X"), 1)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}, false},
		{"one byte, and the time was set back", func(t *testing.T, name string) {
			info, err := os.Stat(name)
			require.NoError(t, err)
			write(t, name, "Xutput")
			require.NoError(t, os.Chtimes(name, info.ModTime(), info.ModTime()))
		}, false},
		{"another file has its name", func(t *testing.T, name string) {
			other := write(t, name+".new", "output")
			require.NoError(t, os.Rename(other, name))
		}, false},
		{"its mode", func(t *testing.T, name string) { require.NoError(t, os.Chmod(name, 0o600)) }, false},
		{"it is gone", func(t *testing.T, name string) { require.NoError(t, os.Remove(name)) }, false},
		{"it is a folder now", func(t *testing.T, name string) {
			require.NoError(t, os.Remove(name))
			require.NoError(t, os.Mkdir(name, 0o755))
		}, false},
	} {
		t.Run(row.what, func(t *testing.T) {
			dir := t.TempDir()
			name := write(t, filepath.Join(dir, "out"), "output")
			n := notes{}
			require.NoError(t, Remember(n, dir, "inputs", "result", []string{name}))
			row.change(t, name)
			result, same, err := Made(n, dir, "inputs")
			require.NoError(t, err)
			require.Equal(t, row.same, same)
			if same {
				require.JSONEq(t, `"result"`, string(result))
			}
		})
	}
}

func TestFilesOfOtherInputsAreOthers(t *testing.T) {
	dir := t.TempDir()
	name := write(t, filepath.Join(dir, "out"), "output")
	n := notes{}
	_, same, err := Made(n, dir, "a")
	require.NoError(t, err)
	require.False(t, same, "nothing is known")

	require.NoError(t, Remember(n, dir, "a", 1, []string{name}))
	_, same, err = Made(n, dir, "b")
	require.NoError(t, err)
	require.False(t, same)
	_, same, err = Made(n, t.TempDir(), "a")
	require.NoError(t, err)
	require.False(t, same, "another folder")

	for k := range n {
		n[k] = n[k][:len(n[k])/2]
	}
	_, same, err = Made(n, dir, "a")
	require.NoError(t, err)
	require.False(t, same, "half a record")
}

func TestFilesFromBeforeTheMachineStartedAreNotBelieved(t *testing.T) {
	dir := t.TempDir()
	n := notes{}
	require.NoError(t, Remember(n, dir, "a", 1, []string{write(t, filepath.Join(dir, "out"), "output")}))
	_, same, err := Made(n, dir, "a")
	require.NoError(t, err)
	require.True(t, same)
	require.NotEmpty(t, bootID())
	for k := range n {
		n[k] = bytes.ReplaceAll(n[k], []byte(bootID()), []byte("another"))
	}
	_, same, err = Made(n, dir, "a")
	require.NoError(t, err)
	require.False(t, same)
}

func TestAFileThatIsMissingCannotBeRemembered(t *testing.T) {
	dir := t.TempDir()
	require.ErrorIs(t, Remember(notes{}, dir, "a", 1, []string{filepath.Join(dir, "none")}), fs.ErrNotExist)
}

// helloSum is the SHA-256 of "hello", by sha256sum.
const helloSum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

func TestAHashIsRememberedUntilTheFileChanges(t *testing.T) {
	name := write(t, filepath.Join(t.TempDir(), "f"), "hello")
	n := notes{}
	later := time.Now().Add(time.Minute)
	h, err := OpenHashes(n, "x", later)
	require.NoError(t, err)
	sum, err := h.SHA256(name)
	require.NoError(t, err)
	require.Equal(t, helloSum, sum)
	require.NoError(t, h.Save())

	// What the note says is taken: the file is not read.
	n["x"] = bytes.ReplaceAll(n["x"], []byte(helloSum), []byte(strings.Repeat("0", 64)))
	h, err = OpenHashes(n, "x", later)
	require.NoError(t, err)
	sum, err = h.SHA256(name)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("0", 64), sum)

	time.Sleep(Tick)
	write(t, name, "hellO")
	changed, err := h.SHA256(name)
	require.NoError(t, err)
	require.NotEqual(t, sum, changed)
	write(t, name, "hello")
	sum, err = h.SHA256(name)
	require.NoError(t, err)
	require.Equal(t, helloSum, sum)
}

func TestAFileThatJustChangedIsReadAgain(t *testing.T) {
	name := write(t, filepath.Join(t.TempDir(), "f"), "hello")
	n := notes{}
	h, err := OpenHashes(n, "x", time.Now())
	require.NoError(t, err)
	_, err = h.SHA256(name)
	require.NoError(t, err)
	require.NoError(t, h.Save())
	require.Empty(t, n)
}

func TestOnlyFilesThatWereAskedForAreKept(t *testing.T) {
	dir := t.TempDir()
	a, b := write(t, filepath.Join(dir, "a"), "a"), write(t, filepath.Join(dir, "b"), "b")
	n := notes{}
	later := time.Now().Add(time.Minute)
	for _, names := range [][]string{{a}, {b}} {
		h, err := OpenHashes(n, "x", later)
		require.NoError(t, err)
		for _, name := range names {
			_, err := h.SHA256(name)
			require.NoError(t, err)
		}
		require.NoError(t, h.Save())
	}
	var kept map[string]any
	require.NoError(t, json.Unmarshal(n["x"], &kept))
	require.Len(t, kept, 1)
	require.Contains(t, kept, b)
}

func TestHashesWithoutANote(t *testing.T) {
	var none *Hashes
	name := write(t, filepath.Join(t.TempDir(), "f"), "hello")
	sum, err := none.SHA256(name)
	require.NoError(t, err)
	require.Equal(t, helloSum, sum)
	require.NoError(t, none.Save())
	_, err = none.SHA256(name + "-none")
	require.ErrorIs(t, err, fs.ErrNotExist)

	h, err := OpenHashes(notes{"x": []byte("{damaged")}, "x", time.Now().Add(time.Minute))
	require.NoError(t, err)
	sum, err = h.SHA256(name)
	require.NoError(t, err)
	require.Equal(t, helloSum, sum)
}
