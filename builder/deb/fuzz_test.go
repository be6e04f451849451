package deb

import (
	"archive/tar"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/deb/debtest"
)

// A package: whatever comes out of it stays inside of it and inside of its bounds.
func FuzzReader(f *testing.F) {
	for _, compress := range []string{"", "gz", "xz", "zst"} {
		d := sample
		d.Compress = compress
		f.Add(d.Bytes())
		f.Add(debtest.Deb{Control: debtest.Control("aa", "1"), Compress: compress, Data: []debtest.Entry{
			{Name: "./a", Body: "a"}, {Name: "./b", Link: "./a", Type: tar.TypeLink}, {Name: "./../c", Body: "c"},
		}}.Bytes())
	}
	f.Add([]byte("!<arch>\n"))
	opts := Options{MaxSize: 1 << 20, MaxEntries: 100, MaxControl: 1 << 20}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, bodies, err := read(data, opts)
		total := 0
		for i, e := range entries {
			require.True(t, path.IsAbs(e.Path) && path.Clean(e.Path) == e.Path, e.Path)
			require.False(t, strings.ContainsAny(e.Path, "\x00\n"))
			if e.Link != "" {
				found := false
				for _, before := range entries[:i] {
					found = found || before.Path == e.Link
				}
				require.True(t, found, "a hard link to what is not there")
			}
			total += len(bodies[e.Path])
		}
		require.LessOrEqual(t, total, 1<<20)
		require.LessOrEqual(t, len(entries), 100)
		if err == nil {
			again, _, err := read(data, opts)
			require.NoError(t, err)
			require.Equal(t, entries, again)
		}
	})
}
