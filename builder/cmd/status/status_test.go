package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

func TestATableSaysWhatRunsAndWhatComes(t *testing.T) {
	const hash = "617fc5cacd632993617fc5cacd632993"
	var answers []reach.Answer[line]
	add := func(name string, c *nodeapi.Configuration, err error) {
		s := nodeapi.Status{Node: name, System: "running", BuildTime: 1_790_000_000, Configuration: c}
		answers = append(answers, reach.Answer[line]{Node: facts.Node{Name: name}, Value: line{status: s}, Err: err})
	}
	add("a", &nodeapi.Configuration{RootHash: hash, ClusterHash: "01"}, nil)
	add("b", &nodeapi.Configuration{RootHash: hash, ClusterHash: "01", Serial: 7, Trial: true}, nil)
	add("c", &nodeapi.Configuration{RootHash: hash, ClusterHash: "01", Serial: 7, Staged: "02", StagedRoot: "0a55cd9632993c5f"}, nil)
	add("d", &nodeapi.Configuration{RootHash: hash, ClusterHash: "01", Staged: "02"}, nil)
	add("e", &nodeapi.Configuration{RootHash: hash, ClusterHash: "01", Staged: "02", Live: true}, nil)
	add("f", &nodeapi.Configuration{RootHash: hash, ClusterHash: "01", Problem: "went back to this configuration: it \x1b[2J hung"}, nil)
	add("g", nil, nil)
	add("i", &nodeapi.Configuration{RootHash: hash, ClusterHash: "01", Loader: "the boot loader stays the one before: x"}, nil)
	add("h", nil, errors.New("no route to host"))
	answers = append(answers, reach.Answer[line]{Node: facts.Node{Name: "i"}, Value: line{status: nodeapi.Status{
		Node: "i", System: "running", Updates: &nodeapi.Updates{At: time.Unix(1_790_000_000, 0), Problem: "no clock"},
	}}})
	watched := func(name string, w nodeapi.Watchdog) {
		s := nodeapi.Status{Node: name, System: "running", Watchdog: &w}
		answers = append(answers, reach.Answer[line]{Node: facts.Node{Name: name}, Value: line{status: s}})
	}
	watched("j", nodeapi.Watchdog{Identity: "iTCO_wdt", Seconds: 60, Held: true})
	watched("k", nodeapi.Watchdog{Identity: "iTCO_wdt\x1b[2J", Seconds: 60})
	watched("l", nodeapi.Watchdog{})
	watched("m", nodeapi.Watchdog{Held: true, HasReset: true})
	told := nodeapi.NoCloud{From: []string{"the volume /dev/sr0 (iso9660)"}, NotTaken: []string{"user-data: runcmd", "user-data: users"}}
	answers = append(answers, reach.Answer[line]{Node: facts.Node{Name: "n"}, Value: line{status: nodeapi.Status{Node: "n", System: "running", NoCloud: &told}}})
	var out strings.Builder
	require.NoError(t, printTable(&out, answers))
	const v = "617fc5cacd63 of 2026-09-21 14:13"
	want := []string{
		"NODE  SYSTEM   VERSION ROLES  ADDRESSES  REMARKS",
		"a     running  " + v + " -      -          -",
		"b     running  " + v + ", update 7 -      -          on trial",
		"c     running  " + v + ", update 7 -      -          starts the root 0a55cd963299 next",
		"d     running  " + v + " -      -          starts another configuration next",
		"e     running  " + v + " -      -          -",
		"f     running  " + v + " -      -          went back to this configuration: it ",
		"g     running  - -      -          -",
		"i     running  " + v + " -      -          the boot loader stays the one before: x",
		"h     -        - -      -          no route to host",
		"i     running  - -      -          looked for updates at 2026-09-21T14:13:20Z: no clock",
		"j     running  - -      -          -",
		"k     running  - -      -          its watchdog iTCO_wdt",
		"l     running  - -      -          its watchdog is not in use",
		"m     running  - -      -          it hung, and its watchdog restarted it",
		"n     running  - -      -          not taken: user-data: runcmd, not taken: user-data: users",
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, len(want))
	for i, text := range lines {
		require.NotContains(t, text, "\x1b", "what a node says does nothing to the terminal")
		require.Contains(t, strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want[i]), " "))
	}
}
