package store

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// filled is a store of ten objects of ten bytes, put in by a session that has ended; number 9 was used last.
func filled(t *testing.T) (dir string, keys []Key) {
	t.Helper()
	s := open(t)
	for i := range 10 {
		k := put(t, s, fmt.Sprintf("object%4d", i))
		age(t, s.Path(k), time.Duration(10-i)*time.Hour)
		keys = append(keys, k)
	}
	require.NoError(t, s.Close())
	return s.Dir(), keys
}

func there(s *Store, keys []Key) (out []int) {
	for i, k := range keys {
		if _, err := os.Stat(s.path(k)); err == nil {
			out = append(out, i)
		}
	}
	return out
}

func TestPrune(t *testing.T) {
	for name, tt := range map[string]struct {
		use  []int
		o    PruneOptions
		left []int
		want Pruned
	}{
		"down to a size": {
			o: PruneOptions{To: 35}, left: []int{7, 8, 9}, want: Pruned{Removed: 7, Freed: 70, Left: 30},
		},
		"what was used stays, though it was put in first": {
			use: []int{0, 1}, o: PruneOptions{To: 35}, left: []int{0, 1, 9}, want: Pruned{Removed: 7, Freed: 70, Left: 30},
		},
		"small enough": {
			o: PruneOptions{To: 100}, left: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, want: Pruned{Left: 100},
		},
		"what was not used for a time": {
			o: PruneOptions{Unused: 270 * time.Minute}, left: []int{6, 7, 8, 9}, want: Pruned{Removed: 6, Freed: 60, Left: 40},
		},
		"everything": {
			use: []int{5}, o: PruneOptions{All: true}, left: []int{5}, want: Pruned{Removed: 9, Freed: 90, Left: 10, InUse: 1},
		},
		"nothing, only to see": {
			o: PruneOptions{All: true, DryRun: true}, left: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, want: Pruned{Removed: 10, Freed: 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, keys := filled(t)
			s, err := Open(dir)
			require.NoError(t, err)
			for _, i := range tt.use {
				require.True(t, s.Has(keys[i]))
			}
			got, err := s.Prune(tt.o)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.left, there(s, keys))
		})
	}
}

func TestAnotherSessionsObjectsStay(t *testing.T) {
	dir, keys := filled(t)
	builds, err := Open(dir)
	require.NoError(t, err)
	require.True(t, builds.Has(keys[3]))
	made := put(t, builds, "made by the build")

	prunes, err := Open(dir)
	require.NoError(t, err)
	p, err := prunes.Prune(PruneOptions{All: true})
	require.NoError(t, err)
	require.Equal(t, Pruned{Removed: 9, Freed: 90, Left: 27, InUse: 2, Sessions: 1}, p)
	require.True(t, builds.Has(made))
	require.Equal(t, []int{3}, there(builds, keys))

	require.NoError(t, builds.Close())
	later, err := Open(dir)
	require.NoError(t, err)
	age(t, later.path(keys[3]), time.Hour)
	age(t, later.path(made), time.Hour)
	require.NoError(t, prunes.Close())
	p, err = later.Prune(PruneOptions{All: true})
	require.NoError(t, err)
	require.Equal(t, Pruned{Removed: 2, Freed: 27}, p)
}

// Each of many builds at once asks for an object, makes it when it is missing, and must have it from then on, whatever the others
// remove.
func TestWhatABuildFoundStaysWhileOthersPrune(t *testing.T) {
	dir, keys := filled(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			s, err := Open(dir)
			if err == nil {
				_, err = s.Prune(PruneOptions{All: true})
				err = firstError(err, s.Close())
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	var builds sync.WaitGroup
	for range 4 {
		builds.Go(func() {
			for range 25 {
				if err := buildOnce(dir, keys); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	builds.Wait()
	close(stop)
	wg.Wait()
}

func buildOnce(dir string, keys []Key) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if !s.Has(k) {
			if err := s.Put(k, func(w *os.File) error { _, err := fmt.Fprintf(w, "object%4d", i); return err }); err != nil {
				return err
			}
		}
	}
	for i, k := range keys {
		data, err := s.ReadAll(k)
		if err != nil {
			return fmt.Errorf("object %d was there: %w", i, err)
		}
		if string(data) != fmt.Sprintf("object%4d", i) {
			return fmt.Errorf("object %d is %q", i, data)
		}
	}
	return s.Close()
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func TestTidyHoldsTheStoreToItsLimit(t *testing.T) {
	dir, keys := filled(t)
	s, err := Open(dir)
	require.NoError(t, err)
	p, err := s.Tidy(100)
	require.NoError(t, err)
	require.Equal(t, Pruned{Left: 100}, p, "it fits")

	put(t, s, "one more")
	p, err = s.Tidy(0)
	require.NoError(t, err)
	require.Equal(t, Pruned{}, p, "no limit")
	p, err = s.Tidy(100)
	require.NoError(t, err)
	require.Equal(t, Pruned{Removed: 2, Freed: 20, Left: 88}, p, "a tenth is free afterwards")
	require.Equal(t, []int{2, 3, 4, 5, 6, 7, 8, 9}, there(s, keys))

	p, err = s.Tidy(5)
	require.NoError(t, err)
	require.Equal(t, Pruned{Removed: 8, Freed: 80, Left: 8, InUse: 1}, p, "what this session made stays")
}

// The size is counted once a day: what an older spore adds in the meantime is seen then.
func TestTidyCountsOnceADay(t *testing.T) {
	dir, _ := filled(t)
	s, err := Open(dir)
	require.NoError(t, err)
	n, err := s.count()
	require.NoError(t, err)
	require.EqualValues(t, 100, n)
	other, err := Open(dir)
	require.NoError(t, err)
	put(t, other, "not counted")
	require.NoError(t, other.Close())
	n, err = s.count()
	require.NoError(t, err)
	require.EqualValues(t, 100, n)

	put(t, s, "ten bytes.")
	n, err = s.count()
	require.NoError(t, err)
	require.EqualValues(t, 110, n)
	s.session.start = s.session.start.Add(25 * time.Hour)
	n, err = s.count()
	require.NoError(t, err)
	require.EqualValues(t, 121, n)
	require.NoError(t, s.WriteNote(usageNote, []byte("{")))
	n, err = s.count()
	require.NoError(t, err)
	require.EqualValues(t, 121, n, "a damaged note is a missing one")
}

func TestLimits(t *testing.T) {
	s := open(t)
	standard, err := Limit(s.Dir(), "")
	require.NoError(t, err)
	require.Positive(t, standard)
	require.LessOrEqual(t, standard, int64(defaultLimit))
	require.NoError(t, s.SetLimit("10GiB"))
	for _, tt := range []struct {
		override string
		want     int64
	}{{"", 10 << 30}, {"1GB", 1_000_000_000}, {"none", 0}, {"4096", 4096}} {
		got, err := Limit(s.Dir(), tt.override)
		require.NoError(t, err)
		require.Equal(t, tt.want, got, tt.override)
	}
	for _, bad := range []string{"much", "-1", "0", "99999999TiB", "10 Gi B"} {
		require.Error(t, s.SetLimit(bad), bad)
		_, err := Limit(s.Dir(), bad)
		require.Error(t, err, bad)
	}
	require.NoError(t, s.SetLimit("default"))
	require.NoError(t, s.SetLimit("default"))
	got, err := Limit(s.Dir(), "")
	require.NoError(t, err)
	require.Equal(t, standard, got)
	require.NoError(t, os.WriteFile(s.Dir()+"/limit", []byte("nonsense"), 0o644))
	_, err = Limit(s.Dir(), "")
	require.ErrorContains(t, err, "limit: \"nonsense\" is not a size")
}
