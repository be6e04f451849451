package apt

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// entry is a line "name version; Field: value; …" as an entry of an index.
func entry(line string) string {
	parts := strings.Split(line, ";")
	name, v, _ := strings.Cut(parts[0], " ")
	text := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nFilename: pool/%s.deb\nSize: 1\nSHA256: %064d\n", name, v, name, 0)
	for _, p := range parts[1:] {
		text += strings.TrimSpace(p) + "\n"
	}
	return text
}

// world is a universe of lines; each argument is one suite.
func world(t *testing.T, suites ...string) *universe {
	t.Helper()
	var texts []string
	for _, text := range suites {
		var index strings.Builder
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				index.WriteString(entry(line) + "\n")
			}
		}
		texts = append(texts, index.String())
	}
	u, err := universeOf(texts...)
	require.NoError(t, err)
	return u
}

// universeOf is a universe of the texts of indexes.
func universeOf(texts ...string) (*universe, error) {
	var indexes []readable
	for i, text := range texts {
		indexes = append(indexes, readable{[]string{"main", "updates", "security"}[i], "main", func() (string, error) { return text, nil }})
	}
	table, err := newTable(indexes, "amd64")
	if err != nil {
		return nil, err
	}
	return newUniverse("amd64", table, func(name string, at place) (*Package, error) {
		p, err := onlyPackage(name, texts[at.index][at.offset:at.offset+at.length], "amd64")
		if err == nil {
			p.Suite = indexes[at.index].suite
		}
		return p, err
	}), nil
}

func TestAClosureIs(t *testing.T) {
	for name, c := range map[string]struct {
		suites []string
		list   string
		omit   string
		want   string
	}{
		"what depends and what pre-depends": {
			[]string{"aa 1; Pre-Depends: bb; Depends: cc, dd\nbb 1\ncc 1; Depends: dd\ndd 1\nzz 1; Recommends: aa"}, "aa", "", "aa=1 bb=1 cc=1 dd=1"},
		"not what is recommended":     {[]string{"aa 1; Recommends: bb; Suggests: cc\nbb 1\ncc 1"}, "aa", "", "aa=1"},
		"with the essential packages": {[]string{"aa 1\nee 1; Essential: yes; Depends: ff\nff 1"}, "aa", "", "aa=1 ee=1 ff=1"},
		"of a loop":                   {[]string{"aa 1; Depends: bb\nbb 1; Depends: aa"}, "aa", "", "aa=1 bb=1"},
		"of the newest over the suites": {
			[]string{"aa 1:1-1\nbb 2", "aa 1:1-1+deb13u1", "aa 1:1-1+deb13u2~x\nbb 1.9"}, "aa bb", "", "aa=1:1-1+deb13u2~x bb=2"},
		"the first of alternatives":                     {[]string{"aa 1; Depends: bb | cc\nbb 1\ncc 1"}, "aa", "", "aa=1 bb=1"},
		"the alternative that is asked for":             {[]string{"aa 1; Depends: bb | cc\nbb 1\ncc 1"}, "aa cc", "", "aa=1 cc=1"},
		"the alternative that is there":                 {[]string{"aa 1; Depends: bb | cc\ncc 1"}, "aa", "", "aa=1 cc=1"},
		"the alternative of the right version":          {[]string{"aa 1; Depends: bb (>= 2) | cc\nbb 1\ncc 1"}, "aa", "", "aa=1 cc=1"},
		"the alternative needed without a choice later": {[]string{"aa 1; Depends: bb | cc, dd\nbb 1\ncc 1\ndd 1; Depends: cc"}, "aa", "", "aa=1 cc=1 dd=1"},
		"the alternative that clashes with nothing": {
			[]string{"aa 1; Depends: bb | cc, dd\nbb 1\ncc 1\ndd 1; Conflicts: bb"}, "aa", "", "aa=1 cc=1 dd=1"},
		"a package before those that provide it":      {[]string{"aa 1; Depends: vv\nbb 1; Provides: vv; Priority: required\nvv 1"}, "aa", "", "aa=1 vv=1"},
		"the provider of the highest priority":        {[]string{"aa 1; Depends: vv\nbb 1; Provides: vv; Priority: optional\ncc 1; Provides: vv; Priority: required"}, "aa", "", "aa=1 cc=1"},
		"the provider that comes first by name":       {[]string{"aa 1; Depends: vv\ncc 1; Provides: xx, vv\nbb 1; Provides: vv"}, "aa", "", "aa=1 bb=1"},
		"the provider of the right version":           {[]string{"aa 1; Depends: vv (>= 2)\nbb 1; Provides: vv\ncc 1; Provides: vv (= 1)\ndd 1; Provides: vv (= 2.1)"}, "aa", "", "aa=1 dd=1"},
		"the provider that is chosen already":         {[]string{"aa 1; Depends: vv\nbb 1; Provides: vv\ncc 1; Provides: vv"}, "aa cc", "", "aa=1 cc=1"},
		"of qualified relations":                      {[]string{"aa 1; Depends: bb:any, cc:native, dd:amd64\nbb 1\ncc 1\ndd 1"}, "aa", "", "aa=1 bb=1 cc=1 dd=1"},
		"past an alternative of another architecture": {[]string{"aa 1; Depends: bb:arm64 | cc\nbb 1\ncc 1"}, "aa", "", "aa=1 cc=1"},
		"of every operator": {
			[]string{"aa 1; Depends: bb (<< 2), bb (<= 1), bb (= 1), bb (>= 1), bb (>> 0), bb (< 1), bb (> 1)\nbb 1"}, "aa", "", "aa=1 bb=1"},
		"without what is omitted":                   {[]string{"aa 1; Depends: bb (>= 9)\nbb 1; Depends: cc; Provides: dd\ncc 1\nzz 1; Depends: dd"}, "aa zz", "bb", "aa=1 zz=1"},
		"a virtual package that forbids the others": {[]string{"aa 1; Provides: vv; Conflicts: vv; Breaks: vv"}, "aa", "", "aa=1"},
		"one that breaks only older versions":       {[]string{"aa 1; Breaks: bb (<< 1)\nbb 1"}, "aa bb", "", "aa=1 bb=1"},
		"the same for a list with repetitions":      {[]string{"aa 1\nbb 1"}, "bb aa bb", "", "aa=1 bb=1"},
	} {
		t.Run(name, func(t *testing.T) {
			packages, err := world(t, c.suites...).resolve(strings.Fields(c.list), strings.Fields(c.omit), nil)
			require.NoError(t, err)
			var got []string
			for _, p := range packages {
				got = append(got, p.Name+"="+p.Version)
			}
			require.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

func TestAListThatCannotBeResolved(t *testing.T) {
	for name, c := range map[string]struct{ world, list, omit, want string }{
		"a misspelt package": {"mosquitto 2\nmosquitto-clients 2", "mosquito", "", "the package list names mosquito, which does not exist; did you mean mosquitto?"},
		"nothing like it":    {"aa 1", "zzzzzz", "", "the package list names zzzzzz, which does not exist"},
		"no name at all":     {"aa 1", "Ä=1", "", `the package list names "Ä=1", which is not a package name`},
		"a virtual package":  {"bb 1; Provides: v1\ncc 1; Provides: v1", "v1", "", "names v1, which several packages can provide; name one of them: bb, cc"},
		"a missing dependency": {"aa 1; Depends: bb\nbb 2; Depends: liibc6 (>= 2)\nlibc6 1", "aa", "",
			"bb 2 (needed by aa, needed by the package list) needs liibc6 (>= 2), but liibc6 does not exist; did you mean libc6?"},
		"a version that is not there": {"aa 1; Pre-Depends: bb (>= 3) | cc (= 1)\nbb 2\ncc 1.0.1", "aa", "",
			"aa 1 (needed by the package list) needs bb (>= 3) | cc (= 1), but the newest bb is 2 (main), and the newest cc is 1.0.1 (main)"},
		"a provider without a version":      {"aa 1; Depends: v1 (>= 1)\nbb 1; Provides: v1", "aa", "", "v1 is only provided by others without that version"},
		"another architecture":              {"aa 1; Depends: bb:arm64\nbb 1", "aa", "", "bb:arm64 is of another architecture than amd64"},
		"an essential package's dependency": {"ee 1; Essential: yes; Depends: gone", "", "", "ee 1 (essential) needs gone"},
		"a conflict": {"aa 1; Depends: bb\nbb 1; Conflicts: cc\ncc 1", "aa cc", "",
			"bb 1 (needed by aa, needed by the package list) conflicts with cc, which is cc 1 (needed by the package list)"},
		"a break":                              {"aa 1; Breaks: bb (<< 2)\nbb 1", "aa bb", "", "aa 1 (needed by the package list) breaks bb (<< 2), which is bb 1"},
		"a conflict with something provided":   {"aa 1; Conflicts: v1\nbb 1; Provides: v1", "aa bb", "", "conflicts with v1, which is bb 1"},
		"a relation that is damaged":           {"aa 1; Depends: bb (>> )\nbb 1", "aa", "", `package aa 1: field Depends: "bb (>> )" is not a relation`},
		"a conflict that is damaged":           {"aa 1; Conflicts: b b", "aa", "", `"b b" is not a relation`},
		"an omitted package that is not there": {"aa 1", "aa", "bb", "the list of omitted packages names bb, which does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := world(t, c.world).resolve(strings.Fields(c.list), strings.Fields(c.omit), nil)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := world(t, "aa 1; Depends: bb").resolve([]string{"aa", "cc", "dd"}, nil, nil)
	require.Len(t, strings.Split(err.Error(), "\n"), 3, "all problems at once: %v", err)
}

func TestAProvidesFieldThatIsDamagedIsAnError(t *testing.T) {
	for _, field := range []string{"v1 (>= 1)", "aa | bb", "V"} {
		_, err := universeOf(entry("aa 1; Provides: " + field))
		require.ErrorContains(t, err, "field Provides", field)
	}
}

func TestAnIndexThatIsDamagedIsRefused(t *testing.T) {
	good := entry("aa 1")
	for old, c := range map[string]struct{ new, want string }{
		"Package: aa":         {"Package: ../x", "is not a package name"},
		"Version: 1":          {"Version: -", "version"},
		"pool/aa.deb":         {"../aa.deb", `file name "../aa.deb" is not allowed`},
		"Size: 1":             {"Size: -1", "is not a number of bytes"},
		"SHA256: 0":           {"SHA256: x", "is not a SHA-256"},
		"Architecture: amd64": {"Package: a", "field Package occurs twice"},
	} {
		err := ParseIndex("\n"+strings.Replace(good, old, c.new, 1), "amd64", func(*Package, int) error { return nil })
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "line ")
	}
	for _, path := range []string{"/abs", "a/../b", "a//b", "a/", ".", "a\\b", "a?b", "a#b", "a\x01b", strings.Repeat("a", 1025)} {
		require.False(t, cleanRelative(path), path)
	}
	require.NoError(t, ParseIndex(strings.Replace(good, "amd64", "arm64", 1), "amd64", func(*Package, int) error { return fmt.Errorf("not ours") }))
}

func TestAClosureDoesWithoutWhatIsCut(t *testing.T) {
	cut := map[string][]string{"aa": {"bb", "cc"}}
	for name, c := range map[string]struct{ world, list, want string }{
		"a dependency":                  {"aa 1; Depends: bb, dd\nbb 1; Depends: ee\ndd 1\nee 1", "aa", "aa=1 dd=1"},
		"all of its alternatives":       {"aa 1; Depends: dd | cc\ncc 1\ndd 1", "aa", "aa=1"},
		"not where another one asks":    {"aa 1; Depends: bb\nbb 1\ndd 1; Depends: bb", "aa dd", "aa=1 bb=1 dd=1"},
		"not where the list asks":       {"aa 1; Depends: bb\nbb 1", "aa bb", "aa=1 bb=1"},
		"not in what is no part of it":  {"aa 1; Depends: dd\ndd 1; Depends: bb\nbb 1", "aa", "aa=1 bb=1 dd=1"},
		"even where it does not exist":  {"aa 1; Depends: bb (>= 9)", "aa", "aa=1"},
		"and what it pre-depends on is": {"aa 1; Pre-Depends: cc\ncc 1", "aa", "aa=1"},
	} {
		t.Run(name, func(t *testing.T) {
			packages, err := world(t, c.world).resolve(strings.Fields(c.list), nil, cut)
			require.NoError(t, err)
			var got []string
			for _, p := range packages {
				got = append(got, p.Name+"="+p.Version)
			}
			require.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

func TestAClashNamesThePackagesOfTheListThatBroughtIt(t *testing.T) {
	_, err := world(t, "aa 1; Depends: bb\nbb 1; Conflicts: cc\ncc 1\nee 1; Essential: yes; Breaks: cc").resolve([]string{"aa", "cc"}, nil, nil)
	var named [][2]string
	for _, c := range Clashes(fmt.Errorf("resolve: %w", err)) {
		named = append(named, c.Named)
	}
	require.Equal(t, [][2]string{{"aa", "cc"}, {"", "cc"}}, named)
	require.Empty(t, Clashes(errors.New("other")))
	require.Empty(t, Clashes(nil))
}
