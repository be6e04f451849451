package tree

import (
	"fmt"
	"math/rand"
	"path"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

// sortedPaths is Paths from nothing but the inodes.
func sortedPaths(t *Tree) []string {
	var out []string
	for p := range t.nodes {
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool { return less(out[i], out[j]) })
	return out
}

// TestWhatATreeKnowsInAdvanceIsWhatItWouldFind changes trees at random, and asks in between: for the order of paths, for
// patterns, and for the paths behind links, each of which has a shorter way.
func TestWhatATreeKnowsInAdvanceIsWhatItWouldFind(t *testing.T) {
	names := []string{"a", "b", "a-b", "ab", "lib"}
	for seed := range int64(200) {
		r := rand.New(rand.NewSource(seed))
		tr := New()
		somewhere := func() string {
			p := ""
			for range 1 + r.Intn(4) {
				p += "/" + names[r.Intn(len(names))]
			}
			return p
		}
		for range 60 {
			// An error leaves the tree as it was, as far as this test goes.
			switch r.Intn(8) {
			case 0, 1:
				_ = tr.WriteFile(somewhere(), nil, 0o644, "")
			case 2:
				_ = tr.Mkdir(somewhere(), 0o755)
			case 3:
				_ = tr.Symlink(somewhere(), somewhere(), "")
			case 4:
				_ = tr.Symlink("../"+names[r.Intn(len(names))], somewhere(), "")
			case 5:
				_ = tr.Remove(somewhere())
			case 6:
				p := somewhere()
				_ = tr.Remove(p)
				_ = tr.WriteFile(p, nil, 0o644, "")
			case 7:
				require.Equal(t, sortedPaths(tr), tr.Paths())
			}
			p := somewhere()
			for _, last := range []bool{false, true} {
				if tr.resolved(p, last) {
					// A path that is not clean takes the long way.
					want, err := tr.resolve(p+"/.", last)
					require.NoError(t, err)
					require.Equal(t, want, p, "seed %d", seed)
				}
			}
		}
		require.Equal(t, sortedPaths(tr), tr.Paths())
		for _, pattern := range []string{"/*", "/a*/b", "/*/*", "/?/[ab]/*", "/lib/*-b"} {
			var want []string
			for _, p := range tr.Paths() {
				if ok, _ := path.Match(pattern, p); ok && p != "/" {
					want = append(want, p)
				}
			}
			got, err := tr.Glob(pattern)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), pattern)
		}
	}
}

func TestABadPattern(t *testing.T) {
	_, err := New().Glob("/[")
	require.ErrorIs(t, err, path.ErrBadPattern)
}
