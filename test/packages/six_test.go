//go:build integration

package packages

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/chance"
	"spore/test/packages/edge"
)

// Six of the list, others in each run: SPORE_SEED repeats them. Packages come from the cache of `spore build`, which
// other tests fill, too.
func TestSixPackagesOfTheList(t *testing.T) {
	groups, err := List()
	require.NoError(t, err)
	all := Entries(groups)
	random := rand.New(rand.NewPCG(chance.Seed(t), 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	six := Group{Name: "six", Packages: all[:6]}

	user, err := os.UserCacheDir()
	require.NoError(t, err)
	e, err := edge.Open(t.Context(), "../..", filepath.Join(user, "spore"), time.Now())
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	outcomes, err := Alone(t.Context(), e, []Group{six}, func(o Outcome) { t.Log(o) })
	require.NoError(t, err)
	for _, o := range outcomes {
		t.Run(o.Name+" builds, or fails as the list says", func(t *testing.T) { require.NoError(t, o.Unexpected()) })
	}

	cache, err := edge.Cache()
	require.NoError(t, err)
	r := References{Edge: e, Dir: filepath.Join(cache, "references")}
	rows, _, err := readRows("../..")
	require.NoError(t, err)
	for _, o := range outcomes {
		t.Run(o.Name+" is what Debian makes of it", func(t *testing.T) {
			b, root, failed, err := r.KeptBatch(o.Name)
			if errors.Is(err, fs.ErrNotExist) {
				t.Skip("elsewhere: make packages compares it with what mmdebstrap makes, which it keeps for this test")
			}
			require.NoError(t, err)
			if slices.Contains(failed, o.Name) || o.Err != nil {
				t.Skip("elsewhere: make packages compares it once it builds")
			}
			c, err := r.Compare(t.Context(), b, root, failed, rows)
			require.NoError(t, err)
			unexplained := Comparison{Of: map[string][]Explained{o.Name: c.Of[o.Name]}}.Unexplained()
			require.Empty(t, slices.Compact(unexplained), "differences that %s does not explain", ownRows)
		})
	}
}
