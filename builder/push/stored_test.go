package push

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/updateset"
	"spore/storage/pieces"
	"spore/wire/update"
)

// written is an update, and where it was written to as a folder and as a file with its root.
func written(t *testing.T) (p *operator, u *Update, dir, file string) {
	t.Helper()
	p = newOperator(t)
	u = p.update(Options{}, built(t, noise(1, 1<<20), "part", true))
	dir, file = filepath.Join(t.TempDir(), "update"), filepath.Join(t.TempDir(), "edge.update")
	require.NoError(t, u.WriteFolder(context.Background(), dir))
	require.NoError(t, u.WriteFile(file, true))
	return p, u, dir, file
}

func TestAnUpdateThatWasWrittenIsTheSameWhenItIsOpened(t *testing.T) {
	p, u, dir, file := written(t)
	for _, name := range []string{dir, file} {
		s, err := Open(name, p.keys)
		require.NoError(t, err)
		require.Equal(t, u.Head.Serial, s.Head.Serial)
		require.Equal(t, u.Head.Root.Index, s.Head.Root.Index)
		require.Equal(t, u.Signed, s.Signed)
		for _, sum := range u.set.All() {
			want, err := u.set.Object(sum)
			require.NoError(t, err)
			got, err := s.Object(context.Background(), sum)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		_, err = s.Object(context.Background(), pieces.Sum{1})
		require.ErrorIs(t, err, updateset.ErrObject)
		require.NoError(t, s.Close())
	}
}

func TestWhatIsNoUpdateOfTheClusterIsNotSent(t *testing.T) {
	p, _, dir, file := written(t)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	head := filepath.Join(dir, updateset.Head)
	signed, err := os.ReadFile(head)
	require.NoError(t, err)
	changed := bytes.Replace(signed, []byte(`"edge-03"`), []byte(`"edge-04"`), 1)
	require.NotEqual(t, signed, changed)
	for want, data := range map[string][]byte{
		update.ErrSignature.Error(): changed,
		"it ends in its head":       signed[:40],
		"more than":                 bytes.Repeat([]byte("x"), maxHead+1),
	} {
		require.NoError(t, os.WriteFile(head, data, 0o600))
		_, err := Open(dir, p.keys)
		require.ErrorContains(t, err, want)
		require.NoError(t, os.WriteFile(file, data, 0o600))
		_, err = Open(file, p.keys)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, os.WriteFile(file, whole[:len(whole)-1], 0o600))
	_, err = Open(file, p.keys)
	require.ErrorContains(t, err, "it ends in an object")
	require.NoError(t, os.WriteFile(file, whole, 0o600))
	_, err = Open(file, newOperator(t).keys)
	require.ErrorIs(t, err, update.ErrSignature)
	_, err = Open(t.TempDir(), p.keys)
	require.ErrorContains(t, err, updateset.Head)
	_, err = Open(filepath.Join(dir, "nothing"), p.keys)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAFolderWithAHugeFileIsNotRead(t *testing.T) {
	p, u, dir, _ := written(t)
	s, err := Open(dir, p.keys)
	require.NoError(t, err)
	sum := u.set.RootPieces[0].Sum
	require.NoError(t, os.Truncate(filepath.Join(dir, updateset.PiecesDir, sum.String()), 1<<30))
	_, err = s.Object(context.Background(), sum)
	require.ErrorContains(t, err, "an object at most")
}
