package packages

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"spore/test/packages/edge"
)

// Outcome is what became of one package, alone in an image of the example edge.
type Outcome struct {
	Group, Name string
	// Fails is what the list says of why it does not build.
	Fails string
	// Version is empty where the archive could not say.
	Version string
	// Packages is how many the image has.
	Packages int
	// Err is why there is no image; nil where there is one.
	Err error
	// Notes are what the recipe left for somebody to look at.
	Notes []string
	// Took is the time from the list of packages to the tree.
	Took time.Duration
	// Units are those of the image.
	Units Enablement
	// Differences are those of the packages that only this one brings, and Compared tells whether anybody looked. Pending
	// says why nobody did.
	Compared    bool
	Pending     string
	Differences []Explained
}

// Alone builds each package alone, as many at a time as there are processors, and calls done after each, one at a time.
func Alone(ctx context.Context, e *edge.Edge, groups []Group, done func(Outcome)) ([]Outcome, error) {
	var out []Outcome
	for _, g := range groups {
		for _, p := range g.Packages {
			out = append(out, Outcome{Group: g.Name, Name: p.Name, Fails: p.Fails})
		}
	}
	finished := make(chan Outcome)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	go func() {
		for i := range out {
			group.Go(func() error {
				out[i].build(ctx, e)
				finished <- out[i]
				return ctx.Err()
			})
		}
		_ = group.Wait()
		close(finished)
	}()
	for o := range finished {
		done(o)
	}
	return out, group.Wait()
}

func (o *Outcome) build(ctx context.Context, e *edge.Edge) {
	start := time.Now()
	defer func() { o.Took = time.Since(start) }()
	list, err := e.Resolve(o.Name)
	if err != nil {
		o.Err = err
		o.Version = e.Version(o.Name)
		return
	}
	o.Packages = len(list)
	for _, p := range list {
		if p.Name == o.Name {
			o.Version = p.Version
		}
	}
	composed, err := e.Compose(ctx, list, o.Name)
	if err != nil {
		o.Err = err
		return
	}
	if o.Units, o.Err = enablementOf(composed.Tree); o.Err != nil {
		return
	}
	for _, n := range composed.Report.Notes() {
		o.Notes = append(o.Notes, strings.TrimSpace(n.Path+" "+n.Why))
	}
}

// Unexpected tells of a package that does not build, or of one that builds and should not. It is nil where the list
// says so.
func (o Outcome) Unexpected() error {
	switch {
	case o.Err != nil && o.Fails == "":
		return fmt.Errorf("%s does not build: %w", o.Name, o.Err)
	case o.Err == nil && o.Fails != "":
		return fmt.Errorf("%s builds, and list.yaml says that it fails: %s", o.Name, o.Fails)
	}
	return nil
}

// String is a line for people.
func (o Outcome) String() string {
	what := "builds"
	if o.Err != nil {
		what = "does not build: " + o.Err.Error()
	} else if len(o.Notes) > 0 {
		what += " with notes: " + strings.Join(o.Notes, "; ")
	}
	took := o.Took.Round(10 * time.Millisecond)
	return fmt.Sprintf("%s %s (%d packages, %s) %s", o.Name, o.Version, o.Packages, took, what)
}

// Kinds counts errors of the same kind: their texts without names of packages, accounts and programs, paths and
// versions.
func Kinds(outcomes []Outcome) []string {
	count := map[string][]string{}
	for _, o := range outcomes {
		if o.Err != nil {
			kind := kindOf(o.Err.Error())
			count[kind] = append(count[kind], o.Name)
		}
	}
	var out []string
	for kind, names := range count {
		out = append(out, fmt.Sprintf("%3d  %s: %s", len(names), kind, strings.Join(names, " ")))
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

var (
	packageName = regexp.MustCompile(`(package) [a-z0-9][a-z0-9+.-]*( [0-9]\S*)?`)
	pathName    = regexp.MustCompile(`(^|[ "(])/[A-Za-z0-9/_.@:+-]+`)
	accountName = regexp.MustCompile(`(user|group) \S+ is`)
	commandName = regexp.MustCompile(`(?s)has Exec.*`)
	clashName   = regexp.MustCompile(`(?s)[a-z0-9+.-]+ \S+ \(.*conflicts with ([a-z0-9+.-]+).*`)
)

func kindOf(text string) string {
	text = clashName.ReplaceAllString(text, "conflicts with $1")
	text = packageName.ReplaceAllString(text, "$1 …")
	text = accountName.ReplaceAllString(text, "$1 … is")
	text = commandName.ReplaceAllString(text, "runs a program that is not there")
	text = pathName.ReplaceAllString(text, "$1/…")
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 160 {
		text = string(r[:160]) + "…"
	}
	return text
}
