package store

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// damage changes an object behind the back of the store, and leaves what was noted of it.
func damage(t *testing.T, name string, change func(f *os.File) error) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, change(f))
	require.NoError(t, f.Close())
}

func flip(f *os.File) error { _, err := f.WriteAt([]byte("W"), 0); return err }

// noting skips where the filesystem keeps no attributes.
func noting(t *testing.T, s *Store) {
	t.Helper()
	if _, ok := noted(s.Path(put(t, s, "probe"))); !ok {
		t.Skip("the filesystem has no extended attributes")
	}
}

func TestAnObjectOfAnotherLengthIsMissing(t *testing.T) {
	for name, length := range map[string]int64{"cut": 2, "empty": 0, "longer": 9} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			noting(t, s)
			k := put(t, s, "whole")
			damage(t, s.Path(k), func(f *os.File) error { return f.Truncate(length) })
			next, err := Open(s.Dir())
			require.NoError(t, err)
			require.False(t, next.Has(k))
			require.NoFileExists(t, s.path(k))
			require.True(t, next.Has(put(t, next, "whole")))
		})
	}
}

func TestAnObjectWithAnotherContentIsRemoved(t *testing.T) {
	for name, read := range map[string]func(s *Store, k Key) error{
		"when it is read": func(s *Store, k Key) error { _, err := s.ReadAll(k); return err },
		"when it is read into memory": func(s *Store, k Key) error {
			c, err := s.Content(k)
			require.NoError(t, err)
			return c.ReadInto(make([]byte, c.Size()))
		},
		"when it is checked": func(s *Store, k Key) error { return s.Check(k) },
		"when all is checked": func(s *Store, k Key) error {
			known, err := s.Verify(Object{Key: k, Path: s.path(k)})
			require.True(t, known)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			noting(t, s)
			k := put(t, s, "whole")
			require.NoError(t, read(s, k))
			damage(t, s.Path(k), flip)
			err := read(s, k)
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, s.path(k))
			require.False(t, s.Has(k))
			require.NoError(t, read(s, put(t, s, "whole")))
		})
	}
}

func TestAnObjectWithoutANoteIsTakenAsItIs(t *testing.T) {
	s := open(t)
	text := []byte("from outside")
	k := Key(sha256.Sum256(text))
	require.NoError(t, os.MkdirAll(s.path(k)[:len(s.path(k))-63], 0o755))
	require.NoError(t, os.WriteFile(s.path(k), text, 0o644))
	require.NoError(t, s.Check(k))
	known, err := s.Verify(Object{Key: k, Path: s.path(k)})
	require.NoError(t, err)
	require.True(t, known, "its key is its hash")
	require.NoError(t, s.CheckName(k))
	damage(t, s.path(k), flip)
	known, err = s.Verify(Object{Key: k, Path: s.path(k)})
	require.NoError(t, err)
	require.False(t, known)
	require.ErrorIs(t, s.CheckName(k), ErrDamaged)
	require.ErrorIs(t, s.CheckName(k), fs.ErrNotExist)
}
