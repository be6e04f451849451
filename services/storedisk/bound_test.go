package storedisk

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASizeIsBytesOrAShareOfTheDisk(t *testing.T) {
	dir := t.TempDir()
	all, err := capacity(dir)
	require.NoError(t, err)
	require.NotZero(t, all)
	for text, share := range map[string]float64{"80%": 0.8, "1%": 0.01, "100%": 1} {
		got, err := Bound(dir, text)
		require.NoError(t, err)
		// Others write to the disk of the test meanwhile.
		require.InEpsilon(t, share*float64(all), float64(got), 0.01, text)
	}
	for text, want := range map[string]uint64{"0": 0, "21474836480": 20 << 30} {
		got, err := Bound(filepath.Join(dir, "nowhere"), text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestASizeThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{"", "%", "0%", "101%", "-1", "1.5", "20GiB", "80%%", "99999999999999999999"} {
		_, err := Bound(t.TempDir(), text)
		require.ErrorContains(t, err, "is no size; write a whole number of bytes, or a share such as 80%", text)
	}
	_, err := Bound(filepath.Join(t.TempDir(), "nowhere"), "80%")
	require.ErrorContains(t, err, "how large the disk of ")
}
