package modules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// compressedFile is MODULE_INIT_COMPRESSED_FILE of linux/module.h.
const compressedFile = 4

// Insert gives the module in file to the kernel (finit_module(2)). One that is there already is no error.
func Insert(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(file, ".ko") {
		flags = compressedFile
	}
	err = unix.FinitModule(int(f.Fd()), "", flags)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// Loader loads each module of an index at most once. It may be used by several goroutines.
type Loader struct {
	index  *Index
	dir    string
	insert func(file string) error

	mu     sync.Mutex
	jobs   map[string]*job
	loaded []string
}

type job struct {
	once sync.Once
	err  error
}

// NewLoader returns a loader of the modules of index, whose files are below dir. insert is Insert but in tests.
func NewLoader(index *Index, dir string, insert func(file string) error) *Loader {
	return &Loader{index: index, dir: dir, insert: insert, jobs: map[string]*job{}}
}

// Load loads a module after its dependencies. Soft dependencies that are not there or fail do not matter.
func (l *Loader) Load(name string) error {
	return l.load(Name(name), nil)
}

func (l *Loader) load(name string, chain []string) error {
	if slices.Contains(chain, name) {
		return fmt.Errorf("module %s depends on itself: %s", name, strings.Join(append(chain, name), " → "))
	}
	if l.index.builtin[name] {
		return nil
	}
	e, ok := l.index.dep[name]
	if !ok {
		return fmt.Errorf("module %s is not in %s", name, l.dir)
	}
	l.mu.Lock()
	j := l.jobs[name]
	if j == nil {
		j = new(job)
		l.jobs[name] = j
	}
	l.mu.Unlock()
	chain = append(slices.Clip(chain), name)
	j.once.Do(func() { j.err = l.insertWithDeps(name, e, chain) })
	return j.err
}

func (l *Loader) insertWithDeps(name string, e entry, chain []string) error {
	for _, soft := range l.index.pre[name] {
		if !slices.Contains(chain, soft) && l.index.Has(soft) {
			_ = l.load(soft, chain)
		}
	}
	// modules.dep lists dependencies so that the last one has to be loaded first.
	for _, d := range slices.Backward(e.deps) {
		if err := l.load(d, chain); err != nil {
			return err
		}
	}
	if err := l.insert(filepath.Join(l.dir, e.file)); err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	l.mu.Lock()
	l.loaded = append(l.loaded, name)
	l.mu.Unlock()
	return nil
}

// LoadFor loads what a device with the modalias wants. A module that fails is
// an error, but the others are tried.
func (l *Loader) LoadFor(modalias string) error {
	var errs []error
	for _, name := range l.index.Match(modalias) {
		errs = append(errs, l.Load(name))
	}
	return errors.Join(errs...)
}

// Loaded lists what was loaded so far, in the order of loading.
func (l *Loader) Loaded() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.loaded)
}
