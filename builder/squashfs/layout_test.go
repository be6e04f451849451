package squashfs

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

// xzFile is data that begins like a compressed kernel module, which is stored as it is.
func xzFile(seed int64, size int) []byte {
	return append([]byte("\xfd7zXZ\x00"), noise(seed, size-6)...)
}

func TestIdenticalFilesOfSeveralPacksAreThereOnce(t *testing.T) {
	for name, data := range map[string][]byte{
		"of several blocks": noise(1, 3*testBlock+100), "of one fragment": prose(2, testBlock/2), "stored as it is": xzFile(3, testBlock/4),
	} {
		t.Run(name, func(t *testing.T) {
			one, two := tree.New(), tree.New()
			require.NoError(t, one.WriteFile("/a", data, 0o644, ""))
			require.NoError(t, two.WriteFile("/b", data, 0o600, ""))
			linked, _ := packed(t, one, PackOptions{BlockSize: testBlock})
			_, alone := linkFile(t, linked, Options{BlockSize: testBlock})
			require.Zero(t, alone.Shared)
			other, _ := packed(t, two, PackOptions{BlockSize: testBlock})
			b, err := other.Lstat("/b")
			require.NoError(t, err)
			require.NoError(t, linked.Add("/b", b))
			image, res := linkFile(t, linked, Options{BlockSize: testBlock})
			require.Equal(t, alone.Copied, res.Copied)
			require.Zero(t, res.Fresh)
			require.EqualValues(t, len(data), res.Shared)
			requireSameTree(t, linked, unsquash(t, image))
		})
	}
}

func TestWhatIsLeftOfAStoredFragmentTakesItsOwnBytesOnly(t *testing.T) {
	const size = testBlock / 8
	tr := tree.New()
	for i := range 64 { // eight fragments
		require.NoError(t, tr.WriteFile(fmt.Sprintf("/%02d", i), xzFile(int64(i), size), 0o644, ""))
	}
	linked, _ := packed(t, tr, PackOptions{BlockSize: testBlock})
	_, whole := linkFile(t, linked, Options{BlockSize: testBlock})
	require.EqualValues(t, 64*size, whole.Copied)
	require.Equal(t, 8, whole.Fragments)
	for i := range 64 {
		if i%4 != 0 {
			require.NoError(t, linked.Remove(fmt.Sprintf("/%02d", i)))
		}
	}
	image, res := linkFile(t, linked, Options{BlockSize: testBlock})
	require.EqualValues(t, 16*size, res.Copied)
	require.Equal(t, 2, res.Fragments)
	requireSameTree(t, linked, unsquash(t, image))
}

func TestWhatIsReadFirstComesFirst(t *testing.T) {
	tr := tree.New()
	var names []string
	for i := range 40 {
		name := fmt.Sprintf("/%02d", i)
		names = append(names, name)
		data := noise(int64(i), testBlock+i)
		if i%2 == 1 {
			data = xzFile(int64(i), testBlock/4)
		}
		require.NoError(t, tr.WriteFile(name, data, 0o644, ""))
	}
	linked, _ := packed(t, tr, PackOptions{BlockSize: testBlock})
	first := []string{"/31", "/nobody", "/30", "/07", "/09", "/02", "/30"}
	image, res := linkFile(t, linked, Options{BlockSize: testBlock, First: first})
	_, plain := linkFile(t, linked, Options{BlockSize: testBlock})
	require.Equal(t, plain.Copied, res.Copied)
	requireSameTree(t, linked, unsquash(t, image))

	raw, err := os.ReadFile(image)
	require.NoError(t, err)
	at := func(name string) int { // noise is stored as it is
		data, err := tr.ReadFile(name)
		require.NoError(t, err)
		i := bytes.Index(raw, data[:64])
		require.Positive(t, i, name)
		return i
	}
	require.Less(t, at("/31"), at("/30"))
	require.Less(t, at("/30"), at("/07"))
	require.Equal(t, at("/07")+testBlock/4, at("/09"), "neighbours share a fragment")
	require.Less(t, at("/09"), at("/02"))
	for _, name := range names {
		if !slices.Contains(first, name) {
			require.Less(t, at("/02"), at(name))
		}
	}
}
