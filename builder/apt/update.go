package apt

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"spore/builder/store"
	"spore/builder/xz"
)

// suiteSpec is a suite that an image takes packages from.
type suiteSpec struct {
	name     string
	security bool // it is in the security archive
}

// suiteSpecs are the suites of a release. Where two hold the same version of a package, the first is taken.
func (a *Archive) suiteSpecs() []suiteSpec {
	s := a.opts.Suite
	return []suiteSpec{{s, false}, {s + "-updates", false}, {s + "-security", true}}
}

// Update brings the indexes of all suites up to date: those in the store where they are young enough or unchanged, else
// from the mirror.
func (a *Archive) Update(ctx context.Context) error {
	a.warnSettings()
	specs := a.suiteSpecs()
	suites := make([]*suite, len(specs))
	errs := make([]error, len(specs))
	g, gctx := errgroup.WithContext(ctx)
	for i, spec := range specs {
		g.Go(func() error {
			s, err := a.suite(gctx, spec)
			if err == nil {
				err = a.indexes(gctx, s)
			}
			if err != nil {
				errs[i] = fmt.Errorf("suite %s: %w", spec.name, err)
			}
			suites[i] = s
			return nil // every suite's error is told
		})
	}
	_ = g.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	a.suites = suites
	return nil
}

func (a *Archive) warnSettings() {
	for _, s := range []struct{ setting, effect string }{
		{"Acquire::Check-Valid-Until", "a stale index is not noticed"},
		{"Acquire::Check-Date", "an index from the future is not noticed"},
	} {
		if a.conf.Off(s.setting) {
			a.warn("the machine's apt settings turn %s off: %s", s.setting, s.effect)
		}
	}
}

// candidates are the places where a suite may be, the likeliest first: the machine's own suites tell a main archive from
// a security archive, whatever release they are of.
func (a *Archive) candidates(spec suiteSpec) ([]Source, error) {
	mirror, field := a.opts.Mirror, "mirror"
	if spec.security {
		mirror, field = a.opts.SecurityMirror, "securityMirror"
	}
	if mirror != "" {
		return []Source{{URI: mirror, Where: field + " of image.yaml"}}, nil
	}
	var likely, other []Source
	seen := map[string]bool{}
	for _, s := range a.sources {
		if slices.ContainsFunc(s.Suites, isSecurity) != spec.security || seen[s.URI] {
			continue
		}
		seen[s.URI] = true
		// Sources of others, which do not verify, are asked last.
		if base := path.Base(s.URI); base == "debian" || base == "debian-security" {
			likely = append(likely, s)
		} else {
			other = append(other, s)
		}
	}
	all := append(likely, other...)
	if len(all) == 0 {
		return nil, fmt.Errorf("the machine's apt sources have no mirror for it; set %s in image.yaml to a Debian mirror", field)
	}
	return all, nil
}

// suite finds a verified InRelease file of a suite.
func (a *Archive) suite(ctx context.Context, spec suiteSpec) (*suite, error) {
	places, err := a.candidates(spec)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		if s := a.stored(spec, place); s != nil {
			return s, nil
		}
	}
	if a.opts.Offline {
		return nil, errors.New("the cache has no index of it, and --offline forbids the network; build once without --offline")
	}
	var errs []error
	for _, place := range places {
		s, err := a.asked(ctx, spec, place)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		errs = append(errs, fmt.Errorf("%s (%s): %w", redact(place.URI), place.Where, err))
	}
	for _, place := range places {
		if n, ok := a.readNote(spec, place.URI); ok {
			errs = append(errs, fmt.Errorf("the store has the index of %s; --offline builds with it", day(n.Date)))
			break
		}
	}
	return nil, errors.Join(errs...)
}

// note is what the store remembers of a suite at one place.
type note struct {
	// InRelease is the SHA-256 and store key of the file, Size its length.
	InRelease string `json:"inRelease"`
	Size      int64  `json:"size"`
	// Date is the one in the file, Seen when the mirror last offered it.
	Date time.Time `json:"date"`
	Seen time.Time `json:"seen"`
}

func noteName(spec suiteSpec, uri string) string {
	return "apt-inrelease-" + store.KeyOf("apt-inrelease", spec.name, uri).String()[:32]
}

func (a *Archive) readNote(spec suiteSpec, uri string) (note, bool) {
	var n note
	data, err := a.opts.Store.ReadNote(noteName(spec, uri))
	if err != nil || json.Unmarshal(data, &n) != nil {
		return note{}, false
	}
	return n, true
}

// stored is the suite as the store has it, when it may be used without asking the mirror.
func (a *Archive) stored(spec suiteSpec, place Source) *suite {
	n, ok := a.readNote(spec, place.URI)
	if !ok {
		return nil
	}
	if age := a.opts.Now().Sub(n.Seen); !a.opts.Offline && (age < 0 || age >= a.opts.MaxIndexAge) {
		return nil
	}
	key, err := store.ParseKey(n.InRelease)
	if err != nil {
		return nil
	}
	data, err := a.opts.Store.ReadAll(key)
	if err != nil || sha256.Sum256(data) != key {
		return nil
	}
	s, err := a.verify(spec, place, data)
	if err != nil {
		return nil
	}
	return s
}

// asked is the suite as the mirror has it now.
func (a *Archive) asked(ctx context.Context, spec suiteSpec, place Source) (*suite, error) {
	data, err := a.down.small(ctx, place.URI, "dists/"+spec.name+"/InRelease", maxRelease)
	if err != nil {
		return nil, err
	}
	s, err := a.verify(spec, place, data)
	if err != nil {
		return nil, fmt.Errorf("InRelease: %w", err)
	}
	if old, ok := a.readNote(spec, place.URI); ok && s.Date.Before(old.Date) {
		return nil, fmt.Errorf("InRelease: its date %s is before the date of an earlier one, %s: the mirror went back, or an attacker replays an old index; use another mirror",
			day(s.Date), day(old.Date))
	}
	key := store.Key(sha256.Sum256(data))
	if !a.down.has(key, int64(len(data))) {
		err := a.opts.Store.Put(key, func(w *os.File) error { _, err := w.Write(data); return err })
		if err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(note{InRelease: key.String(), Size: int64(len(data)), Date: s.Date, Seen: a.opts.Now().UTC()})
	if err != nil {
		return nil, err
	}
	return s, a.opts.Store.WriteNote(noteName(spec, place.URI), text)
}

// verify makes a suite of an InRelease file.
func (a *Archive) verify(spec suiteSpec, place Source, data []byte) (*suite, error) {
	now := a.opts.Now()
	a.keysMu.Lock()
	text, err := Verify(data, a.keys, now)
	a.keysMu.Unlock()
	if err != nil {
		return nil, err
	}
	r, err := ParseRelease(text)
	if err != nil {
		return nil, err
	}
	noValidUntil := place.NoValidUntil || a.opts.Offline || a.conf.Off("Acquire::Check-Valid-Until")
	noDate := place.NoDate || a.conf.Off("Acquire::Check-Date")
	warnings, err := r.check(spec.name, now, noValidUntil, noDate)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		a.warn("suite %s: InRelease: %s", spec.name, w)
	}
	return &suite{release: r, SuiteInfo: SuiteInfo{
		Suite: spec.name, URI: redact(place.URI), Date: r.Date, SHA256: fmt.Sprintf("%x", sha256.Sum256(data)), base: place.URI,
	}}, nil
}

// indexFile is a Packages file that a release lists.
type indexFile struct {
	component string
	plain     File
	// packed is how it is fetched: its path below dists/SUITE, and size and hash there.
	path   string
	packed File
	err    error
}

// wanted lists the Packages files of the components for the architecture, and for all architectures where the archive
// keeps these apart (deb-release: No-Support-for-Architecture-all).
func (r *Release) wanted(o *Options) []indexFile {
	arches := []string{o.Arch}
	if slices.Contains(r.Architectures, "all") && !slices.Contains(r.NoAll, "Packages") {
		arches = append(arches, "all")
	}
	var out []indexFile
	for _, component := range o.Components {
		for _, arch := range arches {
			f := indexFile{component: component}
			name := component + "/binary-" + arch + "/Packages"
			plain, ok := r.Files[name]
			f.plain = plain
			switch {
			case !ok:
				f.err = fmt.Errorf("there is no component %q for %s; it has %s for %s",
					component, arch, strings.Join(r.Components, ", "), strings.Join(r.Architectures, ", "))
			case plain.Size > maxIndex:
				f.err = fmt.Errorf("%s has %d bytes, more than an index may have", name, plain.Size)
			}
			for _, suffix := range []string{".xz", ".gz", ""} {
				if packed, ok := r.Files[name+suffix]; ok && f.err == nil {
					f.path, f.packed = name+suffix, packed
					break
				}
			}
			out = append(out, f)
		}
	}
	return out
}

// indexes brings the Packages files of a suite into the store, decompressed.
func (a *Archive) indexes(ctx context.Context, s *suite) error {
	for _, f := range s.release.wanted(&a.opts) {
		if f.err != nil {
			return f.err
		}
		s.indexes = append(s.indexes, index{f.component, strings.TrimSuffix(f.path, path.Ext(f.path)), f.plain})
		if f.plain.Size == 0 || a.down.has(f.plain.SHA256, f.plain.Size) {
			continue
		}
		if a.opts.Offline {
			return fmt.Errorf("the cache has no %s, and --offline forbids the network; build once without --offline", f.path)
		}
		if err := a.fetchIndex(ctx, s, f); err != nil {
			return fmt.Errorf("index %s: %w", f.path, err)
		}
	}
	return nil
}

func (a *Archive) fetchIndex(ctx context.Context, s *suite, f indexFile) error {
	if f.packed.Size > maxIndex {
		return fmt.Errorf("it has %d bytes, more than an index may have", f.packed.Size)
	}
	where := "dists/" + s.Suite + "/" + f.path
	if s.release.ByHash {
		where = path.Dir(where) + "/by-hash/SHA256/" + f.packed.SHA256.String()
	}
	err := a.down.one(ctx, download{base: s.base, path: where, key: f.packed.SHA256, size: f.packed.Size}, func(int64) {})
	if err != nil || path.Ext(f.path) == "" {
		return err
	}
	packed, err := a.opts.Store.ReadAll(f.packed.SHA256)
	if err != nil {
		return err
	}
	return a.opts.Store.Put(f.plain.SHA256, func(w *os.File) error { return unpackIndex(w, packed, path.Ext(f.path), f.plain) })
}

// unpackIndex decompresses an index and holds it against what the release says of it.
func unpackIndex(w io.Writer, packed []byte, suffix string, want File) error {
	var r io.Reader
	var err error
	if suffix == ".gz" {
		r, err = gzip.NewReader(bytes.NewReader(packed))
	} else {
		r, err = xz.NewReader(bytes.NewReader(packed), xz.Options{})
	}
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, hash), io.LimitReader(r, want.Size+1))
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	if n != want.Size || store.Key(hash.Sum(nil)) != want.SHA256 {
		return fmt.Errorf("its decompressed content is not the file that InRelease lists (size %d, SHA-256 %s)", want.Size, want.SHA256)
	}
	return nil
}
