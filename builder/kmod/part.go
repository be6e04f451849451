package kmod

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"spore/builder/tree"
)

// Part says which modules of a kernel are read; the zero value is all of them. To decompress a module costs more than all else
// that is done with it. What a module of the part needs is read with it: the modules that its file names as depends= and, by
// name, as softdep=.
type Part struct {
	// ID tells parts apart: two with the same ID are the same choice.
	ID string
	// Wanted reports whether a module is of the part, by its path relative to the module directory.
	Wanted func(path string) bool
	// Names are modules of the part whatever Wanted says. A kernel may be without some.
	Names []string
	// Required are modules or aliases. Where one is the name of no module, loadable or built in, all modules are read: only
	// they know their aliases.
	Required []string
}

// read parses the modules of the part; the others are nil in what it returns, which has the order of paths.
func (p Part) read(ctx context.Context, t *tree.Tree, dir string, paths, builtin []string) ([]*object, error) {
	parsed := make([]*object, len(paths))
	place := make(map[string]int, len(paths))
	for i, file := range paths {
		place[nameOf(file)] = i
	}
	var next []int
	queued := make([]bool, len(paths))
	want := func(i int) {
		if !queued[i] {
			queued[i] = true
			next = append(next, i)
		}
	}
	wantName := func(name string) bool {
		i, ok := place[strings.ReplaceAll(name, "-", "_")]
		if ok {
			want(i)
		}
		return ok
	}
	all := p.Wanted == nil
	for _, name := range p.Required {
		all = !wantName(name) && !(&Modules{Builtin: builtin}).IsBuiltin(name) || all
	}
	for i, file := range paths {
		if all || p.Wanted(file) {
			want(i)
		}
	}
	for _, name := range p.Names {
		wantName(name)
	}
	for len(next) > 0 {
		batch := next
		next = nil
		if err := parseBatch(ctx, t, dir, paths, batch, parsed); err != nil {
			return nil, err
		}
		for _, i := range batch {
			for _, list := range parsed[i].values("depends") {
				for name := range strings.SplitSeq(list, ",") {
					wantName(name)
				}
			}
			pre, post := parseSoftdeps(parsed[i].values("softdep"))
			for _, name := range append(pre, post...) {
				wantName(name)
			}
		}
	}
	return parsed, nil
}

func parseBatch(ctx context.Context, t *tree.Tree, dir string, paths []string, batch []int, parsed []*object) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		g.Go(func() error {
			var d Decompressor
			for n := w; n < len(batch); n += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				i := batch[n]
				data, err := d.Read(t, path.Join(dir, paths[i]))
				if err != nil {
					return err
				}
				if parsed[i], err = parseObject(data); err != nil {
					return fmt.Errorf("%s: %w", paths[i], err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}
