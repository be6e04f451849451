package kind

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/deb/debtest"
	"spore/builder/squashfs"
	"spore/builder/tree"
)

// What other packages write is told from what they write, not from copies of their magic numbers here.
func TestTheKindIsToldFromTheContent(t *testing.T) {
	var pack, image bytes.Buffer
	require.NoError(t, squashfs.PackTree(&pack, tree.New(), squashfs.PackOptions{}))
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	_, err = squashfs.Link(f, tree.New(), squashfs.Options{})
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	image.Write(make([]byte, 257))
	image.WriteString("ustar\x0000")

	files := map[string][]byte{
		"deb": debtest.Deb{Control: debtest.Control("a", "1")}.Bytes(), "pack": pack.Bytes(), "image": image.Bytes(),
		"short": []byte("h"), "empty": nil,
	}
	want := map[string]Kind{"deb": Packages, "pack": Packs, "image": Images, "short": Other, "empty": Other}
	for name, data := range files {
		p := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(p, data, 0o644))
		k, err := OfFile(p)
		require.NoError(t, err)
		require.Equal(t, want[name], k, name)
	}
	for name, kind := range map[string]Kind{exe: Programs, f.Name(): Roots} {
		k, err := OfFile(name)
		require.NoError(t, err)
		require.Equal(t, kind, k, name)
	}
	_, err = OfFile(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}

func FuzzOf(f *testing.F) {
	f.Add([]byte("hsqs"))
	f.Fuzz(func(t *testing.T, head []byte) { require.Contains(t, All(), Of(head)) })
}
