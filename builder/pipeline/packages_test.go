package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/apt"
	"spore/builder/packs"
	"spore/cluster"
)

// slowArchive gives one package after the other, each only when the pack of the one before is in the store.
type slowArchive struct {
	*debArchive
	b    *build
	fail error // instead of the last package
}

func (a *slowArchive) FetchEach(ctx context.Context, list []apt.Package, ready func(int)) error {
	for i, p := range list {
		if a.fail != nil && i == len(list)-1 {
			return a.fail
		}
		a.fetched++
		ready(i)
		for !packs.Has(a.b.Store, p.SHA256) {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}

func slowBuild(t *testing.T) (context.Context, *build, *slowArchive) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	a := &slowArchive{debArchive: syslinux(t)}
	a.b = isoBuild(t, a.debArchive)
	a.b.Archive, a.b.packages.list = a, a.list
	return ctx, a.b, a
}

func TestAPackageIsCompressedBeforeTheNextIsDownloaded(t *testing.T) {
	ctx, b, a := slowBuild(t)
	opened, err := b.openPacks(ctx)
	require.NoError(t, err)
	defer closePacks(opened)
	require.Equal(t, 3, a.fetched)
	for i, p := range opened {
		require.Equal(t, a.list[i].Name, p.Name, "packs are in the order of the list")
	}
}

func TestAPackageWhosePackIsThereIsNotDownloaded(t *testing.T) {
	ctx, b, a := slowBuild(t)
	opened, err := b.openPacks(ctx)
	require.NoError(t, err)
	closePacks(opened)
	a.fetched = 0
	require.NoError(t, os.Remove(filepath.Join(a.dir, a.list[0].SHA256)))
	opened, err = b.openPacks(ctx)
	require.NoError(t, err)
	closePacks(opened)
	require.Zero(t, a.fetched)
}

func TestADownloadThatFailsEndsTheBuild(t *testing.T) {
	ctx, b, a := slowBuild(t)
	a.fail = errors.New("the mirror is gone")
	_, err := b.openPacks(ctx)
	require.ErrorIs(t, err, a.fail)
}

func TestAPackageThatIsDamagedEndsTheDownload(t *testing.T) {
	ctx, b, a := slowBuild(t)
	for _, p := range a.list {
		require.NoError(t, os.WriteFile(filepath.Join(a.dir, p.SHA256), []byte("no package"), 0o644))
	}
	_, err := b.openPacks(ctx)
	require.ErrorContains(t, err, "ar header")
	require.Less(t, a.fetched, 3)
}

func TestPackagesThatCannotBeTogetherAreFoundInImageYAML(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../examples/edge")))
	image := filepath.Join(dir, "image.yaml")
	require.NoError(t, os.WriteFile(image, []byte("suite: trixie\npackages: [nginx, postfix,\n  exim4]\n"), 0o644))
	config, report := cluster.LoadDir(dir)
	require.NoError(t, report.Err())
	b := &build{Options: Options{Config: config}}
	clash := errors.Join(&apt.Clash{Named: [2]string{"postfix", "exim4"}}, &apt.Clash{Named: [2]string{"exim4", "postfix"}}, &apt.Clash{Named: [2]string{"", "nginx"}})
	err := b.placeClashes(fmt.Errorf("resolve: %w", clash))
	require.ErrorContains(t, err, "\nimage.yaml:2:19: take postfix out, or what it cannot be beside\n"+
		"image.yaml:3:3: take exim4 out, or what it cannot be beside\nimage.yaml:2:12: take nginx out, or what it cannot be beside")
	require.ErrorIs(t, err, clash.(interface{ Unwrap() []error }).Unwrap()[0])
	other := errors.New("other")
	require.Equal(t, other, b.placeClashes(other))
}
