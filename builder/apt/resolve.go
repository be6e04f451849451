package apt

import (
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"spore/builder/deb"
	"spore/builder/store"
)

// Reasons of Package.NeededBy that are no package.
const (
	byList      = "the package list"
	byEssential = "essential"
)

// maxClosure bounds a resolution.
const maxClosure = 20_000

// Resolve returns the closure of a list of packages: they, the essential packages, and all that these need by Pre-Depends
// and Depends, sorted by name. Recommends are not followed.
//
// The choice is fixed by these rules: of each name the newest version over the suites, of two equal ones that of the first
// suite. A relation that a chosen package satisfies is done with. One that a single package can satisfy is followed before
// those that leave a choice; of these, in the order they were met, each takes its first option that clashes with nothing
// chosen so far: alternatives in their order, the package of the name before those that provide it, these by priority and
// then by name.
//
// All problems come at once. The result is kept in the store under the hashes of the indexes and the list.
func (a *Archive) Resolve(list []string) ([]Package, error) {
	closure, _, err := a.Choose(list, nil)
	return closure, err
}

// Choose is Resolve, and beside it the newest package of each name in alone, without what these need; one that the archive
// does not have is left out. The indexes are read once for both.
func (a *Archive) Choose(list, alone []string) (closure, single []Package, err error) {
	if a.suites == nil {
		return nil, nil, errors.New("internal error: apt.Archive.Choose needs Update before it")
	}
	var u *universe
	known := func() (*universe, error) {
		if u != nil {
			return u, nil
		}
		var err error
		u, err = a.universe()
		return u, err
	}
	closure, err = a.kept(a.resolutionKey("apt-resolution/2", list), func() ([]Package, error) {
		u, err := known()
		if err != nil {
			return nil, err
		}
		packages, err := u.resolve(list, a.opts.Omit, a.opts.Cut)
		if err != nil {
			return nil, fmt.Errorf("resolve packages in %s (%s):\n%w", a.suiteNames(), strings.Join(a.opts.Components, ", "), err)
		}
		return packages, nil
	})
	if err != nil || len(alone) == 0 {
		return closure, nil, err
	}
	single, err = a.kept(a.resolutionKey("apt-newest/1", alone), func() ([]Package, error) {
		u, err := known()
		if err != nil {
			return nil, err
		}
		return u.newest(alone)
	})
	return closure, single, err
}

// kept is a list of packages from the store, which make makes where the store does not have it.
func (a *Archive) kept(key store.Key, make func() ([]Package, error)) ([]Package, error) {
	if packages, err := a.readResolution(key); err == nil {
		return packages, nil
	}
	packages, err := make()
	if err != nil {
		return nil, err
	}
	err = a.opts.Store.Put(key, func(w *os.File) error { return json.NewEncoder(w).Encode(packages) })
	if err != nil {
		return nil, err
	}
	return a.readResolution(key) // what is read shares no memory with the indexes
}

// resolutionKey is over all that a resolution depends on; the number in the step's name changes when the rules do.
func (a *Archive) resolutionKey(step string, list []string) store.Key {
	parts := []string{a.opts.Arch}
	for _, s := range a.suites {
		for _, i := range s.indexes {
			parts = append(parts, s.Suite, i.component, i.file.SHA256.String())
		}
	}
	for _, names := range [][]string{list, a.opts.Omit} {
		sorted := slices.Compact(slices.Sorted(slices.Values(names)))
		parts = append(parts, fmt.Sprint(len(sorted)))
		parts = append(parts, sorted...)
	}
	for _, name := range slices.Sorted(maps.Keys(a.opts.Cut)) {
		parts = append(parts, name, fmt.Sprint(len(a.opts.Cut[name])))
		parts = append(parts, slices.Sorted(slices.Values(a.opts.Cut[name]))...)
	}
	return store.KeyOf(step, parts...)
}

func (a *Archive) readResolution(key store.Key) ([]Package, error) {
	data, err := a.opts.Store.ReadAll(key)
	if err != nil {
		return nil, err
	}
	var packages []Package
	if err := json.Unmarshal(data, &packages); err != nil {
		return nil, fmt.Errorf("read resolution: %w", err)
	}
	return packages, nil
}

func (a *Archive) suiteNames() string {
	var names []string
	for _, s := range a.suites {
		names = append(names, s.Suite)
	}
	return strings.Join(names, ", ")
}

// universe opens the packages of all indexes. The table of them is kept in the store.
func (a *Archive) universe() (*universe, error) {
	var indexes []readable
	var files []File
	parts := []string{a.opts.Arch}
	for _, s := range a.suites {
		for _, i := range s.indexes {
			if i.file.Size == 0 {
				continue
			}
			indexes = append(indexes, readable{s.Suite, i.component, func() (string, error) { return readText(a.opts.Store, i.file) }})
			files = append(files, i.file)
			parts = append(parts, i.file.SHA256.String())
		}
	}
	key := store.KeyOf("apt-table/1", parts...)
	f, err := a.opts.Store.Ensure(key, func(w *os.File) error {
		t, err := newTable(indexes, a.opts.Arch)
		if err != nil {
			return err
		}
		return gob.NewEncoder(w).Encode(t)
	})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &table{}
	if err := gob.NewDecoder(f).Decode(t); err != nil {
		return nil, a.opts.Store.Damaged(key, fmt.Errorf("read the table of packages: %w", err))
	}
	return newUniverse(a.opts.Arch, t, func(name string, at place) (*Package, error) {
		if at.index < 0 || at.index >= len(files) {
			return nil, a.opts.Store.Damaged(key, fmt.Errorf("the table of packages names index %d of %d", at.index, len(files)))
		}
		text, err := readPart(a.opts.Store, files[at.index], at)
		if err != nil {
			return nil, err
		}
		p, err := onlyPackage(name, text, a.opts.Arch)
		if err != nil {
			return nil, a.opts.Store.Damaged(key, err)
		}
		p.Suite, p.Component = indexes[at.index].suite, indexes[at.index].component
		return p, nil
	}), nil
}

// onlyPackage reads a text with one package, which is that of a name.
func onlyPackage(name, text, arch string) (*Package, error) {
	var found []*Package
	err := ParseIndex(text, arch, func(p *Package, _ int) error {
		found = append(found, p)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(found) != 1 || found[0].Name != name:
		return nil, fmt.Errorf("the table of packages points to an entry without package %s", name)
	}
	return found[0], nil
}

// readText reads an index, which has tens of megabytes, into memory once.
func readText(st *store.Store, f File) (string, error) {
	return readPart(st, f, place{length: f.Size})
}

// readPart reads a part of an index.
func readPart(st *store.Store, f File, at place) (string, error) {
	if at.offset < 0 || at.length < 0 || at.length > f.Size-at.offset {
		return "", fmt.Errorf("%d bytes at %d of an index that has %d", at.length, at.offset, f.Size)
	}
	r, err := st.Open(f.SHA256)
	if err != nil {
		return "", err
	}
	defer r.Close()
	var b strings.Builder
	b.Grow(int(at.length))
	_, err = io.Copy(struct{ io.Writer }{&b}, io.NewSectionReader(r, at.offset, at.length))
	return b.String(), err
}

// need is a relation of a chosen package that nothing chosen satisfies yet.
type need struct {
	by   *Package
	alts alternatives
}

// resolver is one resolution.
type resolver struct {
	*universe
	chosen   map[string]*Package
	omitted  map[string]bool
	cut      map[string][]string
	provided map[string][]provide
	parsed   map[string][]alternatives
	queue    []*Package // chosen, their relations not looked at yet
	open     []need     // more than one option
	problems []error
}

func (u *universe) resolve(list, omit []string, cut map[string][]string) ([]Package, error) {
	r := &resolver{
		universe: u, chosen: map[string]*Package{}, omitted: map[string]bool{}, cut: cut, provided: map[string][]provide{},
		parsed: map[string][]alternatives{},
	}
	for _, name := range slices.Sorted(slices.Values(omit)) {
		if p := r.listed(name, "the list of omitted packages"); p != nil {
			r.omitted[name] = true
			r.choose(p, "")
		}
	}
	for _, name := range u.table.Essential {
		if p := u.named(name); p != nil {
			r.choose(p, byEssential)
		}
	}
	for _, name := range slices.Sorted(slices.Values(list)) {
		if p := r.listed(name, byList); p != nil {
			r.choose(p, byList)
		}
	}
	if err := r.close(); err != nil {
		return nil, err
	}
	r.clashes()
	if u.err != nil {
		return nil, u.err
	}
	if len(r.problems) > 0 {
		return nil, errors.Join(r.problems...)
	}
	var out []Package
	for name, p := range r.chosen {
		if !r.omitted[name] {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (r *resolver) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf(format, args...))
}

// listed is a package that a list names.
func (r *resolver) listed(name, list string) *Package {
	if !deb.ValidName(name) {
		r.problem("%s names %.80q, which is not a package name", list, name)
		return nil
	}
	if p := r.named(name); p != nil {
		return p
	}
	if vs := r.providing(name); len(vs) > 0 {
		var by []string
		for _, v := range vs[:min(8, len(vs))] {
			by = append(by, v.by.Name)
		}
		r.problem("%s names %s, which several packages can provide; name one of them: %s", list, name, strings.Join(by, ", "))
		return nil
	}
	r.problem("%s names %s, which does not exist%s", list, name, r.hint(name))
	return nil
}

func (r *resolver) hint(name string) string {
	if s := r.similar(name); len(s) > 0 {
		return "; did you mean " + strings.Join(s, " or ") + "?"
	}
	return ""
}

func (r *resolver) choose(p *Package, why string) {
	if r.chosen[p.Name] != nil {
		return
	}
	q := *p
	q.NeededBy = why
	r.chosen[p.Name] = &q
	provides, err := p.provides()
	if err != nil {
		r.problems = append(r.problems, err)
	}
	for _, v := range provides {
		v.by = &q
		r.provided[v.name] = append(r.provided[v.name], v)
	}
	if !r.omitted[p.Name] {
		r.queue = append(r.queue, &q)
	}
}

// close follows relations until none is open.
func (r *resolver) close() error {
	for {
		for len(r.queue) > 0 {
			if len(r.chosen) > maxClosure {
				return fmt.Errorf("the list needs more than %d packages", maxClosure)
			}
			p := r.queue[0]
			r.queue = r.queue[1:]
			r.follow(p)
		}
		i := slices.IndexFunc(r.open, func(n need) bool { return !r.satisfied(n.alts) })
		if i < 0 {
			return nil
		}
		n := r.open[i]
		r.open = r.open[i+1:] // those before stay satisfied: nothing chosen is ever taken back
		options := r.options(n.alts)
		best := options[0]
		if j := slices.IndexFunc(options, func(p *Package) bool { return !r.clashesWithChosen(p) }); j >= 0 {
			best = options[j]
		}
		r.choose(best, n.by.Name)
	}
}

// follow looks at the relations of a chosen package.
func (r *resolver) follow(p *Package) {
	for _, field := range []struct{ name, text string }{{"Pre-Depends", p.PreDepends}, {"Depends", p.Depends}} {
		groups, err := parseRelations(field.text)
		if err != nil {
			r.problem("package %s: field %s: %w", p, field.name, err)
			continue
		}
		for _, alts := range groups {
			if r.satisfied(alts) || r.isCut(p, alts) {
				continue
			}
			switch options := r.options(alts); len(options) {
			case 0:
				r.missing(p, alts)
			case 1:
				r.choose(options[0], p.Name)
			default:
				r.open = append(r.open, need{p, alts})
			}
		}
	}
}

// isCut reports whether a package does without one of the alternatives.
func (r *resolver) isCut(p *Package, alts alternatives) bool {
	return slices.ContainsFunc(alts, func(rel relation) bool { return slices.Contains(r.cut[p.Name], rel.name) })
}

// satisfied reports whether a chosen package is one of the alternatives. An omitted one is whatever version is asked for.
func (r *resolver) satisfied(alts alternatives) bool {
	for _, rel := range alts {
		if !rel.usable(r.arch) {
			continue
		}
		if p := r.chosen[rel.name]; p != nil && (rel.allows(p.Version) || r.omitted[rel.name]) {
			return true
		}
		for _, v := range r.provided[rel.name] {
			if v.satisfies(rel) {
				return true
			}
		}
	}
	return false
}

// missing tells who needs what is not there, and what is there instead.
func (r *resolver) missing(p *Package, alts alternatives) {
	var why []string
	for _, rel := range alts {
		switch have := r.named(rel.name); {
		case !rel.usable(r.arch):
			why = append(why, fmt.Sprintf("%s is of another architecture than %s", rel, r.arch))
		case have != nil:
			why = append(why, fmt.Sprintf("the newest %s is %s (%s)", have.Name, have.Version, have.Suite))
		case len(r.providing(rel.name)) > 0:
			why = append(why, fmt.Sprintf("%s is only provided by others without that version", rel.name))
		default:
			why = append(why, fmt.Sprintf("%s does not exist%s", rel.name, r.hint(rel.name)))
		}
	}
	r.problem("%s needs %s, but %s", r.chain(p), alts, strings.Join(why, ", and "))
}

// chain names a package and how it came into the closure: "b 1.0 (needed by a, needed by the package list)".
func (r *resolver) chain(p *Package) string {
	var steps []string
	for q := p; q != nil && len(steps) < 20; q = r.chosen[q.NeededBy] {
		switch q.NeededBy {
		case "":
			steps = append(steps, "omitted")
		case byEssential:
			steps = append(steps, byEssential)
		default:
			steps = append(steps, "needed by "+q.NeededBy)
		}
	}
	return fmt.Sprintf("%s (%s)", p, strings.Join(steps, ", "))
}
