package apt

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/apt/apttest"
)

// An index: whatever comes out of it can be asked for and named.
func FuzzIndex(f *testing.F) {
	for _, s := range []string{"", entry("aa 1; Depends: b | c (>= 1), d:any; Provides: e (= 2)"), entry("aa 1") + "\n" + entry("bb 2"), "Package: a\n x\n", "# c\n\n\n", "Package aa"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := ParseIndex(text, "amd64", func(p *Package, offset int) error {
			require.True(t, strings.HasPrefix(text[offset:], p.Paragraph))
			require.NotEmpty(t, p.Name)
			require.Positive(t, p.Size)
			require.False(t, strings.HasPrefix(p.Filename, "/"))
			require.NotContains(t, strings.Split(p.Filename, "/"), "..")
			require.Equal(t, p.SHA256, p.Key().String())
			return nil
		})
		u, errU := universeOf(text)
		if errU != nil {
			return
		}
		require.NoError(t, err)
		all := slices.Collect(u.table.names())
		for _, name := range all {
			p := u.named(name)
			require.NoError(t, u.err)
			require.Equal(t, name, p.Name)
		}
		a, errA := u.resolve(all, nil, nil)
		b, errB := u.resolve(all, nil, nil)
		require.Equal(t, a, b)
		require.Equal(t, errA == nil, errB == nil)
	})
}

// A relation field: what is understood is written back as a field that means the same.
func FuzzRelations(f *testing.F) {
	for _, s := range []string{"", "a1", "a1 (>= 1:2-3~4) | b2:any , c3 (<< 1)", "aa (= 1", "aa:", "aa (~ 1)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		groups, err := parseRelations(text)
		if err != nil {
			return
		}
		var parts []string
		for _, g := range groups {
			parts = append(parts, g.String())
		}
		again, err := parseRelations(strings.Join(parts, ", "))
		require.NoError(t, err)
		require.Equal(t, groups, again)
	})
}

// The sources of a machine, in both forms.
func FuzzSources(f *testing.F) {
	for _, s := range []string{
		"deb http://mirror.test/debian bookworm main\n", "deb [arch=amd64 trusted=yes] https://mirror.test bookworm main # x",
		"Types: deb\nURIs: http://mirror.test/debian mirror+file:/etc/apt/sources.list\nSuites: bookworm\n", "deb cdrom:[x]/ y z", "deb [", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		root := fstest.MapFS{"etc/apt/sources.list": {Data: []byte(text)}, "etc/apt/sources.list.d/x.sources": {Data: []byte(text)}}
		sources, _, err := ReadSources(root, "amd64")
		if err != nil {
			return
		}
		for _, s := range sources {
			base, err := parseBase(s.URI)
			require.NoError(t, err)
			require.Equal(t, s.URI, base)
			require.NotEmpty(t, s.Suites)
		}
	})
}

// The settings of a machine.
func FuzzConf(f *testing.F) {
	for _, s := range []string{`A::B "c";`, `A { B "c"; };`, "// x\n/* y */ #clear A;", `"`, "{", "}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := Conf{}
		if c.parse(text) == nil {
			c.Off("a")
		}
	})
}

// An InRelease file: only what a signature covers comes out.
func FuzzInRelease(f *testing.F) {
	key := apttest.NewKey(f)
	keys, err := ReadKeyring(apttest.PublicKey(f, key))
	require.NoError(f, err)
	texts := []string{
		"Origin: Debian\nCodename: trixie\nDate: Sat, 01 Jan 2028 12:00:00 UTC\nSHA256:\n " + strings.Repeat("0", 64) + " 1 main/binary-amd64/Packages\n",
		"- dash\nFrom x\n\ntrailing  \t\n",
	}
	signed := map[string]bool{}
	for _, text := range texts {
		data := apttest.Sign(f, key, text, apttest.Time)
		f.Add(data)
		got, err := Verify(data, keys, apttest.Time)
		require.NoError(f, err)
		signed[got] = true
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := Verify(data, keys, apttest.Time.Add(time.Hour))
		if err != nil {
			return
		}
		require.True(t, signed[text], "%q was never signed", text)
		_, _ = ParseRelease(text)
	})
}

// A release file that was verified is still data from outside.
func FuzzRelease(f *testing.F) {
	f.Add("Codename: trixie\nDate: Sat, 01 Jan 2028 12:00:00 UTC\nValid-Until: Sat, 08 Jan 2028 12:00:00 UTC\nSHA256:\n " + strings.Repeat("0", 64) + " 1 main/binary-amd64/Packages\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRelease(text)
		if err != nil {
			return
		}
		for path := range r.Files {
			require.True(t, cleanRelative(path))
		}
		o := Options{}.withDefaults()
		require.NotEmpty(t, r.wanted(&o))
		_, _ = r.check("trixie", apttest.Time, false, true)
	})
}
