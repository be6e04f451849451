package apt

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/apt/apttest"
	"spore/builder/store"
)

// fixture is a mirror with a few packages and the options of somebody who uses it.
type fixture struct {
	*apttest.Mirror
	opts Options
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	m := apttest.New(t)
	m.Deb(t, "trixie", "base", "1.0", "Essential: yes", "Depends: libone (>= 1.0)")
	m.Deb(t, "trixie", "libone", "1.0")
	m.Deb(t, "trixie-security", "libone", "1.0+deb13u1")
	m.Deb(t, "trixie", "broker", "2.0-1", "Pre-Depends: base", "Depends: libone")
	m.Publish(t)
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	return &fixture{m, Options{
		Store: st, Mirror: m.URL, SecurityMirror: m.URL, Keyring: m.Keyring,
		Now: clock(time.Hour), Retries: -1, Backoff: time.Millisecond,
	}}
}

// clock stands still, some time after the mirror was published.
func clock(after time.Duration) func() time.Time {
	return func() time.Time { return apttest.Time.Add(after) }
}

func (f *fixture) archive(t *testing.T) *Archive {
	t.Helper()
	a, err := New(f.opts)
	require.NoError(t, err)
	return a
}

func (f *fixture) updated(t *testing.T) *Archive {
	t.Helper()
	a := f.archive(t)
	require.NoError(t, a.Update(t.Context()))
	return a
}

func (f *fixture) resolved(t *testing.T, list ...string) (*Archive, []Package) {
	t.Helper()
	a := f.updated(t)
	packages, err := a.Resolve(list)
	require.NoError(t, err)
	return a, packages
}

func versions(packages []Package) map[string]string {
	out := map[string]string{}
	for _, p := range packages {
		out[p.Name] = p.Version
	}
	return out
}

// leftovers lists what a store holds beside whole objects and notes.
func leftovers(t *testing.T, s *store.Store) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(filepath.Join(s.Dir(), "tmp"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, p)
		}
		return err
	}))
	return out
}

func TestPackagesComeFromTheNewestSuiteIntoTheStore(t *testing.T) {
	f := newFixture(t)
	var last Progress
	f.opts.Progress = func(p Progress) { last = p }
	a, packages := f.resolved(t, "broker")
	require.Equal(t, map[string]string{"base": "1.0", "broker": "2.0-1", "libone": "1.0+deb13u1"}, versions(packages))
	require.Equal(t, "trixie-security", packages[2].Suite)
	require.Equal(t, "main", packages[0].Component)
	require.Equal(t, byEssential, packages[0].NeededBy)
	require.Equal(t, byList, packages[1].NeededBy)
	require.Contains(t, packages[1].Paragraph, "Description: made for a test")
	require.Equal(t, apttest.Time, a.Date())
	require.Len(t, a.Suites(), 3)
	require.Empty(t, a.Warnings())

	_, err := a.Open(packages[0])
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, a.Fetch(t.Context(), packages))
	require.Equal(t, 3, last.Files)
	require.Equal(t, 3, last.TotalFiles)
	require.Equal(t, last.Total, last.Done)
	for _, p := range packages {
		file, err := a.Open(p)
		require.NoError(t, err)
		data, err := io.ReadAll(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Equal(t, f.File(p.Filename), data)
	}
	require.Empty(t, leftovers(t, f.opts.Store))
	parts, err := os.ReadDir(f.opts.Store.PartialDir())
	require.NoError(t, err)
	require.Empty(t, parts)

	f.Requests()
	require.NoError(t, a.Fetch(t.Context(), packages))
	require.Empty(t, f.Requests(), "what is in the store is not fetched again")
}

func TestUnchangedIndexesAreNotFetchedAgain(t *testing.T) {
	f := newFixture(t)
	_, first := f.resolved(t, "broker")
	require.Len(t, f.Requests(), 5, "three InRelease files and two indexes that are not empty")

	_, again := f.resolved(t, "broker")
	require.Equal(t, first, again)
	require.Equal(t, 3, len(f.Requests()), "the InRelease files alone")

	f.opts.MaxIndexAge = time.Hour
	_, again = f.resolved(t, "broker")
	require.Equal(t, first, again)
	require.Empty(t, f.Requests(), "the indexes are young enough")

	f.opts.Now = clock(3 * time.Hour)
	f.updated(t)
	require.NotEmpty(t, f.Requests(), "they are too old now")

	f.opts.Now = clock(time.Hour) // a clock that was set back proves nothing about the age
	f.updated(t)
	require.NotEmpty(t, f.Requests())
}

func TestOfflineUsesTheStoreAlone(t *testing.T) {
	f := newFixture(t)
	f.ValidUntil = apttest.Time.Add(24 * time.Hour)
	f.Publish(t)
	f.opts.Offline = true
	require.ErrorContains(t, f.archive(t).Update(t.Context()), "suite trixie-security: the cache has no index of it, and --offline forbids the network")
	require.Empty(t, f.Requests())

	f.opts.Offline = false
	a, packages := f.resolved(t, "broker")
	require.NoError(t, a.Fetch(t.Context(), packages[:1]))
	f.Requests()

	f.opts.Offline = true
	f.opts.Now = clock(30 * 24 * time.Hour)
	a, again := f.resolved(t, "broker")
	require.Equal(t, packages, again)
	require.Contains(t, strings.Join(a.Warnings(), "\n"), "suite trixie: InRelease: it expired on 2028-01-02")
	require.NoError(t, a.Fetch(t.Context(), packages[:1]))
	require.ErrorContains(t, a.Fetch(t.Context(), packages), "package broker 2.0-1 is not in the store")
	require.Empty(t, f.Requests())
}

func TestANewPublicationIsTaken(t *testing.T) {
	f := newFixture(t)
	f.resolved(t, "broker")
	f.Deb(t, "trixie-updates", "broker", "2.0-2")
	f.Date = f.Date.Add(time.Minute)
	f.Publish(t)
	a, packages := f.resolved(t, "broker")
	require.Equal(t, "2.0-2", versions(packages)["broker"])
	require.Equal(t, f.Date, a.Date())
}

// Every way in which a mirror can be wrong before a package is asked for.
func TestAnIndexThatCannotBeTrustedIsRefused(t *testing.T) {
	inRelease := "dists/trixie/InRelease"
	replace := func(old, new string) func(t *testing.T, f *fixture) {
		return func(t *testing.T, f *fixture) {
			data := strings.Replace(string(f.File(inRelease)), old, new, 1)
			require.NotEqual(t, string(f.File(inRelease)), data)
			f.Put(inRelease, []byte(data))
		}
	}
	release := func(old, new string) func(t *testing.T, f *fixture) {
		return func(t *testing.T, f *fixture) {
			f.Release = func(suite, text string) string {
				if suite == "trixie" {
					require.Contains(t, text, old)
					text = strings.Replace(text, old, new, 1)
				}
				return text
			}
			f.Publish(t)
		}
	}
	index := func(change func(data []byte) []byte) func(t *testing.T, f *fixture) {
		return func(t *testing.T, f *fixture) {
			for _, name := range f.Files() {
				if strings.HasPrefix(name, "dists/trixie/main/binary-amd64/by-hash/") {
					f.Put(name, change(f.File(name)))
				}
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f *fixture)
		want  string
	}{
		"no InRelease":                 {func(t *testing.T, f *fixture) { f.Remove(inRelease) }, "the mirror answers 404 Not Found"},
		"an error page":                {func(t *testing.T, f *fixture) { f.Put(inRelease, []byte("<html>please log in</html>")) }, "it is not a clearsigned message"},
		"an empty file":                {func(t *testing.T, f *fixture) { f.Put(inRelease, nil) }, "it is not a clearsigned message"},
		"a changed text":               {replace("Origin: Debian", "Origin: debian"), "the signature does not hold"},
		"a text before the message":    {replace("-----BEGIN PGP SIGNED", "Codename: trixie\n-----BEGIN PGP SIGNED"), "it is not a clearsigned message"},
		"a text after the signature":   {replace("-----END PGP SIGNATURE-----", "-----END PGP SIGNATURE-----\nCodename: trixie"), "text follows the signature"},
		"a second message":             {func(t *testing.T, f *fixture) { f.Put(inRelease, append(f.File(inRelease), f.File(inRelease)...)) }, "text follows the signature"},
		"a message cut short":          {func(t *testing.T, f *fixture) { d := f.File(inRelease); f.Put(inRelease, d[:len(d)-80]) }, "damaged or cut short"},
		"a signature that is damaged":  {replace("-----BEGIN PGP SIGNATURE-----\n\n", "-----BEGIN PGP SIGNATURE-----\n\nAAAA"), "does not hold"},
		"a key that nobody knows":      {func(t *testing.T, f *fixture) { f.Key = apttest.NewKey(t); f.Publish(t) }, "it is not signed by a key of the archive keyring"},
		"the index of another release": {release("Codename: trixie\n", "Codename: forky\n"), `it is the index of "forky" instead of trixie`},
		"the index of another suite": {func(t *testing.T, f *fixture) { f.Put(inRelease, f.File("dists/trixie-security/InRelease")) },
			`it is the index of "trixie-security" instead of trixie`},
		"an expired index": {func(t *testing.T, f *fixture) { f.ValidUntil = apttest.Time.Add(time.Minute); f.Publish(t) },
			"it expired on 2028-01-01 12:01 UTC (this machine's clock says 2028-01-01 13:00 UTC)"},
		"an index from the future": {release("12:00:00 UTC", "14:00:00 UTC"), "its date 2028-01-01 14:00 UTC is 1h0m0s ahead of this machine's clock; set the clock"},
		"a signature from the future": {func(t *testing.T, f *fixture) { f.Date = f.Date.Add(48 * time.Hour); f.Publish(t) },
			"the signature does not hold"},
		"no date":                   {release("Date: ", "Datum: "), "field Date"},
		"a date in a zone":          {release("12:00:00 UTC", "12:00:00 PST"), "is not a date in UTC"},
		"a hash that is none":       {release("SHA256:\n ", "SHA256:\n zz"), "is not a SHA-256"},
		"a path out of the archive": {release(" main/binary-amd64/Packages\n", " ../binary-amd64/Packages\n"), `path "../binary-amd64/Packages" is not allowed`},
		"no such component": {func(t *testing.T, f *fixture) { f.opts.Components = []string{"main", "contrib"} },
			`there is no component "contrib" for amd64; it has main, non-free-firmware for amd64`},
		"a huge index": {func(t *testing.T, f *fixture) {
			f.Release = func(_, text string) string {
				return regexp.MustCompile(`\d+ main/binary-amd64/Packages\n`).ReplaceAllString(text, "99999999999 main/binary-amd64/Packages\n")
			}
			f.Publish(t)
		}, "main/binary-amd64/Packages has 99999999999 bytes, more than an index may have"},
		"an index that unpacks to something else": {func(t *testing.T, f *fixture) {
			f.Release = func(_, text string) string {
				return regexp.MustCompile(`[0-9a-f]{64} (\d+ main/binary-amd64/Packages)\n`).ReplaceAllString(text, strings.Repeat("ab", 32)+" $1\n")
			}
			f.Publish(t)
		}, "its decompressed content is not the file that InRelease lists"},
		"a huge InRelease": {func(t *testing.T, f *fixture) { f.Put(inRelease, make([]byte, maxRelease+1)) }, "more than 16777216 bytes"},
		"an index with another hash": {index(func(d []byte) []byte { d = append([]byte(nil), d...); d[20] ^= 1; return d }),
			"the mirror is damaged or lies; use another mirror"},
		"an index of another size": {index(func(d []byte) []byte { return append(d[:len(d):len(d)], 0) }), "and not "},
		"an index cut short":       {index(func(d []byte) []byte { return d[:len(d)/2] }), "as the index says; use another mirror"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.spoil(t, f)
			err := f.archive(t).Update(t.Context())
			require.ErrorContains(t, err, "suite trixie: ")
			require.ErrorContains(t, err, c.want)
			require.Empty(t, leftovers(t, f.opts.Store))
		})
	}
}

func TestAnOlderInReleaseThanTheOneSeenIsRefused(t *testing.T) {
	f := newFixture(t)
	old := f.File("dists/trixie/InRelease")
	f.Date = f.Date.Add(30 * time.Minute)
	f.Publish(t)
	f.updated(t)
	f.Put("dists/trixie/InRelease", old)
	err := f.archive(t).Update(t.Context())
	require.ErrorContains(t, err, "its date 2028-01-01 12:00 UTC is before the date of an earlier one, 2028-01-01 12:30 UTC")
	require.ErrorContains(t, err, "--offline builds with it")
}

func TestTheMachinesSettingsTurnDateChecksOff(t *testing.T) {
	f := newFixture(t)
	f.ValidUntil = apttest.Time.Add(time.Minute)
	f.Release = func(_, text string) string { return strings.Replace(text, "12:00:00 UTC", "16:00:00 UTC", 1) }
	f.Publish(t)
	f.opts.Root = fstest.MapFS{"etc/apt/apt.conf.d/99off": {Data: []byte("Acquire { Check-Valid-Until \"false\"; };\nAcquire::Check-Date \"no\";\n")}}
	a := f.updated(t)
	text := strings.Join(a.Warnings(), "\n")
	for _, want := range []string{
		"turn Acquire::Check-Valid-Until off: a stale index is not noticed",
		"turn Acquire::Check-Date off",
		"suite trixie: InRelease: it expired on 2028-01-01 12:01 UTC; accepted",
		"suite trixie: InRelease: its date 2028-01-01 16:00 UTC is 3h0m0s ahead of this machine's clock; accepted",
	} {
		require.Contains(t, text, want)
	}
	f.updated(t)
}

func TestAllSuitesThatFailAreNamed(t *testing.T) {
	f := newFixture(t)
	f.Remove("dists/trixie/InRelease")
	f.Remove("dists/trixie-security/InRelease")
	err := f.archive(t).Update(t.Context())
	require.ErrorContains(t, err, "suite trixie: ")
	require.ErrorContains(t, err, "suite trixie-security: ")
}

func TestTheMachinesOwnSourcesAreUsedForTheImagesSuite(t *testing.T) {
	f := newFixture(t)
	other := apttest.New(t) // an archive of somebody else, with a key of their own
	other.Publish(t)
	f.opts.Mirror, f.opts.SecurityMirror = "", ""
	f.opts.Root = fstest.MapFS{
		"etc/apt/sources.list.d/another.list":   {Data: []byte("deb [arch=amd64] " + other.URL + " bookworm main\n")},
		"etc/apt/sources.list.d/debian.sources": {Data: []byte(fmt.Sprintf("Types: deb deb-src\nURIs: %s/\nSuites: bookworm bookworm-updates\nComponents: main\n\nTypes: deb\nURIs: %s\nSuites: bookworm-security\nComponents: main\n", f.URL, f.URL))},
	}
	a, packages := f.resolved(t, "broker")
	require.Len(t, packages, 3)
	for _, s := range a.Suites() {
		require.Equal(t, f.URL, s.URI)
	}

	f.opts.Root = fstest.MapFS{"etc/apt/sources.list": {Data: []byte("deb " + other.URL + " bookworm main\n")}}
	err := f.archive(t).Update(t.Context())
	require.ErrorContains(t, err, "(/etc/apt/sources.list:1): InRelease: it is not signed by a key of the archive keyring")
	require.ErrorContains(t, err, "suite trixie-security: the machine's apt sources have no mirror for it; set securityMirror in image.yaml")
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "internal error")
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	for field, opts := range map[string]Options{
		"mirror":         {Mirror: "ftp://mirror.test/debian"},
		"securityMirror": {SecurityMirror: "mirror.test"},
		"keyring":        {Keyring: []byte("no key")},
	} {
		opts.Store, opts.Now = st, clock(0)
		_, err := New(opts)
		require.ErrorContains(t, err, field)
	}
	a, err := New(Options{Store: st, Now: clock(0)})
	require.NoError(t, err)
	_, err = a.Resolve(nil)
	require.ErrorContains(t, err, "needs Update")
	require.ErrorContains(t, a.Update(t.Context()), "set mirror in image.yaml to a Debian mirror")
}

func TestAProxyOfAptIsUsedBeforeThatOfTheTransport(t *testing.T) {
	proxies := map[string]*apttest.Mirror{"env": apttest.New(t), "apt": apttest.New(t), "host": apttest.New(t)}
	var used atomic.Value
	for name, p := range proxies {
		p.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			used.Store(name + " for " + r.URL.Host)
			http.Error(w, "no", http.StatusForbidden)
			return true
		})
	}
	env, err := url.Parse(proxies["env"].URL)
	require.NoError(t, err)
	f := newFixture(t)
	f.opts.Transport = &http.Transport{Proxy: http.ProxyURL(env)}
	apt := `Acquire::http::Proxy "` + proxies["apt"].URL + `";`
	for _, c := range []struct{ conf, want, fails string }{
		{"", "env for mirror.test", "403 Forbidden"},
		{apt, "apt for mirror.test", "403 Forbidden"},
		{apt + ` Acquire::http::Proxy::mirror.test "` + proxies["host"].URL + `";`, "host for mirror.test", "403 Forbidden"},
		{apt + ` Acquire::http::Proxy::mirror.test "DIRECT";`, "", "mirror.test"},
		{`Acquire::http::Proxy "nonsense";`, "", "is not a URI"},
	} {
		used.Store("")
		f.opts.Root = fstest.MapFS{"etc/apt/apt.conf": {Data: []byte(c.conf)}}
		_, err := f.archive(t).down.small(t.Context(), "http://mirror.test/debian", "x", 10)
		require.ErrorContains(t, err, c.fails, c.conf)
		require.Equal(t, c.want, used.Load(), c.conf)
	}
}
