package lock

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sum is a SHA-256 of one digit.
func sum(digit string) string { return strings.Repeat(digit, 64) }

func pkg(name, version, digit string) Package {
	return Package{
		Name: name, Version: version, Arch: "amd64", Suite: "trixie", Component: "main",
		Path: "pool/main/" + name + "_" + version + ".deb", Size: 10, SHA256: sum(digit),
	}
}

// example is a lock with an item of each kind.
func example() *Lock {
	return &Lock{
		Format: Format, Suite: "trixie", Components: []string{"main"}, BuildTime: 1830340800, Kernel: "6.12.1-amd64",
		Spore: Tool{"0.1.0", sum("1")}, Source: []File{{"overlay", sum("2")}, {"units", sum("3")}},
		Indexes:   []Index{{"trixie", time.Date(2028, 1, 1, 12, 0, 0, 0, time.UTC), sum("4"), []File{{"main/binary-amd64/Packages", sum("c")}}}},
		Requested: []string{"curl"},
		Packages:  []Package{pkg("curl", "8.14.1-1", "5"), pkg("libc6", "2.41-12", "6")},
		Media:     []Package{pkg("ipxe", "1.21", "7")},
		Programs: []Program{
			{Name: "coredns", Version: "v1.12.0", Toolchain: "go1.26.8", Inputs: sum("8"), Path: "/usr/bin/coredns", Links: []string{"/usr/bin/dns"}, Mode: "0755"},
			{Name: "kafka/a.jar", Version: "1.0", SHA256: sum("9"), Path: "/usr/share/kafka/a.jar", Mode: "0644"},
		},
		Images: []Image{{Name: "images/app.tar", SHA256: sum("a")}, {Name: "registry.example/app:1@sha256:" + sum("b")}},
	}
}

func encoded(t *testing.T, l *Lock) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, l.Encode(&b))
	return b.String()
}

func TestALockIsReadAsItWasWritten(t *testing.T) {
	text := encoded(t, example())
	l, err := Parse([]byte(text))
	require.NoError(t, err)
	require.Equal(t, example(), l)
	require.Equal(t, text, encoded(t, l))
}

func TestEachItemIsOneLine(t *testing.T) {
	l := example()
	// A long line is one line, and a version that looks like a number stays a text.
	l.Packages[0].Path = "pool/" + strings.Repeat("a long name ", 60) + ".deb"
	l.Packages[1].Version = "1.10"
	text := encoded(t, l)
	require.Equal(t, 6, strings.Count(text, "\n  - {name: ")-3, text)
	for line := range strings.Lines(text) {
		require.Regexp(t, `^(#.*|[A-Za-z0-9]+:( .*)?|  - .*)\n$`, line)
	}
	again, err := Parse([]byte(text))
	require.NoError(t, err)
	require.Equal(t, l, again)
}

func TestSortBringsEveryListIntoOrder(t *testing.T) {
	l := example()
	l.Packages[0], l.Packages[1] = l.Packages[1], l.Packages[0]
	l.Programs[0], l.Programs[1] = l.Programs[1], l.Programs[0]
	l.Source[0], l.Source[1] = l.Source[1], l.Source[0]
	l.Images[0], l.Images[1] = l.Images[1], l.Images[0]
	l.Requested = []string{"curl", "curl"}
	l.Sort()
	require.Equal(t, example(), l)

	l.Packages[0], l.Packages[1] = l.Packages[1], l.Packages[0]
	again, err := Parse([]byte(encoded(t, l)))
	require.NoError(t, err)
	require.Equal(t, example(), again, "one that was merged by hand too")
}

func TestALockThatCannotBeTrustedIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Lock)
		err    string
	}{
		"another format":      {func(l *Lock) { l.Format = 2 }, "it has format 2, and this spore reads format 1"},
		"no suite":            {func(l *Lock) { l.Suite = "" }, "is not the name of a release"},
		"a suite that climbs": {func(l *Lock) { l.Suite = "../trixie" }, "is not the name of a release"},
		"no time":             {func(l *Lock) { l.BuildTime = 0 }, "buildTime 0"},
		"a time too late":     {func(l *Lock) { l.BuildTime = 1 << 32 }, "buildTime 4294967296"},
		"a path that climbs":  {func(l *Lock) { l.Packages[0].Path = "pool/../../x" }, `package curl: path "pool/../../x" is not allowed`},
		"an absolute path":    {func(l *Lock) { l.Media[0].Path = "/pool/x" }, `media package ipxe: path "/pool/x" is not allowed`},
		"a path with a query": {func(l *Lock) { l.Packages[0].Path = "pool/x?y" }, "is not allowed"},
		"a short hash":        {func(l *Lock) { l.Packages[0].SHA256 = "12" }, "is not a SHA-256"},
		"no size":             {func(l *Lock) { l.Packages[0].Size = 0 }, "size 0"},
		"a bad name":          {func(l *Lock) { l.Packages[0].Name = "a b" }, "not the name of a package"},
		"a bad version":       {func(l *Lock) { l.Packages[0].Version = "a b" }, `package curl: `},
		"two of a name":       {func(l *Lock) { l.Packages[1] = l.Packages[0] }, "package curl appears twice"},
		"no name":             {func(l *Lock) { l.Programs[0].Name = "" }, `program: "" is not a name`},
		"a name of two lines": {func(l *Lock) { l.Images[0].Name = "a\nb" }, "is not a name"},
		"two kinds of hash":   {func(l *Lock) { l.Programs[0].SHA256 = sum("1") }, "program coredns: it has either inputs or sha256"},
		"no hash of spore":    {func(l *Lock) { l.Spore.SHA256 = "" }, "spore: "},
		"no hash of an index": {func(l *Lock) { l.Indexes[0].SHA256 = "" }, "index trixie: "},
		"a bad request":       {func(l *Lock) { l.Requested[0] = "a b" }, "requested package a b: "},
	} {
		t.Run(name, func(t *testing.T) {
			l := example()
			c.change(l)
			_, err := Parse([]byte(encoded(t, l)))
			require.ErrorContains(t, err, c.err)
		})
	}
	for text, want := range map[string]string{
		"":                                  "it is empty",
		header:                              "it is empty",
		"format: [":                         "did not find",
		"formats: 1":                        "field formats not found",
		"format: 1\n---\nformat: 1":         "more than one document",
		strings.Repeat("#", maxSize) + "\n": "more than 16777216 bytes",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

func TestALockIsWrittenWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, Name)
	_, err := Read(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "spore lock makes it")

	require.NoError(t, example().Write(name))
	l, err := Read(name)
	require.NoError(t, err)
	require.Equal(t, example(), l)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	require.NoError(t, os.WriteFile(name, []byte("format: 1\n<<<<<<< ours\n"), 0o644))
	_, err = Read(name)
	require.ErrorContains(t, err, name)
	require.ErrorContains(t, err, "restore it, or remove it and run spore lock")
	require.Error(t, example().Write(filepath.Join(dir, "none", Name)))
}

func TestDiffNamesWhatChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Lock)
		want   []string
	}{
		"nothing":               {func(*Lock) {}, nil},
		"a newer package":       {func(l *Lock) { l.Packages[0] = pkg("curl", "8.14.1-2", "c") }, []string{"~ package curl 8.14.1-1 -> 8.14.1-2"}},
		"other bytes":           {func(l *Lock) { l.Packages[0].SHA256 = sum("c") }, []string{"~ package curl 8.14.1-1 sha256:555555555555 -> 8.14.1-1 sha256:cccccccccccc"}},
		"a package more":        {func(l *Lock) { l.Packages = append(l.Packages, pkg("zstd", "1.5", "c")) }, []string{"+ package zstd 1.5"}},
		"a package less":        {func(l *Lock) { l.Packages = l.Packages[1:] }, []string{"- package curl 8.14.1-1"}},
		"another request":       {func(l *Lock) { l.Requested = []string{"wget"} }, []string{"- requested package curl", "+ requested package wget"}},
		"a package of media":    {func(l *Lock) { l.Media[0].Version = "1.22" }, []string{"~ media package ipxe 1.21 -> 1.22"}},
		"a newer program":       {func(l *Lock) { l.Programs[0].Version = "v1.13.0" }, []string{"~ program coredns v1.12.0 (go1.26.8) -> v1.13.0 (go1.26.8)"}},
		"another toolchain":     {func(l *Lock) { l.Programs[0].Toolchain = "go1.26.9" }, []string{"~ program coredns v1.12.0 (go1.26.8) -> v1.12.0 (go1.26.9)"}},
		"other pins":            {func(l *Lock) { l.Programs[0].Inputs = sum("c") }, []string{"~ program coredns v1.12.0 (go1.26.8) sha256:888888888888 -> v1.12.0 (go1.26.8) sha256:cccccccccccc"}},
		"another path":          {func(l *Lock) { l.Programs[0].Path = "/usr/sbin/coredns" }, []string{"~ program coredns 0755 /usr/bin/coredns /usr/bin/dns -> 0755 /usr/sbin/coredns /usr/bin/dns"}},
		"another jar":           {func(l *Lock) { l.Programs[1].SHA256 = sum("c") }, []string{"~ program kafka/a.jar 1.0 sha256:999999999999 -> 1.0 sha256:cccccccccccc"}},
		"another archive":       {func(l *Lock) { l.Images[0].SHA256 = sum("c") }, []string{"~ container image images/app.tar sha256:aaaaaaaaaaaa -> sha256:cccccccccccc"}},
		"an image less":         {func(l *Lock) { l.Images = l.Images[:1] }, []string{"- container image registry.example/app:1@sha256:" + sum("b")}},
		"our own files":         {func(l *Lock) { l.Source[1].SHA256 = sum("c") }, []string{"~ source units sha256:333333333333 -> sha256:cccccccccccc"}},
		"another spore":         {func(l *Lock) { l.Spore = Tool{"0.2.0", sum("c")} }, []string{"~ spore 0.1.0 -> 0.2.0"}},
		"another release":       {func(l *Lock) { l.Suite = "forky" }, []string{"~ suite trixie -> forky"}},
		"a component more":      {func(l *Lock) { l.Components = append(l.Components, "non-free-firmware") }, []string{"~ components main -> main,non-free-firmware"}},
		"another kernel":        {func(l *Lock) { l.Kernel = "6.12.2-amd64" }, []string{"~ kernel 6.12.1-amd64 -> 6.12.2-amd64"}},
		"an index and its time": {func(l *Lock) { l.Indexes[0].Date, l.BuildTime = l.Indexes[0].Date.Add(time.Hour), l.BuildTime+3600 }, []string{"~ build time 2028-01-01T12:00:00Z -> 2028-01-01T13:00:00Z", "~ index trixie 2028-01-01T12:00:00Z -> 2028-01-01T13:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			after := example()
			c.change(after)
			var got, back []string
			changes := Diff(example(), after)
			for _, change := range changes {
				got = append(got, change.String())
			}
			require.Equal(t, c.want, got)
			require.Equal(t, name == "nothing" || name == "an index and its time", OnlyDates(changes))
			for _, change := range Diff(after, example()) {
				back = append(back, change.String())
			}
			require.Len(t, back, len(got), "the way back has as many changes")
		})
	}
}

// Whatever is read can be written, and is then read as the same; its paths stay below the archive.
func FuzzParse(f *testing.F) {
	var b bytes.Buffer
	if err := example().Encode(&b); err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{b.String(), "", "format: 1", "format: 1\nsuite: trixie\nbuildTime: 1\n", "a: &a [*a]", "packages: [{name: a}]", "indexes: [{date: 2028-01-01}]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Parse(data)
		if err != nil {
			return
		}
		for _, p := range append(append([]Package{}, l.Packages...), l.Media...) {
			require.True(t, fs.ValidPath(p.Path))
		}
		var out bytes.Buffer
		require.NoError(t, l.Encode(&out))
		again, err := Parse(out.Bytes())
		require.NoError(t, err, "%s", out.String())
		require.Empty(t, Diff(l, again))
	})
}
