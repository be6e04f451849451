package apt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Pins are packages that were chosen before.
type Pins struct {
	// Closure are the packages of an image, Alone those that were chosen by their names (see Archive.Choose). Of each,
	// Name, Version, Arch, Source, Suite, Component, Filename, Size and SHA256 are set.
	Closure, Alone []Package
	// Suites are the indexes that they were chosen from.
	Suites []SuiteInfo
}

// Pinned is an archive that gives the packages of Pins and no others, whatever the indexes list by now. It reads no index: a
// package is what its SHA-256 says, wherever it comes from.
type Pinned struct {
	*Archive
	pins Pins
}

// Pin makes a Pinned.
func (a *Archive) Pin(pins Pins) *Pinned { return &Pinned{a, pins} }

// Update does nothing: no index is asked for.
func (p *Pinned) Update(context.Context) error { return nil }

// Choose returns the pins, whatever the list is; the caller compares what was asked for then and now. Of Alone it returns
// those of the names.
func (p *Pinned) Choose(_, alone []string) (closure, single []Package, err error) {
	for _, q := range p.pins.Alone {
		if slices.Contains(alone, q.Name) {
			single = append(single, q)
		}
	}
	return slices.Clone(p.pins.Closure), single, nil
}

// Suites are those of the pins.
func (p *Pinned) Suites() []SuiteInfo { return slices.Clone(p.pins.Suites) }

// Date is the newest date of Suites.
func (p *Pinned) Date() time.Time { return newestDate(p.pins.Suites) }

// Fetch downloads packages into the store, those that are not there yet. All that no place has are named at once.
func (p *Pinned) Fetch(ctx context.Context, packages []Package) error {
	return p.FetchEach(ctx, packages, func(int) {})
}

// FetchEach is Fetch that calls ready as Archive.FetchEach does.
func (p *Pinned) FetchEach(ctx context.Context, packages []Package, ready func(i int)) error {
	var mu sync.Mutex
	var gone []string
	var jobs []download
	var have []int
	for n, q := range packages {
		if p.down.has(q.Key(), q.Size) {
			have = append(have, n)
			continue
		}
		if p.opts.Offline {
			return fmt.Errorf("package %s is not in the store, and the network is not to be used; build once without --offline", &q)
		}
		places, err := p.locations(q)
		if err != nil {
			return fmt.Errorf("package %s: %w", &q, err)
		}
		jobs = append(jobs, download{
			name: q.Name, base: places[0].base, path: places[0].path, others: places[1:], key: q.Key(), size: q.Size, done: func() { ready(n) },
			gone: func(error) {
				mu.Lock()
				defer mu.Unlock()
				gone = append(gone, q.String())
			},
		})
	}
	for _, n := range have {
		ready(n)
	}
	slices.SortStableFunc(jobs, func(x, y download) int { return cmp.Compare(y.size, x.size) }) // as Archive.Fetch does
	if err := p.down.all(ctx, jobs, p.opts.Progress); err != nil {
		return err
	}
	if len(gone) == 0 {
		return nil
	}
	slices.Sort(gone)
	return goneError(gone, p.Date())
}

// goneError says which packages no mirror has any more, and what helps.
func goneError(packages []string, date time.Time) error {
	one, them := "package %s is", "it"
	if len(packages) > 1 {
		one, them = "packages %s are", "them"
	}
	return fmt.Errorf(one+" neither in the store nor on the mirrors any more; set mirror and securityMirror in image.yaml to an archive that keeps old versions (a snapshot of %s), build where the store has %s, or take what there is now with spore lock --update",
		strings.Join(packages, ", "), date.UTC().Format(time.DateOnly), them)
}

// locations are the places where a package may be: that of its suite first. A point release takes packages over from the
// security archive, whose pool has a further directory; the bytes stay the same.
func (a *Archive) locations(p Package) ([]location, error) {
	var out []location
	var errs []error
	own := isSecurity(p.Suite)
	for _, security := range []bool{own, !own} {
		places, err := a.candidates(suiteSpec{p.Suite, security})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, place := range places {
			for _, path := range poolPaths(p.Filename) {
				if l := (location{place.URI, path}); !slices.Contains(out, l) {
					out = append(out, l)
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// Where the main and the security archive keep packages.
const (
	mainPool     = "pool/"
	securityPool = "pool/updates/"
)

// poolPaths are a path and the one that the other archive has for the same file.
func poolPaths(path string) []string {
	if rest, ok := strings.CutPrefix(path, securityPool); ok {
		return []string{path, mainPool + rest}
	}
	if rest, ok := strings.CutPrefix(path, mainPool); ok {
		return []string{path, securityPool + rest}
	}
	return []string{path}
}
