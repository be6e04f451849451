package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	return s
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != lockName && filepath.Base(filepath.Dir(p)) != sessionsDir {
			out = append(out, p)
		}
		return err
	}))
	return out
}

func TestKeysOfDifferentListsDiffer(t *testing.T) {
	seen := map[Key][]string{}
	for _, parts := range [][]string{{"a"}, {"a", ""}, {"a", "b"}, {"ab"}, {"a", "b", ""}, {"a1:b"}, {"a", "1:b"}, {""}} {
		k := KeyOf(parts[0], parts[1:]...)
		require.NotContains(t, seen, k, "%q and %q", seen[k], parts)
		require.Equal(t, k, KeyOf(parts[0], parts[1:]...))
		seen[k] = parts
	}
}

func TestParseKeyIsTheInverseOfString(t *testing.T) {
	k := KeyOf("x")
	got, err := ParseKey(k.String())
	require.NoError(t, err)
	require.Equal(t, k, got)
	for _, bad := range []string{"", "12", strings.ToUpper(k.String()), k.String() + "00", "../" + k.String()[3:], strings.Repeat("zz", 32)} {
		_, err := ParseKey(bad)
		require.Error(t, err, bad)
	}
}

func TestAnObjectAppearsWholeOrNotAtAll(t *testing.T) {
	s := open(t)
	k := KeyOf("x")
	broken := errors.New("broken")
	err := s.Put(k, func(w *os.File) error {
		_, _ = io.WriteString(w, "half")
		require.False(t, s.Has(k))
		return broken
	})
	require.ErrorIs(t, err, broken)
	require.False(t, s.Has(k))
	require.Empty(t, files(t, s.Dir()))
	_, err = s.Open(k)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = s.ReadAll(k)
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, s.Put(k, func(w *os.File) error { _, err := io.WriteString(w, "whole"); return err }))
	data, err := s.ReadAll(k)
	require.NoError(t, err)
	require.Equal(t, "whole", string(data))
	require.Equal(t, []string{s.Path(k)}, files(t, s.Dir()))
}

func TestEnsureMakesAnObjectOnce(t *testing.T) {
	s := open(t)
	calls := 0
	for range 3 {
		f, err := s.Ensure(KeyOf("x"), func(w *os.File) error { calls++; _, err := io.WriteString(w, "data"); return err })
		require.NoError(t, err)
		data, err := io.ReadAll(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, "data", string(data))
	}
	require.Equal(t, 1, calls)
	_, err := s.Ensure(KeyOf("y"), func(*os.File) error { return errors.New("no") })
	require.EqualError(t, err, "no")
}

func TestAdoptMovesAFileIntoTheStore(t *testing.T) {
	s := open(t)
	k := KeyOf("x")
	p := filepath.Join(s.PartialDir(), "download")
	require.Error(t, s.Adopt(k, p), "nothing is there yet")
	require.NoError(t, os.WriteFile(p, []byte("data"), 0o600))
	require.NoError(t, s.Adopt(k, p))
	require.NoFileExists(t, p)
	info, err := os.Stat(s.Path(k))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o644), info.Mode())
}

func TestManyWritersOfOneObjectAgree(t *testing.T) {
	s := open(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			f, err := s.Ensure(KeyOf("x"), func(w *os.File) error { _, err := io.WriteString(w, "data"); return err })
			if err == nil {
				f.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, files(t, s.Dir()), 1)
}

func TestNotesAreReplaced(t *testing.T) {
	s := open(t)
	_, err := s.ReadNote("n")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, text := range []string{"one", "two"} {
		require.NoError(t, s.WriteNote("n", []byte(text)))
		got, err := s.ReadNote("n")
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	require.Error(t, s.WriteNote("no/such", nil))
	require.Len(t, files(t, s.Dir()), 1)
}

func TestAStoreThatCannotBeMadeIsAnError(t *testing.T) {
	p := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(p, nil, 0o644))
	_, err := Open(p)
	require.ErrorContains(t, err, "open store")
}
