package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

// said is an entry of a node at so many seconds.
func said(node string, at int64, message string) line {
	raw := fmt.Appendf(nil, `{"MESSAGE":%q}`, message)
	if at > 0 {
		raw = fmt.Appendf(nil, `{"__REALTIME_TIMESTAMP":"%d","MESSAGE":%q}`, at*1e6, message)
	}
	e, err := nodeapi.ParseEntry(raw)
	if err != nil {
		panic(err)
	}
	return line{node, e, raw}
}

func TestLinesOfNodesAreMergedByTimeAndEachNodesOrderStays(t *testing.T) {
	s, err := newSpool([]ask{{node: "a"}, {node: "b"}, {node: "silent"}})
	require.NoError(t, err)
	for _, l := range []line{said("a", 10, "a1"), said("a", 5, "a2: its clock was set back"), said("a", 0, "a3: without a time"), said("a", 30, "a4")} {
		require.NoError(t, s.files[0].add(l))
	}
	for _, l := range []line{said("b", 7, "b1"), said("b", 10, "b2"), said("b", 11, "b3"), said("b", 40, "b4")} {
		require.NoError(t, s.files[1].add(l))
	}
	var got []string
	require.NoError(t, s.merge(func(l line) error { got = append(got, l.node+" "+l.entry.Message[:2]); return nil }))
	require.Equal(t, []string{"b b1", "a a1", "a a2", "a a3", "b b2", "b b3", "a a4", "b b4"}, got)
	s.close()
	require.NoDirExists(t, s.dir)
}

func TestFollowedLinesWaitForEarlierOnes(t *testing.T) {
	now := time.Unix(1000, 0)
	s := sorter{settle: time.Second}
	s.add(said("a", 100, "second"), now)
	s.add(said("b", 99, "first"), now.Add(500*time.Millisecond))
	s.add(said("b", 90, "third: behind what its node said before"), now.Add(600*time.Millisecond))
	require.Empty(t, s.due(now.Add(900*time.Millisecond)))
	text := func(lines []line) (out []string) {
		for _, l := range lines {
			out = append(out, l.entry.Message)
		}
		return out
	}
	require.Equal(t, []string{"first", "third: behind what its node said before", "second"}, text(s.due(now.Add(time.Second))))
	require.Empty(t, s.rest())

	for i := range maxWaiting + 5 {
		s.add(said("a", int64(200+i), fmt.Sprint(i)), now)
	}
	require.Len(t, s.due(now), 5, "a flood is not kept")
	require.Len(t, s.rest(), maxWaiting)
}

func TestANodeDoesNotSayThatItIsAnother(t *testing.T) {
	data, err := labelled([]byte(`{"MESSAGE":"x","node":"master-01","cluster":"other","_PID":"1"}`), "plant", "edge-01")
	require.NoError(t, err)
	require.Equal(t, `{"MESSAGE":"x","_PID":"1","cluster":"plant","node":"edge-01"}`, string(data))
	var e map[string]string
	require.NoError(t, json.Unmarshal(data, &e))
}

func TestWhichNodesAndUnitsAreMeant(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		err  string
	}{
		"nothing":             {nil, "choose nodes with --all"},
		"a node alone":        {[]string{"edge-01"}, "choose nodes with --all"},
		"all, and a unit":     {[]string{"--all", "configs", "mosquitto"}, "", `"mosquitto" is too much`},
		"all, and some":       {[]string{"--all", "--node", "edge-01"}, "give it without --node and --role"},
		"a unit twice":        {[]string{"edge-01", "mosquitto", "--unit", "coredns"}, "name the unit behind the node"},
		"a bad time":          {[]string{"--all", "--since", "yesterday"}, "--since: "},
		"an end that follows": {[]string{"--all", "--until", "1h", "--follow"}, "give one of them"},
		"a bad expression":    {[]string{"--all", "--grep", "("}, "is not one of RE2"},
		"a bad priority":      {[]string{"--all", "--priority", "9"}, "the priority is"},
		"a bad start":         {[]string{"--all", "--boot", "1"}, "the start is"},
		"too many lines":      {[]string{"--all", "--lines", "10001"}, "choose 0 to 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := Command()
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SilenceUsage = true
			pki := t.TempDir()
			cmd.SetArgs(append(tc.args, "--pki", pki))
			err := cmd.Execute()
			require.ErrorContains(t, err, tc.err)
		})
	}
}

func TestAFileThatIsThereIsNotWrittenOver(t *testing.T) {
	o := options{output: filepath.Join(t.TempDir(), "a.log.zst")}
	require.NoError(t, os.WriteFile(o.output, []byte("mine"), 0o600))
	_, _, err := o.writer(nil)
	require.ErrorContains(t, err, "is there already")
	data, err := os.ReadFile(o.output)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}
