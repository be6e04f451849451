package packages

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"slices"

	"spore/test/packages/compare"
)

// The tables that explain differences: that of the packages of the list, and that of every image's packages.
const (
	ownRows    = "test/packages/differences"
	sharedRows = "builder/recipe/testdata/mmdebstrap-differences"
)

//go:embed differences
var differencesText string

type table = compare.Table

// readRows reads both tables, and returns beside all rows those of the list alone, which have to explain something.
// sourceTree is our source tree.
func readRows(sourceTree string) (all, own table, err error) {
	if own, err = compare.ReadTable(ownRows, differencesText); err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(sourceTree + "/" + sharedRows)
	if err != nil {
		return nil, nil, err
	}
	shared, err := compare.ReadTable(sharedRows, string(text))
	return append(slices.Clone(own), shared...), own, err
}

// failed are the packages that do not build.
func (r *Run) failed() (names []string) {
	for _, o := range r.Outcomes {
		if o.Err != nil {
			names = append(names, o.Name)
		}
	}
	return names
}

// of are the packages of a batch that this run has built.
func (r *Run) of(b Batch) (names []string) {
	for _, o := range r.Outcomes {
		if o.Err == nil && slices.Contains(b.Packages, o.Name) {
			names = append(names, o.Name)
		}
	}
	return names
}

// compare takes the differences of the packages of a batch that this run has built, and returns those that no row
// explains. Where the recipe does not make them together, each is compared alone.
func (r *Run) compare(ctx context.Context, refs References, b Batch, rows table) (unexplained []string, err error) {
	root, err := refs.Kept(b)
	if err != nil {
		return nil, err
	}
	built := r.of(b)
	for _, o := range r.Outcomes {
		if slices.Contains(built, o.Name) {
			unexplained = append(unexplained, o.Units.notEnabled(o.Name, root)...)
		}
	}
	c, err := refs.Compare(ctx, b, root, without(b.Packages, built...), rows)
	if err == nil {
		r.take(built, c)
		return append(unexplained, c.Unexplained()...), nil
	}
	err = fmt.Errorf("all of them together: %w", err)
	for _, name := range built {
		c, alone := refs.Compare(ctx, b, root, without(b.Packages, name), rows)
		if alone != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, alone))
			r.pend([]string{name}, alone)
			continue
		}
		r.take([]string{name}, c)
		unexplained = append(unexplained, c.Unexplained()...)
	}
	slices.Sort(unexplained)
	return slices.Compact(unexplained), err
}

func without(list []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(names, name) })
}

// take gives packages their differences.
func (r *Run) take(names []string, c Comparison) {
	for i, o := range r.Outcomes {
		if slices.Contains(names, o.Name) {
			r.Outcomes[i].Compared, r.Outcomes[i].Differences = true, c.Of[o.Name]
		}
	}
}

// pend says why packages were not compared.
func (r *Run) pend(names []string, why error) {
	for i, o := range r.Outcomes {
		if slices.Contains(names, o.Name) {
			r.Outcomes[i].Pending = why.Error()
		}
	}
}
