package dep5

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const header = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: x\n\n"

func TestTheLicencesOfACopyrightFile(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"one":                         {"Files: *\nCopyright: A\nLicense: GPL-2+\n text\n", "GPL-2.0-or-later"},
		"two paragraphs":              {"Files: *\nLicense: Expat\n\nFiles: debian/*\nLicense: GPL-3\n", "GPL-3.0-only AND MIT"},
		"the text of one":             {"Files: *\nLicense: Expat\n\nLicense: GPL-3\n the text\n", "MIT"},
		"alternatives":                {"Files: *\nLicense: GPL-2 or Expat\n\nFiles: a\nLicense: ISC\n", "(GPL-2.0-only OR MIT) AND ISC"},
		"and binds tighter than or":   {"Files: *\nLicense: GPL-2+ or Artistic-2.0 and BSD-3-clause\n", "(Artistic-2.0 AND BSD-3-Clause) OR GPL-2.0-or-later"},
		"a comma ends both":           {"Files: *\nLicense: GPL-2+ or Artistic-2.0, and BSD-3-clause\n", "(Artistic-2.0 OR GPL-2.0-or-later) AND BSD-3-Clause"},
		"a comma before or":           {"Files: *\nLicense: GPL-2+ and ISC, or BSD-3-clause\n", "BSD-3-Clause OR (GPL-2.0-or-later AND ISC)"},
		"a known exception":           {"Files: *\nLicense: GPL-3+ with Bison exception\n", "GPL-3.0-or-later WITH Bison-exception-2.2"},
		"an exception of Debian":      {"Files: *\nLicense: GPL-2+ with OpenSSL exception\n", "LicenseRef-debian-GPL-2-or-later-with-OpenSSL-exception"},
		"a name of many texts":        {"Files: *\nLicense: public-domain\n", "LicenseRef-debian-public-domain"},
		"a name of two":               {"Files: *\nLicense: Perl and ISC\n\nFiles: a\nLicense: Perl\n", "(Artistic-1.0-Perl OR GPL-1.0-or-later) AND ISC"},
		"none":                        {"Files: *\nCopyright: A\n", ""},
		"the same twice":              {"Files: *\nLicense: ISC\n\nFiles: b\nLicense: ISC\n", "ISC"},
		"a list that repeats another": {"Files: *\nLicense: ISC and Expat\n\nFiles: b\nLicense: ISC\n", "ISC AND MIT"},
		"choices that stand alone":    {"Files: *\nLicense: ISC or Expat and Zlib\n", "(MIT AND Zlib) OR ISC"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, Expression(header+tc.in)) })
	}
	require.Empty(t, Expression("This package was debianized by A.\n\nLicense: GPL-2+\n"), "free form")
	require.Empty(t, Expression(""))
	require.Equal(t, "MIT", Expression("Format: http://dep.debian.net/deps/dep5\nLicense: Expat\n\nFiles: *\nCopyright: A\n"), "the header speaks of the whole")
}

// The list of licences is the one that the schema of CycloneDX has beside it.
func TestEveryIdentifierOfTheTableIsOneOfSPDX(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema", "spdx.schema.json"))
	require.NoError(t, err)
	var list struct{ Enum []string }
	require.NoError(t, json.Unmarshal(text, &list))
	require.Greater(t, len(list.Enum), 400)
	for name, id := range shortNames {
		require.Equal(t, strings.ToLower(name), name)
		for _, one := range strings.Split(id, " OR ") {
			require.Contains(t, list.Enum, one, name)
		}
	}
	for name, id := range exceptions {
		require.Equal(t, strings.ToLower(name), name)
		require.Contains(t, list.Enum, id, name)
	}
}

func FuzzExpression(f *testing.F) {
	f.Add(header + "Files: *\nLicense: GPL-2+ or Artistic, and BSD-3-clause with x exception\n")
	f.Add("Format: dep5\nLicense: ,,and or , with\n")
	word := regexp.MustCompile(`^(?:[A-Za-z0-9.+-]+|LicenseRef-[A-Za-z0-9.-]+|AND|OR|WITH)$`)
	f.Fuzz(func(t *testing.T, in string) {
		e := Expression(in)
		require.Equal(t, strings.Count(e, "("), strings.Count(e, ")"))
		for _, w := range strings.Fields(strings.NewReplacer("(", " ", ")", " ").Replace(e)) {
			require.Regexp(t, word, w)
		}
	})
}
