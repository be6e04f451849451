//go:build packages

package packages

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"spore/test/packages/edge"
)

// pageFile is what a run of the whole list writes.
const pageFile = "../../docs/packages.md"

// onlyVariable names packages of the list, apart by spaces: a run is of these alone, and writes no page.
const onlyVariable = "SPORE_PACKAGES"

// The whole list: builds, the comparison with what Debian's own tools make, and the page. The page is written whatever
// comes out, so that it says what is wrong.
func TestPackagesOfTheList(t *testing.T) {
	started := time.Now()
	groups, e, references := open(t)
	all := Entries(groups)
	only, err := Only(groups, strings.Fields(os.Getenv(onlyVariable)))
	require.NoError(t, err, onlyVariable)
	base, err := e.Resolve()
	require.NoError(t, err)
	run := Run{Date: started, Archive: e.Date(), Base: len(base)}

	run.Outcomes, err = Alone(t.Context(), e, only, func(o Outcome) { t.Log(o) })
	require.NoError(t, err)
	t.Logf("%d of %d packages build; it took %s. Errors by kind:\n%s",
		run.Built(), len(run.Outcomes), time.Since(started).Round(time.Second), strings.Join(Kinds(run.Outcomes), "\n"))

	batches := batchesOf(t, references, all)
	if len(run.Outcomes) == len(all) {
		require.NoError(t, references.KeepBatches(batches, run.failed()))
	}
	idle, unexplained := compareAll(t, references, batches, &run)
	t.Logf("all took %s", time.Since(started).Round(time.Second))
	if len(unexplained) > 0 {
		t.Errorf("%d differences that %s does not explain:\n%s", len(unexplained), ownRows, strings.Join(unexplained, "\n"))
	}
	for _, o := range run.Outcomes {
		if err := o.Unexpected(); err != nil {
			t.Error(err)
		}
	}
	if len(run.Outcomes) < len(all) {
		return
	}
	require.NoError(t, os.WriteFile(pageFile, []byte(run.Page()), 0o644))
	if n := run.Built(); n < Wanted {
		t.Errorf("%d packages build, and %d have to", n, Wanted)
	}
	if len(idle) > 0 {
		t.Errorf("these rows explain nothing any more:\n%s", strings.Join(idle, "\n"))
	}
}

// The part without the references of mmdebstrap, for whoever changes the replay.
func TestPackagesBuildAlone(t *testing.T) {
	groups, e, _ := open(t)
	only, err := Only(groups, strings.Fields(os.Getenv(onlyVariable)))
	require.NoError(t, err, onlyVariable)
	outcomes, err := Alone(t.Context(), e, only, func(o Outcome) { t.Log(o) })
	require.NoError(t, err)
	for _, o := range outcomes {
		if err := o.Unexpected(); err != nil {
			t.Error(err)
		}
	}
}

// The part that takes long, for whoever wants to have it done before.
func TestReferencesOfTheList(t *testing.T) {
	groups, _, references := open(t)
	for m := range makeAll(t, references, batchesOf(t, references, Entries(groups))) {
		if m.err != nil {
			t.Errorf("batch %d: %v", m.batch, m.err)
		}
	}
}

func open(t *testing.T) ([]Group, *edge.Edge, References) {
	t.Helper()
	groups, err := List()
	require.NoError(t, err)
	cache, err := edge.Cache()
	require.NoError(t, err)
	e, err := edge.Open(t.Context(), "../..", filepath.Join(cache, "store"), time.Now())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return groups, e, References{Edge: e, Dir: filepath.Join(cache, "references")}
}

func batchesOf(t *testing.T, r References, all []Entry) []Batch {
	t.Helper()
	started := time.Now()
	batches, err := r.Batches(all)
	require.NoError(t, err)
	t.Logf("%d batches; to find them took %s", len(batches), time.Since(started).Round(time.Second))
	return batches
}

// made is a batch whose reference is in the cache now, or why it is not.
type made struct {
	batch int
	err   error
}

// makeAll makes what is not in the cache of the references, as many at a time as there are processors.
func makeAll(t *testing.T, r References, batches []Batch) <-chan made {
	t.Helper()
	ready := make(chan made, len(batches))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(runtime.GOMAXPROCS(0))
	go func() {
		for i, b := range batches {
			group.Go(func() error {
				ready <- made{i, makeOne(ctx, t, r, b)}
				return nil
			})
		}
		_ = group.Wait()
		close(ready)
	}()
	return ready
}

func makeOne(ctx context.Context, t *testing.T, r References, b Batch) error {
	started := time.Now()
	root, err := r.Make(ctx, b)
	if err != nil {
		return err
	}
	t.Logf("the reference of %s has %d packages and %d files; it took %s",
		strings.Join(b.Packages, ", "), len(root.Versions), len(root.Files), time.Since(started).Round(time.Second))
	return nil
}

// compareAll compares each batch that a package of the run is in.
func compareAll(t *testing.T, r References, batches []Batch, run *Run) (idle, unexplained []string) {
	t.Helper()
	rows, own, err := readRows("../..")
	require.NoError(t, err)
	batches = slices.DeleteFunc(batches, func(b Batch) bool { return len(run.of(b)) == 0 })
	whole := true
	for m := range makeAll(t, r, batches) {
		b := batches[m.batch]
		err := m.err
		if err != nil {
			run.pend(b.Packages, err)
		} else {
			var found []string
			found, err = run.compare(t.Context(), r, b, rows)
			unexplained = append(unexplained, found...)
		}
		if err != nil {
			whole = false
			t.Error(fmt.Errorf("batch %s: %w", strings.Join(b.Packages, ", "), err))
		}
	}
	if whole {
		for _, row := range own.Unused() {
			idle = append(idle, row.String())
		}
	}
	return idle, unexplained
}
