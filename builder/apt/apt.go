// Package apt takes Debian packages from an archive: it reads the machine's apt sources and settings, uses only archives
// whose InRelease file is signed by the archive keyring, checks every hash, resolves the closure of a list of packages and
// downloads it into the store. It installs nothing, and it reads neither the machine's own package state nor its lists.
//
// What is followed: sources.list(5), apt.conf(5), deb-release and repository format of the Debian wiki, Debian Policy 5
// and 7. What is left out: pinning, diffs of indexes, translations, and every protocol but http and https.
package apt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"spore/builder/store"
)

// Options says what to take and from where. Store and Now are required.
type Options struct {
	// Store keeps indexes, packages and resolutions.
	Store *store.Store
	// Root is the root directory of the machine whose apt sources and settings are used; nil when there are none.
	Root fs.FS
	// Suite is the code name of the release; trixie when empty. SUITE-updates and SUITE-security belong to it.
	Suite string
	// Arch is Debian's name of the architecture; amd64 when empty.
	Arch string
	// Components of the archive; main when empty.
	Components []string
	// Mirror and SecurityMirror are base URIs that take the place of the machine's own.
	Mirror, SecurityMirror string
	// Keyring holds binary OpenPGP certificates; Debian's archive keyring when empty.
	Keyring []byte
	// Omit names packages that count as present but are left out, because the image brings the thing itself.
	Omit []string
	// Cut names, by package, packages that it depends on and that an image does without. Where another one needs them or the
	// list names them, they are there all the same.
	Cut map[string][]string
	// Transport carries the requests; nil is a plain one. Its Proxy is used where apt's settings name none.
	Transport *http.Transport
	// Now is the clock that dates of indexes and signatures are held against.
	Now func() time.Time
	// MaxIndexAge is how long indexes are used again without a look at the network; 0 is never.
	MaxIndexAge time.Duration
	// Offline uses what the store has, of any age, and never the network.
	Offline bool
	// Parallel is the number of downloads at once; 6 when 0.
	Parallel int
	// Retries is the number of further attempts after a failure that may pass; 4 when 0, none when negative.
	Retries int
	// Backoff is the pause before the first further attempt, doubled for each; 500 ms when 0.
	Backoff time.Duration
	// Stall is how long a connection may be silent; 30 s when 0.
	Stall time.Duration
	// Progress is called while Fetch downloads, from one goroutine at a time, some hundred times a second at most.
	Progress func(Progress)
}

// Progress is how far a Fetch is.
type Progress struct {
	// Name is the package that moved.
	Name string
	// Done and Total are bytes, those already in the store not counted.
	Done, Total int64
	// Files and TotalFiles count packages.
	Files, TotalFiles int
}

func (o Options) withDefaults() Options {
	if o.Suite == "" {
		o.Suite = "trixie"
	}
	if o.Arch == "" {
		o.Arch = "amd64"
	}
	if len(o.Components) == 0 {
		o.Components = []string{"main"}
	}
	if o.Parallel <= 0 {
		o.Parallel = 6
	}
	switch {
	case o.Retries == 0:
		o.Retries = 4
	case o.Retries < 0:
		o.Retries = 0
	}
	if o.Backoff <= 0 {
		o.Backoff = 500 * time.Millisecond
	}
	if o.Stall <= 0 {
		o.Stall = 30 * time.Second
	}
	if o.Root == nil {
		o.Root = os.DirFS("/nonexistent")
	}
	return o
}

// Archive is a Debian archive with its updates and its security archive. Its methods are called one after another.
type Archive struct {
	opts    Options
	keys    openpgp.EntityList
	keysMu  sync.Mutex // go-crypto remembers in its keys what it has verified of them
	conf    Conf
	sources []Source
	down    *downloader

	mu       sync.Mutex
	warnings []string
	suites   []*suite // in the order of suiteNames; nil before Update
}

// suite is one suite that Update has verified.
type suite struct {
	SuiteInfo
	release *Release
	indexes []index
}

// index is one Packages file, held by the store.
type index struct {
	component string
	path      string
	file      File
}

// SuiteInfo says what a build took its packages from.
type SuiteInfo struct {
	// Suite is the code name, such as trixie-security.
	Suite string `json:"suite"`
	// URI is the base of the archive, without a password.
	URI string `json:"uri"`
	// Date is that of the InRelease file, SHA256 the hash of the whole file.
	Date   time.Time `json:"date"`
	SHA256 string    `json:"sha256"`
	// Indexes are the Packages files that were read, in the order of the components.
	Indexes []IndexInfo `json:"indexes"`

	base string // URI with its password
}

// IndexInfo names a Packages file of a suite: its path below dists/SUITE, without a suffix for compression, and its SHA-256
// in hexadecimal, which the InRelease file lists.
type IndexInfo struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// New reads the machine's settings and sources. It does not use the network.
func New(opts Options) (*Archive, error) {
	if opts.Store == nil || opts.Now == nil {
		return nil, errors.New("internal error: apt.Options needs Store and Now")
	}
	a := &Archive{opts: opts.withDefaults()}
	o := &a.opts
	var err error
	if a.keys, err = ReadKeyring(o.Keyring); err != nil {
		return nil, err
	}
	if a.conf, err = ReadConf(o.Root); err != nil {
		return nil, fmt.Errorf("read the machine's apt settings: %w", err)
	}
	if a.sources, a.warnings, err = ReadSources(o.Root, o.Arch); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		field string
		uri   *string
	}{{"mirror", &o.Mirror}, {"securityMirror", &o.SecurityMirror}} {
		if *m.uri == "" {
			continue
		}
		if *m.uri, err = parseBase(*m.uri); err != nil {
			return nil, fmt.Errorf("%s: %w", m.field, err)
		}
	}
	a.down = newDownloader(o, a.conf)
	return a, nil
}

// Warnings holds what the user should know and what stops nothing, each once, in a fixed order.
func (a *Archive) Warnings() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.Clone(a.warnings)
	slices.Sort(out)
	return slices.Compact(out)
}

func (a *Archive) warn(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnings = append(a.warnings, fmt.Sprintf(format, args...))
}

// Suites says where the packages come from; empty before Update.
func (a *Archive) Suites() []SuiteInfo {
	out := make([]SuiteInfo, len(a.suites))
	for i, s := range a.suites {
		out[i] = s.SuiteInfo
		for _, x := range s.indexes {
			out[i].Indexes = append(out[i].Indexes, IndexInfo{Path: x.path, SHA256: x.file.SHA256.String()})
		}
	}
	return out
}

// Date is the newest date of the suites' InRelease files: the same for the same indexes, and so fit as the date of a
// build. It is zero before Update.
func (a *Archive) Date() time.Time { return newestDate(a.Suites()) }

func newestDate(suites []SuiteInfo) time.Time {
	var newest time.Time
	for _, s := range suites {
		if s.Date.After(newest) {
			newest = s.Date
		}
	}
	return newest
}

// Open opens the .deb of a package that Fetch has put into the store.
func (a *Archive) Open(p Package) (*os.File, error) {
	f, err := a.opts.Store.Open(p.Key())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("package %s was not downloaded: %w", &p, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open package %s: %w", &p, err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() != p.Size {
		err = fmt.Errorf("%s has %d bytes and not %d: remove it and build again", f.Name(), info.Size(), p.Size)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open package %s: %w", &p, err)
	}
	return f, nil
}

// Fetch downloads packages into the store, those that are not there yet.
func (a *Archive) Fetch(ctx context.Context, packages []Package) error {
	return a.FetchEach(ctx, packages, func(int) {})
}

// FetchEach is Fetch that calls ready with the index of each package as soon as the store has it: first for those that it
// had, in the order of the list, then for the others as their downloads end, several at a time.
func (a *Archive) FetchEach(ctx context.Context, packages []Package, ready func(i int)) error {
	var jobs []download
	var have []int
	for n, p := range packages {
		i := slices.IndexFunc(a.suites, func(s *suite) bool { return s.Suite == p.Suite })
		if i < 0 {
			return fmt.Errorf("internal error: package %s is of suite %q, which was not updated", &p, p.Suite)
		}
		if a.down.has(p.Key(), p.Size) {
			have = append(have, n)
			continue
		}
		if a.opts.Offline {
			return fmt.Errorf("package %s is not in the store, and the network is not to be used; build once without --offline", &p)
		}
		jobs = append(jobs, download{
			name: p.Name, base: a.suites[i].base, path: p.Filename, key: p.Key(), size: p.Size, done: func() { ready(n) },
		})
	}
	for _, n := range have {
		ready(n)
	}
	// The largest first, so that none of them is what everybody waits for at the end.
	slices.SortStableFunc(jobs, func(x, y download) int { return int(min(max(y.size-x.size, -1), 1)) })
	return a.down.all(ctx, jobs, a.opts.Progress)
}
