package blank

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// image is a sparse file with something in it.
func image(t *testing.T, size int64, what string, at int64) *os.File {
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	require.NoError(t, f.Truncate(size))
	_, err = f.WriteAt([]byte(what), at)
	require.NoError(t, err)
	return f
}

func TestContent(t *testing.T) {
	const size = 1 << 30
	for name, tc := range map[string]struct {
		what string
		at   int64
		want string
	}{
		"zeros are nothing":                          {"", 0, ""},
		"a file system is named":                     {"XFSB", 0, "it holds an XFS file system"},
		"of a zapped disk the first partition stays": {"\x53\xef", mib + 1080, "there is data at byte 1049656"},
		"the last byte counts":                       {"x", size - 1, "there is data at byte 1073741823"},
		"a place between counts":                     {"x", size/65*7/4096*4096 + 5, "there is data at byte"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Content(image(t, size, tc.what, tc.at), size)
			require.NoError(t, err)
			if tc.want == "" {
				require.Empty(t, got)
			}
			require.Contains(t, got, tc.want)
		})
	}
	t.Run("what cannot be read is not empty", func(t *testing.T) {
		_, err := Content(bytes.NewReader(nil), size)
		require.Error(t, err)
	})
	t.Run("a tiny disk is read as a whole", func(t *testing.T) {
		got, err := Content(bytes.NewReader(append(make([]byte, 70000), 1)), 70001)
		require.NoError(t, err)
		require.Equal(t, "there is data at byte 70000", got)
	})
}

func TestTheMarkerIsOfOneThingAndGoesAway(t *testing.T) {
	f := image(t, 16*mib, "old data", 0)
	require.NoError(t, Give(f, 16*mib, "the thing"))
	what, err := Content(f, 16*mib)
	require.NoError(t, err)
	require.Equal(t, "there is data at byte 1044480", what, "the marker itself")
	for name, want := range map[string]bool{"the thing": true, "another thing": false} {
		got, err := Marked(f, name)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	require.NoError(t, Unmark(f))
	got, err := Marked(f, "the thing")
	require.NoError(t, err)
	require.False(t, got)
	what, err = Content(f, 16*mib)
	require.NoError(t, err)
	require.Empty(t, what)
}

// FuzzContent puts bytes somewhere into a disk of zeros: whatever they are, it has an answer, and where they are looked at it is
// not empty.
func FuzzContent(f *testing.F) {
	f.Add([]byte("XFSB"), uint32(0))
	f.Add([]byte("CD001"), uint32(32769))
	f.Add([]byte{0x55, 0xaa}, uint32(510))
	f.Add([]byte{}, uint32(0))
	const size = 5 * mib
	f.Fuzz(func(t *testing.T, data []byte, at uint32) {
		disk := make([]byte, size)
		n := copy(disk[at%size:], data)
		what, err := Content(bytes.NewReader(disk), size)
		require.NoError(t, err)
		wrote := bytes.Trim(disk[at%size:][:n], "\x00")
		if at%size+uint32(n) <= 4*mib || at%size >= 4*mib {
			require.Equal(t, len(wrote) == 0, what == "", what)
		}
		require.NotPanics(t, func() { Signature(bytes.NewReader(data)) })
	})
}
