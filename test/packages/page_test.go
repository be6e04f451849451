package packages

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/packages/compare"
)

func explained(p, why string) Explained {
	return Explained{Difference: compare.Difference{Kind: "missing", Path: p}, Why: why}
}

func TestThePageSumsUpWhatBecameOfThePackages(t *testing.T) {
	r := Run{Date: time.Unix(1800000000, 0), Archive: time.Unix(1799900000, 0), Base: 111, Outcomes: []Outcome{
		{Group: "Databases", Name: "sqlite3", Version: "3.46", Compared: true},
		{Group: "Databases", Name: "redis-server", Version: "5:8", Compared: true, Differences: []Explained{
			explained("/etc/rc3.d/S01redis", "SysV links"), explained("/etc/rc4.d/S01redis", "SysV links"),
			explained("/var/log/redis", "made at boot")}},
		{Group: "Mail", Name: "postfix", Version: "3.10", Err: errors.New("step scripts:\nthe a|b of it")},
		{Group: "Mail", Name: "msmtp", Version: "1.8", Compared: true, Differences: []Explained{explained("/x", ""),
			explained("/y", "made at boot")}},
		{Group: "Mail", Name: "rspamd", Version: "3", Pending: "mmdebstrap failed", Notes: []string{"a", "b"}},
	}}
	text := r.Page()
	for _, line := range []string{
		"| build | 4 of 5 |",
		"| … are the same as Debian's | 1 |",
		"| … differ, and the reason is known | 1 |",
		"| … differ, and the reason is not known | 1 |",
		"| … were not compared | 1 |",
		"| sqlite3 | 3.46 | yes | none |",
		"| redis-server | 5:8 | yes | 3: 1, 2 |",
		`| postfix | 3.10 | no: step scripts: the a\|b of it |  |`,
		"| msmtp | 1.8 | yes | 2: 2; 1 without a reason |",
		"| rspamd | 3 | yes, but somebody has to look: a; b | not compared: mmdebstrap failed |",
		"1. SysV links",
		"2. made at boot",
		"Run of 2027-01-15, archive of 2027-01-14.",
	} {
		require.Contains(t, strings.Split(text, "\n"), line)
	}
	require.Equal(t, 1, strings.Count(text, "## Databases"))
}

func TestThePagesLinesFitIntoATerminal(t *testing.T) {
	r := Run{Outcomes: []Outcome{{Group: "A", Name: "a", Compared: true, Differences: []Explained{explained("/x",
		strings.Repeat("reason of many words ", 30))}}}}
	for _, line := range strings.Split(r.Page(), "\n") {
		if !strings.HasPrefix(line, "|") {
			require.LessOrEqual(t, len([]rune(line)), 120, line)
		}
	}
}

func TestErrorsOfOneKindAreCountedTogether(t *testing.T) {
	list := Kinds([]Outcome{
		{Name: "a", Err: errors.New("step scripts: the postinst of package a calls adduser")},
		{Name: "b", Err: errors.New("step scripts: the postinst of package libb1 calls adduser")},
		{Name: "c", Err: errors.New("c.service runs /usr/bin/kill")},
		{Name: "d"},
	})
	require.Equal(t, []string{
		"  2  step scripts: the postinst of package … calls adduser: a b",
		"  1  c.service runs /…: c",
	}, list)
}

func TestWhatTheListSaysOfFailuresIsHeldToTheRun(t *testing.T) {
	broken := errors.New("it asks")
	require.NoError(t, Outcome{Name: "a"}.Unexpected())
	require.NoError(t, Outcome{Name: "a", Fails: "why", Err: broken}.Unexpected())
	require.EqualError(t, Outcome{Name: "a", Err: broken}.Unexpected(), "a does not build: it asks")
	require.EqualError(t, Outcome{Name: "a", Fails: "why"}.Unexpected(), "a builds, and list.yaml says that it fails: why")
}
