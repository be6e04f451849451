// Package oldlock makes of the lock of an image one with older packages, as somebody built it some weeks before: the
// kernel and one source package are older versions that the same archive still has, in another suite. Tests and
// measurements update machines from the older image to the newer one.
package oldlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"spore/builder/apt"
	"spore/builder/deb/version"
	"spore/builder/lock"
	"spore/builder/xz"
)

// maxIndex bounds an index of packages in bytes.
const maxIndex = 256 << 20

// Archive is what the suites of a lock have.
type Archive struct{ packages []apt.Package }

// Read reads the indexes that a lock names.
func Read(ctx context.Context, l *lock.Lock) (Archive, error) {
	all, err := lists(ctx, l)
	return Archive{all}, err
}

// Older returns the lock with the newest older version that any suite has of the kernel, and of each binary package
// of the first of the source packages that has one; changed says which.
func Older(ctx context.Context, l *lock.Lock, sources ...string) (older *lock.Lock, changed []lock.Change, err error) {
	a, err := Read(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	if older, err = a.Kernel(l); err != nil {
		return nil, nil, err
	}
	if older, err = a.Source(older, sources...); err != nil {
		return nil, nil, err
	}
	return older, lock.Diff(older, l), nil
}

// Kernel returns the lock with the newest older kernel of its flavour, and all else as it is.
func (a Archive) Kernel(l *lock.Lock) (*lock.Lock, error) {
	out := copyOf(l)
	if err := olderKernel(out, a.packages); err != nil {
		return nil, err
	}
	out.Sort()
	return out, nil
}

// Source returns the lock with older versions of the binary packages of one source package, the first that has some,
// and all else as it is.
func (a Archive) Source(l *lock.Lock, sources ...string) (*lock.Lock, error) {
	out := copyOf(l)
	for _, source := range sources {
		if olderSource(out, a.packages, source) {
			out.Sort()
			return out, nil
		}
	}
	return nil, fmt.Errorf("no suite has an older version of %s", strings.Join(sources, ", "))
}

func copyOf(l *lock.Lock) *lock.Lock {
	out := *l
	out.Packages = slices.Clone(l.Packages)
	return &out
}

// lists are all packages of all suites of the lock.
func lists(ctx context.Context, l *lock.Lock) (all []apt.Package, err error) {
	sources, _, err := apt.ReadSources(os.DirFS("/"), "amd64")
	if err != nil {
		return nil, err
	}
	for _, index := range l.Indexes {
		for _, f := range index.Lists {
			text, err := fetch(ctx, sources, index.Suite, f)
			if err != nil {
				return nil, err
			}
			component, _, _ := strings.Cut(f.Name, "/")
			err = apt.ParseIndex(text, "amd64", func(p *apt.Package, _ int) error {
				q := *p
				q.Suite, q.Component = index.Suite, component
				all = append(all, q)
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", f.Name, index.Suite, err)
			}
		}
	}
	return all, nil
}

// fetch gets an index that has the hash of the lock.
func fetch(ctx context.Context, sources []apt.Source, suite string, f lock.File) (string, error) {
	var errs []error
	for _, s := range sources {
		text, err := get(ctx, s.URI+"/dists/"+suite+"/"+f.Name+".xz")
		if err == nil {
			if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) == f.SHA256 {
				return string(text), nil
			}
			err = errors.New("the archive was signed anew since the lock was written")
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("fetch %s of %s: %w", f.Name, suite, errors.Join(errs...))
}

func get(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path.Base(url), answer.Status)
	}
	x, err := xz.NewReader(answer.Body, xz.Options{})
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(x, maxIndex))
}

// olderSource replaces all packages that come of a source package by the newest version that all of them have and
// that is older.
func olderSource(l *lock.Lock, all []apt.Package, source string) bool {
	var rows []*lock.Package
	for i := range l.Packages {
		if p := &l.Packages[i]; p.Source == source || p.Source == "" && p.Name == source {
			rows = append(rows, p)
		}
	}
	if len(rows) == 0 {
		return false
	}
	best := ""
	for _, p := range all {
		if p.Name == rows[0].Name && less(p.Version, rows[0].Version) && (best == "" || less(best, p.Version)) {
			best = p.Version
		}
	}
	replaced := map[*lock.Package]lock.Package{}
	for _, row := range rows {
		for _, p := range all {
			if p.Name == row.Name && p.Version == best {
				replaced[row] = of(p)
			}
		}
	}
	if len(replaced) < len(rows) {
		return false
	}
	for row, p := range replaced {
		*row = p
	}
	return true
}

// olderKernel replaces the kernel by the newest older one of its flavour.
func olderKernel(l *lock.Lock, all []apt.Package) error {
	const prefix = "linux-image-"
	at := slices.IndexFunc(l.Packages, func(p lock.Package) bool { return p.Name == prefix+l.Kernel })
	if at < 0 {
		return fmt.Errorf("the lock has no package %s%s", prefix, l.Kernel)
	}
	flavour := l.Kernel[strings.Index(l.Kernel, "+")+1:]
	flavour = flavour[strings.Index(flavour, "-")+1:]
	var best *apt.Package
	for i := range all {
		p := &all[i]
		release, ok := strings.CutPrefix(p.Name, prefix)
		_, rest, plus := strings.Cut(release, "+")
		_, f, _ := strings.Cut(rest, "-")
		if ok && plus && f == flavour && less(p.Version, l.Packages[at].Version) && (best == nil || less(best.Version, p.Version)) {
			best = p
		}
	}
	if best == nil {
		return fmt.Errorf("no suite has an older kernel than %s", l.Kernel)
	}
	l.Packages[at] = of(*best)
	l.Kernel = strings.TrimPrefix(best.Name, prefix)
	return nil
}

func of(p apt.Package) lock.Package {
	source, _, _ := strings.Cut(p.Source, " ")
	return lock.Package{
		Name: p.Name, Version: p.Version, Arch: p.Arch, Source: source, Suite: p.Suite, Component: p.Component,
		Path: p.Filename, Size: p.Size, SHA256: p.SHA256,
	}
}

func less(a, b string) bool { return version.Compare(a, b) < 0 }
