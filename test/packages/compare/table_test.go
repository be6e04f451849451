package compare

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const rows = `# for people
missing /etc/rc?.d/*  SysV links
content /var/lib/x/**  all below
missing /**/__pycache__/**  compiled

[redis-server]
missing /etc/rc3.d/*  for redis alone
[]
mode /a b  two words
`

func TestRowsExplainDifferences(t *testing.T) {
	table, err := ReadTable("file", rows)
	require.NoError(t, err)
	require.Len(t, table, 5)
	for d, want := range map[Difference]string{
		{Kind: "missing", Path: "/etc/rc2.d/S01x"}:                           "SysV links",
		{Kind: "missing", Path: "/etc/rc3.d/S01x", Package: "redis-server"}:  "for redis alone",
		{Kind: "missing", Path: "/etc/rc3.d/S01x", Package: "cron"}:          "SysV links",
		{Kind: "missing", Path: "/etc/rc3.d/a/b"}:                            "",
		{Kind: "extra", Path: "/etc/rc2.d/S01x"}:                             "",
		{Kind: "content", Path: "/var/lib/x"}:                                "all below",
		{Kind: "content", Path: "/var/lib/x/y/z"}:                            "all below",
		{Kind: "missing", Path: "/usr/lib/a/__pycache__/b/c.pyc"}:            "compiled",
		{Kind: "missing", Path: "/__pycache__"}:                              "compiled",
		{Kind: "missing", Path: "/usr/lib/a/x__pycache__"}:                   "",
		{Kind: "content", Path: "/var/lib"}:                                  "",
		{Kind: "missing", Path: "/etc/rc33.d/S01x", Package: "redis-server"}: "",
	} {
		got := ""
		if row := table.Explain(d); row != nil {
			got = row.Why
		}
		require.Equal(t, want, got, "%+v", d)
	}
	require.Len(t, table.Unused(), 1)
	require.Equal(t, `file:9: mode /a b`, table.Unused()[0].String())
}

func TestAllProblemsOfATableComeAtOnce(t *testing.T) {
	_, err := ReadTable("file",
		"gone /x  why\nmissing x  why\nmissing /x\nmissing /[  why\nmode /x  a\nmode /x  b\n[two words]\n[open\n")
	require.Error(t, err)
	for _, want := range []string{
		`file:1: "gone" is not a kind; use one of missing, extra,`,
		`file:2: "x" is not a pattern`,
		"file:3: missing /x has no explanation",
		`file:4: "/[" is not a pattern`,
		"file:6: mode /x is in line 5, too",
		`file:7: "[two words]" does not name a package`,
		`file:8: "[open" does not name a package`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestTheTablesOfTheProjectAreRead(t *testing.T) {
	for _, file := range []string{"../differences", "../../../builder/recipe/testdata/mmdebstrap-differences"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = ReadTable(file, string(text))
		require.NoError(t, err)
	}
}
