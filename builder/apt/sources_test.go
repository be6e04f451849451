package apt

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func machine(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func TestSourcesOfAMachineAreRead(t *testing.T) {
	const list, sources = "etc/apt/sources.list", "etc/apt/sources.list.d/debian.sources"
	for name, c := range map[string]struct {
		files    map[string]string
		want     []Source
		warnings []string
	}{
		"none": {},
		"one line": {
			files: map[string]string{list: "# a comment\n\ndeb http://mirror.test/debian/ bookworm main contrib # end\ndeb-src http://mirror.test/debian bookworm main\n"},
			want:  []Source{{URI: "http://mirror.test/debian", Suites: []string{"bookworm"}, Where: "/" + list + ":3"}},
		},
		"one line with options": {
			files: map[string]string{list: "deb [ arch=amd64,arm64 signed-by=/k.gpg check-valid-until=no Check-Date=false ] https://mirror.test/debian-security bookworm-security main"},
			want: []Source{{URI: "https://mirror.test/debian-security", Suites: []string{"bookworm-security"}, Architectures: []string{"amd64", "arm64"},
				NoValidUntil: true, NoDate: true, Where: "/" + list + ":1"}},
		},
		"another architecture": {files: map[string]string{list: "deb [arch=arm64] http://mirror.test/debian bookworm main\n"}},
		"an installer's cdrom": {files: map[string]string{list: "deb cdrom:[Debian GNU/Linux 12 _Bookworm_ - Official amd64 NETINST with firmware]/ bookworm main\n"}},
		"the architecture in the address": {
			files: map[string]string{list: "deb http://mirror.test/$(ARCH)/debian bookworm main\n"},
			want:  []Source{{URI: "http://mirror.test/amd64/debian", Suites: []string{"bookworm"}, Where: "/" + list + ":1"}},
		},
		"deb822": {
			files: map[string]string{sources: "# first\nTypes: deb deb-src\n# between\nURIs: http://mirror.test/debian\n  http://other.test/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n xyz\n\nTypes: deb-src\nURIs: http://src.test/debian\nSuites: bookworm\n\nEnabled: no\nTypes: deb\nURIs: http://off.test/debian\nSuites: bookworm\n"},
			want: []Source{
				{URI: "http://mirror.test/debian", Suites: []string{"bookworm", "bookworm-updates"}, Where: "/" + sources + ":2"},
				{URI: "http://other.test/debian", Suites: []string{"bookworm", "bookworm-updates"}, Where: "/" + sources + ":2"},
			},
		},
		"deb822 without what it needs": {
			files:    map[string]string{sources: "Types: deb\nSuites: bookworm\n"},
			warnings: []string{"/" + sources + ":1: ignored: a source has the fields URIs and Suites"},
		},
		"deb822 that is damaged": {
			files:    map[string]string{sources: "Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\n\nnonsense\n"},
			want:     []Source{{URI: "http://mirror.test/debian", Suites: []string{"bookworm"}, Where: "/" + sources + ":1"}},
			warnings: []string{"/" + sources + ": the rest is ignored: line 5: not a field"},
		},
		"a list of mirrors": {
			files: map[string]string{
				sources:                  "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/m.list\nSuites: bookworm\n",
				"etc/apt/mirrors/m.list": "# mine\nhttp://mirror.test/debian\tpriority:1\nmirror+file:/etc/apt/mirrors/m.list\n",
			},
			want: []Source{{URI: "http://mirror.test/debian", Suites: []string{"bookworm"}, Where: "/" + sources + ":1"}},
		},
		"a list of mirrors that is not there": {
			files:    map[string]string{list: "deb mirror+file:/../../etc/none bookworm main\n"},
			warnings: []string{"/" + list + ":1: ignored: mirror list: "},
		},
		"lines that are not understood": {
			files: map[string]string{list: "debian http://mirror.test bookworm\ndeb http://mirror.test\ndeb [arch=amd64 http://mirror.test bookworm main\ndeb ftp://mirror.test/debian bookworm main\ndeb http:///debian bookworm main\ndeb http://a:b@mirror.test/?q bookworm main\ndeb http://%zz/ bookworm main"},
			warnings: []string{
				":1: ignored: a line begins with deb or deb-src", ":2: ignored: a source has a URI and a suite", ":3: ignored: the options are not closed",
				":4: ignored: \"ftp://mirror.test/debian\": only http and https", ":5: ignored: \"http:///debian\" is not the address",
				":6: ignored: \"http://a:xxxxx@mirror.test/?q\" is not the address", ":7: ignored: \"http://%zz/\" is not a URI",
			},
		},
		"files that apt does not read": {
			files: map[string]string{
				"etc/apt/sources.list.d/x.list.disabled": "deb http://mirror.test/debian bookworm main\n",
				"etc/apt/sources.list.d/x y.list":        "deb http://mirror.test/debian bookworm main\n",
				"etc/apt/sources.list.d/x.list/y":        "a directory of that name",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := ReadSources(machine(c.files), "amd64")
			require.NoError(t, err)
			for i := range got {
				if len(got[i].Architectures) == 0 {
					got[i].Architectures = nil
				}
			}
			require.Equal(t, c.want, got)
			require.Len(t, warnings, len(c.warnings), "%q", warnings)
			for i, w := range c.warnings {
				require.Contains(t, warnings[i], w)
			}
		})
	}
}

func TestAHugeSourcesFileIsRefused(t *testing.T) {
	_, _, err := ReadSources(machine(map[string]string{"etc/apt/sources.list": strings.Repeat("#", maxConf+1)}), "amd64")
	require.ErrorContains(t, err, "more than 1048576 bytes")
}

func TestSettingsOfAptAreRead(t *testing.T) {
	for text, want := range map[string]Conf{
		``:                                           {},
		`A::B "c";`:                                  {"a::b": "c"},
		`A { B "c"; D { E "f"; }; }; G "h";`:         {"a::b": "c", "a::d::e": "f", "g": "h"},
		"// x\n# y\n/* z\n */ A \"b\"; // c":         {"a": "b"},
		`A "http://mirror.test//x;{}#";`:             {"a": "http://mirror.test//x;{}#"},
		`A bare;`:                                    {"a": "bare"},
		`A "1"; A "2";`:                              {"a": "2"},
		`A::B "1"; A::C "2"; #clear A::B;`:           {"a::c": "2"},
		`A::B "1"; A::BC "2"; #clear A;`:             {},
		`#include "/etc/x";`:                         {},
		`A { "x"; "y"; }; B "c";`:                    {"b": "c"},
		`DPkg::Post-Invoke { "rm -f /x || true"; };`: {},
		`#clear`:                                     {},
	} {
		got := Conf{}
		require.NoError(t, got.parse(text), text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		`A "b`:                    "the quote is not closed",
		`/* x`:                    "the comment is not closed",
		`A { B "c";`:              "a block is not closed",
		"A \"b\";\n}":             "line 2: a closing brace without an opening one",
		strings.Repeat("A {", 65): "nested more than 64 deep",
	} {
		require.ErrorContains(t, Conf{}.parse(text), want, text)
	}
}

func TestSettingsComeInAptsOrder(t *testing.T) {
	c, err := ReadConf(machine(map[string]string{
		"etc/apt/apt.conf.d/10a":          `A "1"; B "1"; C "no";`,
		"etc/apt/apt.conf.d/20b.conf":     `A "2"; B "2";`,
		"etc/apt/apt.conf.d/30c.disabled": `A "3";`,
		"etc/apt/apt.conf":                `A "4";`,
	}))
	require.NoError(t, err)
	require.Equal(t, Conf{"a": "4", "b": "2", "c": "no"}, c)
	require.True(t, c.Off("C"))
	require.False(t, c.Off("A"))
	require.False(t, c.Off("missing"))
	_, err = ReadConf(machine(map[string]string{"etc/apt/apt.conf": "}"}))
	require.ErrorContains(t, err, "/etc/apt/apt.conf: line 1: ")
}
