package apt

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/apt/apttest"
	"spore/builder/deb/debtest"
)

// bulky is a mirror with one package of some size, and that package.
func bulky(t *testing.T) (*fixture, *Archive, Package) {
	t.Helper()
	f := newFixture(t)
	f.Add(t, "trixie", "main", debtest.Deb{
		Control: debtest.Control("bulky", "1"),
		Data:    []debtest.Entry{{Name: "./big", Body: strings.Repeat("0123456789abcdef", 20_000)}},
	}.Bytes())
	f.Publish(t)
	a, packages := f.resolved(t, "bulky")
	f.Requests()
	return f, a, packages[1]
}

// TestEachPackageIsToldOf once, those that the store has before any is downloaded.
func TestEachPackageIsToldOf(t *testing.T) {
	f, a, _ := bulky(t)
	_, packages := f.resolved(t, "bulky")
	require.NoError(t, a.Fetch(t.Context(), packages[1:]))
	for name, each := range map[string]func(context.Context, []Package, func(int)) error{
		"archive": a.FetchEach, "pinned": a.Pin(Pins{Closure: packages}).FetchEach,
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(f.opts.Store.Path(packages[0].Key())))
			var told []int
			var opening error
			require.NoError(t, each(t.Context(), packages, func(i int) {
				f, err := a.Open(packages[i])
				if err == nil {
					err = f.Close()
				}
				opening = errors.Join(opening, err)
				told = append(told, i)
			}))
			require.NoError(t, opening)
			require.ElementsMatch(t, []int{0, 1, 2}, told)
			require.Equal(t, 0, told[2], "the one that had to be downloaded")
		})
	}
}

func partial(f *fixture, p Package) string {
	return filepath.Join(f.opts.Store.PartialDir(), p.SHA256)
}

func TestAPackageThatIsNotWhatTheIndexSaysIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		hook hook
		want string
	}{
		"other content of the same size": {
			put(func(d []byte) []byte { d[len(d)/2] ^= 1; return d }), "the mirror is damaged or lies; use another mirror"},
		"longer":                            {put(func(d []byte) []byte { return append(d, 0) }), "as the index says; use another mirror"},
		"cut short":                         {put(func(d []byte) []byte { return d[:len(d)-1] }), "as the index says; use another mirror"},
		"empty":                             {put(func([]byte) []byte { return nil }), "the mirror's file has 0 bytes and not"},
		"longer, its size not announced":    {chunked(func(d []byte) []byte { return append(d, 0) }), "the mirror sends more than the"},
		"cut short, its size not announced": {chunked(func(d []byte) []byte { return d[:1000] }), "the file ends after 1000 of"},
		"gone": {func(f *fixture, p Package) func(http.ResponseWriter, *http.Request) bool {
			f.Remove(p.Filename)
			return nil
		}, "the mirror answers 404 Not Found: it does not have the file; the index may be out of date"},
		"forbidden":       {answer(http.StatusForbidden), "the mirror answers 403 Forbidden"},
		"a broken server": {answer(http.StatusBadGateway), "the mirror answers 502 Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			f, a, p := bulky(t)
			f.Answer(c.hook(f, p))
			err := a.Fetch(t.Context(), []Package{p})
			require.ErrorContains(t, err, "download bulky: ")
			require.ErrorContains(t, err, c.want)
			_, err = a.Open(p)
			require.Error(t, err)
			require.Empty(t, leftovers(t, f.opts.Store))
		})
	}
}

type hook = func(f *fixture, p Package) func(w http.ResponseWriter, r *http.Request) bool

func put(change func([]byte) []byte) hook {
	return func(f *fixture, p Package) func(http.ResponseWriter, *http.Request) bool {
		f.Put(p.Filename, change(append([]byte(nil), f.File(p.Filename)...)))
		return nil
	}
}

// chunked answers without a Content-Length.
func chunked(change func([]byte) []byte) hook {
	return func(f *fixture, p Package) func(http.ResponseWriter, *http.Request) bool {
		data := change(append([]byte(nil), f.File(p.Filename)...))
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.(http.Flusher).Flush()
			_, _ = w.Write(data)
			return true
		}
	}
}

func answer(code int) hook {
	return func(*fixture, Package) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool { http.Error(w, "", code); return true }
	}
}

func TestADownloadGoesOnWhereItBroke(t *testing.T) {
	f, a, p := bulky(t)
	f.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") == "" {
			f.CutAfter(w, p.Filename, 100_000)
		}
		return false
	})
	require.ErrorContains(t, a.Fetch(t.Context(), []Package{p}), "the connection broke after 100000 of ")
	info, err := os.Stat(partial(f, p))
	require.NoError(t, err)
	require.EqualValues(t, 100_000, info.Size())

	var reports []Progress
	f.opts.Progress = func(p Progress) { reports = append(reports, p) }
	again := f.archive(t) // as another run of the program would
	f.Answer(nil)
	require.NoError(t, again.Update(t.Context()))
	f.Requests()
	require.NoError(t, again.Fetch(t.Context(), []Package{p}))
	require.Equal(t, []apttest.Request{{Path: p.Filename, Range: "bytes=100000-"}}, f.Requests())
	require.NoFileExists(t, partial(f, p))
	require.EqualValues(t, 100_000, reports[0].Done)
	require.Equal(t, Progress{Name: "bulky", Done: p.Size, Total: p.Size, Files: 1, TotalFiles: 1}, reports[len(reports)-1])
}

func TestAFailureThatPassesIsTriedAgain(t *testing.T) {
	for name, fail := range map[string]func(f *fixture, p Package, w http.ResponseWriter){
		"connection dropped mid-file": func(f *fixture, p Package, w http.ResponseWriter) { f.CutAfter(w, p.Filename, 50_000) },
		"connection dropped at once":  func(*fixture, Package, http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"service unavailable": func(_ *fixture, _ Package, w http.ResponseWriter) {
			http.Error(w, "", http.StatusServiceUnavailable)
		},
		"too many requests": func(_ *fixture, _ Package, w http.ResponseWriter) { http.Error(w, "", http.StatusTooManyRequests) },
	} {
		t.Run(name, func(t *testing.T) {
			f, _, p := bulky(t)
			f.opts.Retries = 3
			a := f.updated(t)
			var n atomic.Int32
			f.Answer(func(w http.ResponseWriter, r *http.Request) bool {
				if n.Add(1) > 3 {
					return false
				}
				fail(f, p, w)
				return true
			})
			require.NoError(t, a.Fetch(t.Context(), []Package{p}))
			require.EqualValues(t, 4, n.Load())
		})
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	f, _, p := bulky(t)
	f.opts.Retries = 2
	a := f.updated(t)
	f.Requests()
	f.Answer(answer(http.StatusBadGateway)(f, p))
	require.ErrorContains(t, a.Fetch(t.Context(), []Package{p}), "(gave up after 3 attempts)")
	require.Len(t, f.Requests(), 3)

	f.Answer(answer(http.StatusNotFound)(f, p))
	require.Error(t, a.Fetch(t.Context(), []Package{p}))
	require.Len(t, f.Requests(), 1, "a file that is not there does not come")
}

func TestWhatIsThereOfADownloadIsNotTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		have func(p Package, whole []byte) []byte
		hook hook
	}{
		"wrong bytes":        {have: func(Package, []byte) []byte { return []byte("nonsense") }},
		"longer than it is":  {have: func(_ Package, d []byte) []byte { return append(d, d...) }},
		"wrong but complete": {have: func(_ Package, d []byte) []byte { return make([]byte, len(d)) }},
		"complete":           {have: func(_ Package, d []byte) []byte { return d }},
		"a server that cannot resume": {
			func(_ Package, d []byte) []byte { return d[:1000] },
			func(f *fixture, p Package) func(http.ResponseWriter, *http.Request) bool {
				return func(w http.ResponseWriter, r *http.Request) bool { _, _ = w.Write(f.File(p.Filename)); return true }
			},
		},
		"a server that resumes elsewhere": {
			func(_ Package, d []byte) []byte { return d[:1000] },
			func(f *fixture, p Package) func(http.ResponseWriter, *http.Request) bool {
				return func(w http.ResponseWriter, r *http.Request) bool {
					if r.Header.Get("Range") != "" {
						w.Header().Set("Content-Range", "bytes 0-9/10")
						w.WriteHeader(http.StatusPartialContent)
						return true
					}
					return false
				}
			},
		},
		"a server that refuses the range": {
			func(_ Package, d []byte) []byte { return d[:1000] },
			func(f *fixture, p Package) func(http.ResponseWriter, *http.Request) bool {
				return func(w http.ResponseWriter, r *http.Request) bool {
					if r.Header.Get("Range") != "" {
						w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
						return true
					}
					return false
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, _, p := bulky(t)
			f.opts.Retries = 1
			a := f.updated(t)
			whole := append([]byte(nil), f.File(p.Filename)...)
			require.NoError(t, os.WriteFile(partial(f, p), c.have(p, whole), 0o644))
			if c.hook != nil {
				f.Answer(c.hook(f, p))
			}
			require.NoError(t, a.Fetch(t.Context(), []Package{p}))
			got, err := f.opts.Store.ReadAll(p.Key())
			require.NoError(t, err)
			require.Equal(t, f.File(p.Filename), got)
		})
	}
}

func TestASilentConnectionIsGivenUp(t *testing.T) {
	f, _, p := bulky(t)
	a := f.updated(t)
	a.down.stall = 50 * time.Millisecond
	f.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "320000")
		_, _ = w.Write(make([]byte, 10))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	p.Size = 320_000
	require.ErrorContains(t, a.Fetch(t.Context(), []Package{p}), "no data for 50ms")
}

func TestACancelledDownloadEndsAtOnceAndKeepsWhatItHas(t *testing.T) {
	f, _, p := bulky(t)
	f.opts.Retries, f.opts.Backoff = 5, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	f.opts.Progress = func(p Progress) {
		if p.Done >= 100_000 {
			cancel()
		}
	}
	a := f.updated(t)
	f.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		f.CutAfter(w, p.Filename, 100_000)
		return true
	})
	require.ErrorIs(t, a.Fetch(ctx, []Package{p}), context.Canceled)
	info, err := os.Stat(partial(f, p))
	require.NoError(t, err)
	require.EqualValues(t, 100_000, info.Size())
	require.ErrorIs(t, a.Update(ctx), context.Canceled)
}

func TestTwoRunsShareOneDownload(t *testing.T) {
	f, _, p := bulky(t)
	var wg sync.WaitGroup
	for range 8 {
		a := f.updated(t)
		wg.Go(func() {
			if err := a.Fetch(t.Context(), []Package{p, p}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	for _, r := range f.Requests() {
		if r.Path == p.Filename {
			n++
		}
	}
	require.Equal(t, 1, n)
}

func TestADamagedObjectOfTheStoreIsReplaced(t *testing.T) {
	f, a, p := bulky(t)
	require.NoError(t, a.Fetch(t.Context(), []Package{p}))
	require.NoError(t, os.Truncate(f.opts.Store.Path(p.Key()), 10))
	_, err := a.Open(p)
	require.ErrorContains(t, err, "has 10 bytes and not")
	require.NoError(t, a.Fetch(t.Context(), []Package{p}))
	file, err := a.Open(p)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func TestAPackageOfAnUnknownSuiteIsRefused(t *testing.T) {
	_, a, p := bulky(t)
	p.Suite = "forky"
	require.ErrorContains(t, a.Fetch(t.Context(), []Package{p}), `of suite "forky", which was not updated`)
}

func TestPasswordsOfMirrorsAreNotTold(t *testing.T) {
	f := newFixture(t)
	secret := strings.Replace(apttest.New(t).URL, "http://", "http://user:hunter2@", 1)
	f.opts.Mirror = secret
	err := f.archive(t).Update(t.Context())
	require.ErrorContains(t, err, "404")
	require.NotContains(t, err.Error(), "hunter2")
}
