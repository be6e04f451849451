// Package edge composes the root of an image of `spore init --example edge` with further packages, by the steps of
// builder/pipeline up to the tree. Our own programs and payloads are there as short scripts, since nobody starts them,
// and nothing is linked into a filesystem.
package edge

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spore/builder/apt"
	"spore/builder/cmd/initialize"
	"spore/builder/kmod"
	"spore/builder/needs"
	"spore/builder/packs"
	"spore/builder/payload"
	"spore/builder/recipe"
	"spore/builder/source"
	"spore/builder/store"
	"spore/builder/tree"
	"spore/cluster"
	"spore/test/leak"
)

// Suite is the release of Debian.
const Suite = "trixie"

// kernel is the flavour of the kernel: the smaller one, as no package of the list depends on the hardware.
const kernel = "cloud"

// maxIndexAge is how long a run, and the next ones, see the same archive without a look at the mirror.
const maxIndexAge = 12 * time.Hour

// omitted are what `spore build` leaves out, too (builder/cmd/inputs).
var omitted = []string{"initramfs-tools"}

// program stands for our own programs and for payloads.
var program = tree.Bytes("#!/bin/sh\n")

// Edge is an open package archive with a configuration. Its methods can be called side by side.
type Edge struct {
	source string
	store  *store.Store
	config *cluster.Config

	mu sync.Mutex // an apt.Archive answers one question at a time
	// built answers as in `spore build`, whole as Debian's apt: with all that packages depend on.
	built, whole *apt.Archive

	indexes sync.Mutex
	// modules are depmod's files by the kernel's release.
	modules map[string]map[string][]byte
}

// Open reads the configuration of the example and the indexes of the machine's own mirror. tree is our source tree,
// cache a folder that keeps indexes and packages from one run to the next.
func Open(ctx context.Context, sourceTree, cache string, now time.Time) (*Edge, error) {
	e := &Edge{source: sourceTree, modules: map[string]map[string][]byte{}}
	if err := e.configure(); err != nil {
		return nil, err
	}
	var err error
	if e.store, err = store.Open(cache); err != nil {
		return nil, err
	}
	if e.built, err = e.archive(ctx, now, omitted, recipe.UnneededDependencies()); err == nil {
		e.whole, err = e.archive(ctx, now, nil, nil)
	}
	if err != nil {
		return nil, errors.Join(err, e.store.Close())
	}
	return e, nil
}

// Close ends the session in the cache.
func (e *Edge) Close() error { return e.store.Close() }

func (e *Edge) configure() error {
	dir, err := os.MkdirTemp("", "spore-edge")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := initialize.Write(dir, "edge", rand.Reader); err != nil {
		return err
	}
	config, report := cluster.LoadDir(dir)
	if err := report.Err(); err != nil {
		return fmt.Errorf("the example edge: %w", err)
	}
	config.Image.Kernel = kernel
	e.config = config
	return nil
}

func (e *Edge) archive(ctx context.Context, now time.Time, omit []string,
	cut map[string][]string) (*apt.Archive, error) {
	a, err := apt.New(apt.Options{
		Root: os.DirFS("/"), Store: e.store, Suite: Suite, Now: func() time.Time { return now }, MaxIndexAge: maxIndexAge,
		Transport: http.DefaultTransport.(*http.Transport).Clone(), Omit: omit, Cut: cut,
	})
	if err != nil {
		return nil, err
	}
	return a, a.Update(ctx)
}

// Date is that of the newest index of the archive.
func (e *Edge) Date() time.Time { return e.built.Date() }

// Suites says where packages come from.
func (e *Edge) Suites() []apt.SuiteInfo { return e.built.Suites() }

// Wanted are the packages that image.yaml, with further packages, asks for.
func (e *Edge) Wanted(more ...string) ([]string, error) {
	c := *e.config
	c.Image.Packages = append(slices.Clone(c.Image.Packages), more...)
	list, err := needs.Packages(&c)
	if err != nil {
		return nil, err
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Resolve finds the packages of an image with further packages.
func (e *Edge) Resolve(more ...string) ([]apt.Package, error) {
	list, err := e.Wanted(more...)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.built.Resolve(list)
}

// Whole finds the packages that Debian's apt would install for a list.
func (e *Edge) Whole(list []string) ([]apt.Package, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.whole.Resolve(list)
}

// Newest are the newest packages of these names; one that there is not is left out.
func (e *Edge) Newest(names []string) ([]apt.Package, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, alone, err := e.built.Choose(nil, names)
	return alone, err
}

// Version is the newest version of a package, or empty.
func (e *Edge) Version(name string) string {
	list, err := e.Newest([]string{name})
	if err != nil || len(list) == 0 {
		return ""
	}
	return list[0].Version
}

// Compose makes the root of an image with the packages that Resolve found for these names. It is an error when the
// builder or a maintainer script has put a secret there. The data of its files cannot be read any more.
func (e *Edge) Compose(ctx context.Context, list []apt.Package, named ...string) (*recipe.Result, error) {
	opened, done, err := e.open(ctx, list)
	if err != nil {
		return nil, err
	}
	defer done()
	o, err := e.options(ctx, list)
	if err != nil {
		return nil, err
	}
	o.Named = named
	composed, err := recipe.Compose(opened, o)
	if err != nil {
		return nil, err
	}
	return composed, searchMade(composed.Tree)
}

// searchMade looks for secrets in all that was made here: the files of packages are in packs, what scripts wrote is in
// memory.
func searchMade(t *tree.Tree) error {
	s := leak.New()
	return t.Walk(func(p string, n *tree.Inode) error {
		data, made := n.Content.(tree.Bytes)
		if n.Type != tree.Regular || !made {
			return nil
		}
		finds, err := s.Search(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("search %s: %w", p, err)
		}
		if len(finds) > 0 {
			return fmt.Errorf("%s of %s has a secret: %s", p, n.Origin, finds[0])
		}
		return nil
	})
}

// Debian makes of exactly these packages what Debian's own tools make. The caller calls done after its last look at the
// tree.
func (e *Edge) Debian(ctx context.Context, list []apt.Package) (t *tree.Tree, done func(), err error) {
	opened, done, err := e.open(ctx, list)
	if err != nil {
		return nil, nil, err
	}
	o, err := e.options(ctx, list)
	if err == nil {
		o.ModuleIndexes, err = e.moduleIndexes(ctx, o.Kernel, opened)
	}
	if err == nil {
		t, err = recipe.Debian(opened, o)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return t, done, nil
}

// options are those of pipeline's own call, but for the programs' data and the kernel's modules.
func (e *Edge) options(ctx context.Context, list []apt.Package) (recipe.Options, error) {
	o := recipe.Options{
		Units: source.Units(e.source), Overlay: source.Overlay(e.source), Agent: program,
		Release: recipe.Release{Version: "0.1", Suite: Suite}, Services: e.config.List(),
	}
	var err error
	if o.Kernel, err = release(list); err != nil {
		return o, err
	}
	for _, p := range needs.Programs(e.config) {
		o.Programs = append(o.Programs, p.Name)
		for _, own := range p.Own {
			file := recipe.PayloadFile{Path: "/usr/bin/" + own, Mode: 0o755, Content: program}
			o.Payloads = append(o.Payloads, recipe.Payload{Name: own, Files: []recipe.PayloadFile{file}})
		}
		for _, name := range p.Payloads {
			if o.Payloads, err = e.addPayload(ctx, o.Payloads, name); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// addPayload adds the programs of a payload without compiling them.
func (e *Edge) addPayload(ctx context.Context, list []recipe.Payload, name string) ([]recipe.Payload, error) {
	if slices.ContainsFunc(list, func(p recipe.Payload) bool { return p.Name == name }) {
		return list, nil
	}
	options := payload.Options{Env: os.Environ(), Plan: true}
	planned, err := payload.Build(ctx, e.store, source.Payload(e.source, name), options)
	if err != nil {
		return nil, err
	}
	out := recipe.Payload{Name: name}
	for _, p := range planned {
		out.Files = append(out.Files, recipe.PayloadFile{Path: p.Target, Mode: p.Mode, Content: program, Links: p.Links})
	}
	return append(list, out), nil
}

// release is that of the one kernel of the list.
func release(list []apt.Package) (string, error) {
	for _, p := range list {
		if r, ok := strings.CutPrefix(p.Name, "linux-image-"); ok && r != "" && r[0] >= '0' && r[0] <= '9' {
			return r, nil
		}
	}
	return "", errors.New("the packages have no kernel")
}

func (e *Edge) moduleIndexes(ctx context.Context, kernel string, opened []recipe.Package) (map[string][]byte, error) {
	e.indexes.Lock()
	defer e.indexes.Unlock()
	if known := e.modules[kernel]; known != nil {
		return known, nil
	}
	t := tree.New()
	if err := t.Mkdir("/usr/lib", 0o755); err != nil {
		return nil, err
	}
	if err := t.Symlink("usr/lib", "/lib", ""); err != nil {
		return nil, err
	}
	for _, p := range opened {
		if p.Name == "linux-image-"+kernel {
			if err := p.Entries(t.Add); err != nil {
				return nil, err
			}
		}
	}
	indexes, err := kmod.Index(ctx, t, kernel)
	e.modules[kernel] = indexes
	return indexes, err
}

// open downloads and opens packages; done closes them.
func (e *Edge) open(ctx context.Context, list []apt.Package) (opened []recipe.Package, done func(), err error) {
	e.mu.Lock()
	packed := func(p apt.Package) bool { return packs.Has(e.store, p.SHA256) }
	err = e.built.Fetch(ctx, slices.DeleteFunc(slices.Clone(list), packed))
	e.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	all := make([]*packs.Pack, len(list))
	done = func() {
		for _, p := range all {
			if p != nil {
				p.Close()
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range list {
		group.Go(func() error {
			pack, err := packs.Ensure(ctx, e.store, p.SHA256, func() (io.ReadCloser, error) { return e.built.Open(p) })
			if err != nil {
				return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
			}
			all[i] = pack
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		done()
		return nil, nil, err
	}
	for _, p := range all {
		opened = append(opened, p.Package)
	}
	return opened, done, nil
}

// Cache is where runs keep what the next one needs: a folder of the user's cache.
func Cache() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "spore-tests", "packages"), nil
}
