package store

import (
	"bytes"
	"errors"
	"io"
	"math/rand"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/directio"
)

func TestAnObjectInPiecesHasTheSumOfAWholeOne(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	s := open(t)
	for i := range 30 {
		content := directio.Buffer(r.Intn(300_000))
		r.Read(content)
		unit := 1
		if i%2 == 0 {
			unit = directio.Align
		}
		var pieces [][2]int
		for at := 0; at < len(content); {
			n := min(unit*(1+r.Intn(1+len(content)/unit/3)), len(content)-at)
			pieces = append(pieces, [2]int{at, at + n})
			at += n
		}
		r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		k := KeyOf("piece", string(rune('a'+i)))
		require.NoError(t, s.PutLarge(k, int64(len(content)), func(w io.WriterAt) error {
			for _, p := range pieces {
				if n, err := w.WriteAt(content[p[0]:p[1]], int64(p[0])); err != nil || n != p[1]-p[0] {
					return errors.Join(err, errors.New("short"))
				}
			}
			return nil
		}))
		got, err := os.ReadFile(s.Path(k))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
		if want, ok := noted(s.Path(k)); ok {
			require.Equal(t, sumOf(content), want)
		}
		require.NoError(t, s.Check(k))
	}
}

func TestPiecesThatDoNotMakeAnObject(t *testing.T) {
	type piece struct {
		at int64
		n  int
	}
	for name, c := range map[string]struct {
		size   int64
		pieces []piece
	}{
		"nothing":             {10, nil},
		"no beginning":        {10, []piece{{1, 9}}},
		"a hole":              {10, []piece{{0, 4}, {5, 5}}},
		"a piece twice":       {10, []piece{{0, 5}, {5, 5}, {0, 5}}},
		"two that overlap":    {10, []piece{{0, 6}, {5, 5}}},
		"no end":              {10, []piece{{0, 9}}},
		"more than there was": {10, []piece{{0, 11}}},
		"a part of it twice":  {10, []piece{{0, 10}, {3, 2}}},
		"behind its end":      {10, []piece{{0, 10}, {10, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			err := s.PutLarge(KeyOf(name), c.size, func(w io.WriterAt) error {
				for _, p := range c.pieces {
					if _, err := w.WriteAt(make([]byte, p.n), p.at); err != nil {
						return err
					}
				}
				return nil
			})
			require.ErrorContains(t, err, "internal error: ")
			require.False(t, s.Has(KeyOf(name)))
			require.Empty(t, files(t, s.TempDir()))
		})
	}
}

func TestALargeObjectThatFailsLeavesNothing(t *testing.T) {
	s := open(t)
	why := errors.New("the pack is damaged")
	require.ErrorIs(t, s.PutLarge(KeyOf("x"), 1<<20, func(io.WriterAt) error { return why }), why)
	require.False(t, s.Has(KeyOf("x")))
	require.Empty(t, files(t, s.TempDir()))
	require.NoError(t, s.PutLarge(KeyOf("empty"), 0, func(io.WriterAt) error { return nil }))
	require.True(t, s.Has(KeyOf("empty")))
}
