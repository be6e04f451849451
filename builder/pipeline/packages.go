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
	"spore/builder/lock"
	"spore/builder/manifest"
	"spore/builder/needs"
	"spore/builder/packs"
)

// Archive is what the pipeline needs of the package archive; *apt.Archive is one.
type Archive interface {
	// Update brings the indexes up to date.
	Update(ctx context.Context) error
	// Choose returns the closure of a package list, and the newest package of each name in alone that there is; both are
	// sorted by name.
	Choose(list, alone []string) (closure, single []apt.Package, err error)
	// Fetch brings the packages into the store.
	Fetch(ctx context.Context, list []apt.Package) error
	// FetchEach is Fetch that tells of each package, by its index, when the store has it. It may do so on several goroutines.
	FetchEach(ctx context.Context, list []apt.Package, ready func(i int)) error
	// Open opens a package that was fetched.
	Open(p apt.Package) (*os.File, error)
	// Date is the date of the newest index, Suites are all indexes.
	Date() time.Time
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
	// media are those packages that media can have files of, by name.
	media map[string]apt.Package
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
	resolved, media, err := b.Archive.Choose(list, mediaPackageNames())
	if err != nil {
		return b.placeClashes(err)
	}
	b.packages.takeMedia(media)
	slices.Sort(list)
	b.packages.list, b.packages.requested = resolved, slices.Compact(list)
	if err := b.packages.findKernel(); err != nil {
		return err
	}
	switch {
	case b.BuildTime != 0:
	case b.Locked != nil:
		b.BuildTime = b.Locked.BuildTime
	default:
		b.BuildTime = b.Archive.Date().Unix()
	}
	step.Note("%d, kernel %s", len(resolved), b.packages.release)
	step.Done()
	for _, w := range b.Archive.Warnings() {
		b.Progress.Printf("warning: %s", w)
	}
	return nil
}

// placeClashes adds to packages that cannot be together where image.yaml names one of them, since that is what can go.
func (b *build) placeClashes(err error) error {
	var lines []string
	for _, c := range apt.Clashes(err) {
		for _, name := range c.Named {
			i := slices.Index(b.Config.Image.Packages, name)
			if i < 0 {
				continue
			}
			p := b.Config.At("image.yaml", "packages", i)
			line := fmt.Sprintf("%s:%d:%d: take %s out, or what it cannot be beside", p.File, p.Line, p.Column, name)
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s", err, strings.Join(lines, "\n"))
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
		return fmt.Errorf("an image needs exactly one kernel, but the package list needs %d (%s): check kernel and packages in image.yaml", len(found), strings.Join(found, ", "))
	}
	return nil
}

func (s *packageSet) takeMedia(list []apt.Package) {
	s.media = map[string]apt.Package{}
	for _, p := range list {
		s.media[p.Name] = p
	}
}

// mediaPackageNames are the packages that media can have files of, whatever formats are asked for.
func mediaPackageNames() []string {
	names := []string{ipxePackage}
	for _, f := range biosFiles {
		names = append(names, f.pkg)
	}
	return names
}

// mediaPackage is one of those packages, and notes it for the manifest.
func (b *build) mediaPackage(name string) (apt.Package, error) {
	p, ok := b.packages.media[name]
	switch {
	case !ok && b.Locked != nil:
		return p, fmt.Errorf("%s has no package %s; add it with spore lock --update", lock.Name, name)
	case !ok:
		return p, fmt.Errorf("the archive has no package %s", name)
	}
	m := manifest.Package{Name: p.Name, Version: p.Version, Arch: p.Arch, Source: p.Source, SHA256: p.SHA256, Size: p.Size}
	if !slices.Contains(b.mediaPackages, m) {
		b.mediaPackages = append(b.mediaPackages, m)
	}
	return p, nil
}

// openPacks opens the packs of all packages, and makes those that the store does not have: each as soon as its package is
// downloaded. The caller closes them.
func (b *build) openPacks(ctx context.Context) ([]*packs.Pack, error) {
	download, compress := b.Progress.Step("download"), b.Progress.Step("compress")
	var packed, missing []int
	for _, i := range largestFirst(b.packages.list) {
		if packs.Has(b.Store, b.packages.list[i].SHA256) {
			packed = append(packed, i)
		} else {
			missing = append(missing, i)
		}
	}
	opened := make([]*packs.Pack, len(b.packages.list))
	ready := make(chan int, len(opened)) // all of them, so that a download never waits
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(ready)
		for _, i := range packed {
			ready <- i
		}
		if err := b.fetchEach(ctx, missing, func(i int) { ready <- i }); err != nil {
			return err
		}
		download.Done()
		return nil
	})
	// A worker takes the memory of a decoder, its dictionary and some blocks, whatever the size of a package.
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for i := range ready {
				p := b.packages.list[i]
				pack, err := packs.Ensure(ctx, b.Store, p.SHA256, func() (io.ReadCloser, error) { return b.Archive.Open(p) })
				if err != nil {
					return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
				}
				opened[i] = pack
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		closePacks(opened)
		return nil, err
	}
	compress.Note("%d packages", len(opened))
	compress.Done()
	return opened, nil
}

// fetchEach downloads the packages with these indexes and tells of each.
func (b *build) fetchEach(ctx context.Context, which []int, ready func(i int)) error {
	list := make([]apt.Package, len(which))
	for n, i := range which {
		list[n] = b.packages.list[i]
	}
	return b.Archive.FetchEach(ctx, list, func(n int) { ready(which[n]) })
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
