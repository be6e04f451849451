package store

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContentIsReadIntoMemory(t *testing.T) {
	s := open(t)
	_, err := s.Content(KeyOf("none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	k := put(t, s, "whole")
	c, err := s.Content(k)
	require.NoError(t, err)
	require.Equal(t, int64(5), c.Size())
	p := []byte("<12345>")
	require.NoError(t, c.ReadInto(p[1:6]))
	require.Equal(t, "<whole>", string(p))
}

func TestContentThatIsCutMeanwhileIsRemoved(t *testing.T) {
	for name, length := range map[string]int64{"cut": 2, "empty": 0} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			k := put(t, s, "whole")
			c, err := s.Content(k)
			require.NoError(t, err)
			damage(t, s.Path(k), func(f *os.File) error { return f.Truncate(length) })
			require.ErrorIs(t, c.ReadInto(make([]byte, c.Size())), ErrDamaged)
			require.NoFileExists(t, s.path(k))
		})
	}
}
