package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"spore/builder/apt"
	"spore/builder/needs"
	"spore/builder/packs"
)

// Archive is what the pipeline needs of the package archive; *apt.Archive is one.
type Archive interface {
	// Update brings the indexes up to date.
	Update(ctx context.Context) error
	// Resolve returns the closure of a package list, sorted by name.
	Resolve(list []string) ([]apt.Package, error)
	// Fetch brings the packages into the store.
	Fetch(ctx context.Context, list []apt.Package) error
	// Open opens a package that was fetched.
	Open(p apt.Package) (*os.File, error)
	// Date is the date of the newest index.
	Date() time.Time
	// Suites says where the packages come from, by the hashes of the InRelease files.
	Suites() []apt.SuiteInfo
	// Warnings holds what the user should know.
	Warnings() []string
}

// packageSet is the closure of the image's package list.
type packageSet struct {
	list   []apt.Package
	kernel apt.Package
	// requested are the names that the configuration asked for, sorted.
	requested []string
	// release is the kernel's release, as uname -r says it.
	release string
}

// resolvePackages finds the exact packages of the image. Nothing but indexes is downloaded yet.
func (b *build) resolvePackages(ctx context.Context) error {
	step := b.Progress.Step("packages")
	if err := b.Archive.Update(ctx); err != nil {
		return err
	}
	list, err := needs.Packages(b.Config)
	if err != nil {
		return err
	}
	resolved, err := b.Archive.Resolve(list)
	if err != nil {
		return err
	}
	slices.Sort(list)
	b.packages.list, b.packages.requested = resolved, slices.Compact(list)
	if err := b.packages.findKernel(); err != nil {
		return err
	}
	if b.BuildTime == 0 {
		b.BuildTime = b.Archive.Date().Unix()
	}
	step.Note("%d, kernel %s", len(resolved), b.packages.release)
	step.Done()
	for _, w := range b.Archive.Warnings() {
		b.Progress.Printf("warning: %s", w)
	}
	return nil
}

// findKernel finds the one kernel of the closure. Debian names its package after the release (linux-image-RELEASE); the
// packages that follow the newest kernel have no release in their names.
func (s *packageSet) findKernel() error {
	var found []string
	for _, p := range s.list {
		release, ok := strings.CutPrefix(p.Name, "linux-image-")
		if !ok || release == "" || release[0] < '0' || release[0] > '9' {
			continue
		}
		s.kernel, s.release = p, release
		found = append(found, p.Name)
	}
	if len(found) != 1 {
		return fmt.Errorf("an image needs exactly one kernel, the package list leads to %d (%s): check kernel and packages in image.yaml", len(found), strings.Join(found, ", "))
	}
	return nil
}

// openPacks downloads what is missing and opens the packs of all packages, making those that the store does not have. The
// caller closes them.
func (b *build) openPacks(ctx context.Context) ([]*packs.Pack, error) {
	step := b.Progress.Step("download")
	if err := b.Archive.Fetch(ctx, b.packages.list); err != nil {
		return nil, err
	}
	step.Done()

	step = b.Progress.Step("compress")
	opened := make([]*packs.Pack, len(b.packages.list))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, i := range largestFirst(b.packages.list) {
		p := b.packages.list[i]
		group.Go(func() error {
			pack, err := packs.Ensure(ctx, b.Store, p.SHA256, func() (io.ReadCloser, error) { return b.Archive.Open(p) })
			if err != nil {
				return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
			}
			opened[i] = pack
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		closePacks(opened)
		return nil, err
	}
	step.Note("%d packages", len(opened))
	step.Done()
	return opened, nil
}

// largestFirst orders the work so that the kernel, more than half of it, is not left for one processor at the end.
func largestFirst(list []apt.Package) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[b].Size, list[a].Size) })
	return order
}

func closePacks(list []*packs.Pack) {
	for _, p := range list {
		if p != nil {
			p.Close()
		}
	}
}
