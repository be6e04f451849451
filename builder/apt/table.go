package apt

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"

	"spore/builder/deb/version"
)

// table finds packages in indexes of tens of megabytes, so that these are read whole once, and not for each list of packages.
// Its texts are lines that are sorted by their first word, which is found by bisection.
type table struct {
	// Names has a line for the newest package of each name over all indexes: NAME INDEX OFFSET LENGTH.
	Names string
	// Providers has a line for each name that packages provide: NAME PACKAGE..., the most wanted package first.
	Providers string
	// Essential are the names of the essential packages, sorted.
	Essential []string
}

// place is where the paragraph of a package is: the number of an index, and offset and length in it in bytes.
type place struct {
	index          int
	offset, length int64
}

// readable is a Packages index that can be read.
type readable struct {
	suite, component string
	// text returns the index whole.
	text func() (string, error)
}

// usualPackages is about how many packages the main component of Debian has; the map need not grow to that in steps.
const usualPackages = 70_000

// newTable reads indexes. Of two packages with one name and version it takes that of the first index.
func newTable(indexes []readable, arch string) (*table, error) {
	type placed struct {
		*Package
		place
	}
	newest := make(map[string]placed, usualPackages)
	for n, i := range indexes {
		text, err := i.text()
		if err == nil {
			err = ParseIndex(text, arch, func(p *Package, offset int) error {
				if old, ok := newest[p.Name]; !ok || version.Compare(p.Version, old.Version) > 0 {
					newest[p.Name] = placed{p, place{n, int64(offset), int64(len(p.Paragraph))}}
				}
				return nil
			})
		}
		if err != nil {
			return nil, fmt.Errorf("read index %s %s: %w", i.suite, i.component, err)
		}
	}
	t := &table{}
	var names, providers strings.Builder
	by := map[string][]*Package{}
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		p := newest[name]
		fmt.Fprintf(&names, "%s %d %d %d\n", name, p.index, p.offset, p.length)
		if p.Essential {
			t.Essential = append(t.Essential, name)
		}
		provides, err := p.provides()
		if err != nil {
			return nil, err
		}
		for _, v := range provides {
			if !slices.Contains(by[v.name], p.Package) {
				by[v.name] = append(by[v.name], p.Package)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		slices.SortFunc(by[name], preferred)
		providers.WriteString(name)
		for _, p := range by[name] {
			providers.WriteString(" " + p.Name)
		}
		providers.WriteByte('\n')
	}
	t.Names, t.Providers = names.String(), providers.String()
	return t, nil
}

// place tells where the newest package of a name is.
func (t *table) place(name string) (at place, ok bool, err error) {
	rest, ok := lineOf(t.Names, name)
	if ok {
		_, err = fmt.Sscanf(rest, "%d %d %d", &at.index, &at.offset, &at.length)
	}
	return at, ok, err
}

// providers are the names of the packages that provide a name, the most wanted first.
func (t *table) providers(name string) []string {
	rest, _ := lineOf(t.Providers, name)
	return strings.Fields(rest)
}

// names are those of all packages, sorted.
func (t *table) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(t.Names) {
			if name, _, _ := strings.Cut(line, " "); !yield(name) {
				return
			}
		}
	}
}

// lineOf finds the line whose first word is name in lines that are sorted by it, and returns the rest of it.
func lineOf(text, name string) (rest string, ok bool) {
	line := func(i int) string {
		begin := strings.LastIndexByte(text[:i], '\n') + 1
		line, _, _ := strings.Cut(text[begin:], "\n")
		return line
	}
	i := sort.Search(len(text), func(i int) bool {
		word, _, _ := strings.Cut(line(i), " ")
		return word >= name
	})
	if i == len(text) {
		return "", false
	}
	word, rest, _ := strings.Cut(line(i), " ")
	return rest, word == name
}
