package packages

import (
	"context"
	"fmt"
	"slices"

	"spore/builder/apt"
	"spore/test/packages/compare"
	"spore/test/packages/reference"
)

// Explained is a difference from Debian's tree; Why is empty where no row explains it.
type Explained struct {
	compare.Difference
	Why string
}

func (e Explained) String() string {
	return fmt.Sprintf("%s %s  (%s; package %s)", e.Kind, e.Path, e.Detail, orUnknown(e.Package))
}

func orUnknown(name string) string {
	if name == "" {
		return "unknown"
	}
	return name
}

// Comparison has the differences of one batch.
type Comparison struct {
	// Of has, by the names of the list, the differences of the packages that it brings beside those of every image.
	Of map[string][]Explained
	// Rest are those of every image's packages, and those whose package nobody knows.
	Rest []Explained
}

// Unexplained are all differences without a reason, each once.
func (c Comparison) Unexplained() []string {
	var out []string
	for _, list := range c.Of {
		for _, e := range list {
			if e.Why == "" {
				out = append(out, e.String())
			}
		}
	}
	for _, e := range c.Rest {
		if e.Why == "" {
			out = append(out, e.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Compare makes of the packages of a reference what the recipe makes of them. Packages of the batch in without, which
// do not build, are left out with all that only they need.
func (r References) Compare(ctx context.Context, b Batch, root *reference.Root, without []string,
	rows compare.Table) (Comparison, error) {
	packages, err := r.packages(b, root, without)
	if err != nil {
		return Comparison{}, err
	}
	ours, done, err := r.Edge.Debian(ctx, packages)
	if err != nil {
		return Comparison{}, err
	}
	defer done()
	differences, err := compare.Trees(ours, root)
	if err != nil {
		return Comparison{}, err
	}
	there := map[string]bool{"": true}
	for _, p := range packages {
		there[p.Name] = true
	}
	differences = slices.DeleteFunc(differences, func(d compare.Difference) bool { return !there[d.Package] })
	return r.attribute(b, differences, rows)
}

// packages are those of a reference. It is an error where the archive has newer ones.
func (r References) packages(b Batch, root *reference.Root, without []string) ([]apt.Package, error) {
	var names []string
	for name := range root.Versions {
		names = append(names, name)
	}
	if len(without) > 0 {
		left := Batch{Instead: b.Instead}
		for _, name := range b.Packages {
			if !slices.Contains(without, name) {
				left.Packages = append(left.Packages, name)
			}
		}
		needed, err := r.whole(left)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !needed[name] })
	}
	list, err := r.Edge.Newest(names)
	if err != nil {
		return nil, err
	}
	if len(list) != len(names) {
		return nil, fmt.Errorf("the archive has %d of the %d packages of the reference", len(list), len(names))
	}
	for _, p := range list {
		if have := root.Versions[p.Name]; have != p.Version {
			return nil, fmt.Errorf("the reference has %s %s, and the archive %s: run again in a minute, the mirror changes",
				p.Name, have, p.Version)
		}
	}
	return list, nil
}

// whole are the names that apt installs for a batch.
func (r References) whole(b Batch) (map[string]bool, error) {
	list, err := r.list(b)
	if err != nil {
		return nil, err
	}
	packages, err := r.Edge.Whole(list)
	out := map[string]bool{}
	for _, p := range packages {
		out[p.Name] = true
	}
	return out, err
}

// attribute gives each difference to the packages of the list that bring its package.
func (r References) attribute(b Batch, differences []compare.Difference, rows compare.Table) (Comparison, error) {
	c := Comparison{Of: map[string][]Explained{}}
	base, err := r.whole(Batch{Instead: b.Instead})
	if err != nil {
		return c, err
	}
	brought := map[string]map[string]bool{}
	for _, name := range b.Packages {
		if brought[name], err = r.whole(Batch{Packages: []string{name}, Instead: b.Instead}); err != nil {
			return c, err
		}
	}
	for _, d := range differences {
		e := Explained{Difference: d}
		if row := rows.Explain(d); row != nil {
			e.Why = row.Why
		}
		given := false
		for _, name := range b.Packages {
			if d.Package != "" && !base[d.Package] && brought[name][d.Package] {
				c.Of[name] = append(c.Of[name], e)
				given = true
			}
		}
		if !given {
			c.Rest = append(c.Rest, e)
		}
	}
	return c, nil
}
