package ceph

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// do carries out a verb on a node with a monitor. ceph answers each batch with what status is, one JSON value a line.
func do(t *testing.T, answer map[string]string, verb func(Ceph) verbs.Handler, o nodeapi.Order) ([]nodeapi.Event, string, []string, error) {
	t.Helper()
	p := &verbstest.Programs{Answer: answer}
	c := &facts.Cluster{Members: map[string][]string{role: {"mon-1"}}}
	n := &facts.Node{Name: "mon-1", Roles: []string{role}}
	m := node.New("test", paths.Root(t.TempDir()))
	quick := Ceph{Run: p.Run, every: time.Millisecond, patience: 300 * time.Millisecond, manager: 3 * time.Second}
	events, done, err := verbstest.Do(t, m, c, n, verb(quick), o)
	return events, done, p.Called, err
}

func order(osd string) nodeapi.Order { return nodeapi.Order{Arguments: map[string]string{"osd": osd}} }

const (
	// batch is how commands come that are answered in JSON.
	batch = "--format json"
	dump  = `echo '{"osds":[{"osd":0,"up":1,"in":1},{"osd":3,"up":0,"in":1}]}'`
)

func TestOnlyAnOSDThatIsLostIsForgotten(t *testing.T) {
	purge := func(c Ceph) verbs.Handler { return c.Purge }
	confirmed := order("3")
	confirmed.Confirm = "osd.3"
	_, done, called, err := do(t, map[string]string{batch: dump, "safe-to-destroy 3": "exit 0", "osd purge 3": "exit 0"}, purge, confirmed)
	require.NoError(t, err)
	require.Equal(t, "osd.3 is forgotten", done)
	require.True(t, strings.HasSuffix(called[2], "osd purge 3 --yes-i-really-mean-it"), called)

	_, _, _, err = do(t, map[string]string{batch: dump}, purge, order("0"))
	require.ErrorContains(t, err, "osd.0 runs")
	require.ErrorContains(t, err, "then stop its machine (spore shutdown)")
	again := order("7")
	again.Confirm = "osd.7"
	_, done, called, err = do(t, map[string]string{batch: dump}, purge, again)
	require.NoError(t, err, "an order whose answer nobody heard is given again")
	require.Equal(t, "there is no osd.7 (any more), and nothing to forget; there are 0, 3", done)
	require.Len(t, called, 1)
	_, _, _, err = do(t, map[string]string{batch: dump}, func(c Ceph) verbs.Handler { return c.Out }, order("7"))
	require.ErrorContains(t, err, "there is no osd.7; there are 0, 3")

	unsafe := map[string]string{batch: dump, "safe-to-destroy 3": "echo 'Error EBUSY: OSD(s) 3 have 2 pgs' >&2; exit 16", "osd purge 3": "exit 0"}
	_, _, called, err = do(t, unsafe, purge, confirmed)
	require.ErrorContains(t, err, "may have the last copy of something")
	require.ErrorContains(t, err, "EBUSY")
	way, force := strings.Index(err.Error(), "spore ceph osd-out 3"), strings.Index(err.Error(), "--force ceph-mon")
	require.Positive(t, way)
	require.Greater(t, force, way, "what loses nothing is named first")
	require.Len(t, called, 2)
	forced := confirmed
	forced.Force = quorum
	_, _, _, err = do(t, unsafe, purge, forced)
	require.NoError(t, err)
	wrong := confirmed
	wrong.Confirm = "osd.0"
	_, _, called, err = do(t, map[string]string{batch: dump, "safe-to-destroy 3": "exit 0"}, purge, wrong)
	require.ErrorContains(t, err, `repeats "osd.0", and this is about osd.3`)
	require.Len(t, called, 2)
	dry := order("3")
	dry.DryRun = true
	_, done, _, err = do(t, map[string]string{batch: dump, "safe-to-destroy 3": "exit 0"}, purge, dry)
	require.NoError(t, err)
	require.Equal(t, "osd.3 would be forgotten", done)
}

func TestMovingDataIsWaitedFor(t *testing.T) {
	out := func(c Ceph) verbs.Handler { return c.Out }
	o := order("3")
	o.Arguments["wait"] = "no"
	_, done, _, err := do(t, map[string]string{batch: dump, "osd out 3": "exit 0"}, out, o)
	require.NoError(t, err)
	require.Equal(t, "osd.3 is out", done)
	_, _, _, err = do(t, map[string]string{batch: dump, "osd out 3": "echo no quorum >&2; exit 1"}, out, o)
	require.ErrorContains(t, err, "ceph osd out 3: ")
	require.ErrorContains(t, err, "no quorum")

	s, err := parseStatus([]byte(`{"pgmap":{"num_pgs":64,"pgs_by_state":[
		{"state_name":"active+clean","count":50},{"state_name":"active+clean+scrubbing+deep","count":4},
		{"state_name":"active+remapped+backfilling","count":8},{"state_name":"unknown","count":2}]}}`))
	require.NoError(t, err)
	require.Equal(t, 10, s.unclean())
}

// flaky answers a look with what is in a file of lines, one line a look, and fails where the line says so.
func flaky(t *testing.T, lines ...string) string {
	file := filepath.Join(t.TempDir(), "lines")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return `read q; [ "$q" = "osd dump" ] && { ` + dump + `; exit 0; }; l=$(head -n1 ` + file + `); sed -i '1{$!d}' ` + file + `
		[ "$l" = away ] && { echo no monitor >&2; exit 1; }; echo "$l"`
}

func TestAWaitBearsMonitorsThatDoNotAnswerForAWhile(t *testing.T) {
	out := func(c Ceph) verbs.Handler { return c.Out }
	moving := `{"pgmap":{"num_pgs":8,"pgs_by_state":[{"state_name":"active+clean","count":5}]}}`
	clean := `{"pgmap":{"num_pgs":8,"pgs_by_state":[{"state_name":"active+clean","count":8}]}}`
	events, done, _, err := do(t, map[string]string{batch: flaky(t, "away", moving, "away", clean, "away", clean), "osd out 3": "exit 0"}, out, order("3"))
	require.NoError(t, err)
	require.Equal(t, "osd.3 is out, and all data has its copies", done)
	require.Contains(t, verbstest.Said(events), "asking again: speak to the monitors")
	require.Contains(t, verbstest.Said(events), "waiting for 3 of 8 placement groups")

	_, _, _, err = do(t, map[string]string{batch: flaky(t, moving, "away"), "osd out 3": "exit 0"}, out, order("3"))
	require.ErrorContains(t, err, "no monitor")
}

// monitorsOf is an answer to quorum_status.
const monitorsOf = `{"quorum_names":["mon-1"],"quorum_leader_name":"mon-1","monmap":{"mons":[{"name":"mon-1"},{"name":"mon-2"}]}}`

func TestTheStatusComesWithoutTheManager(t *testing.T) {
	show := func(c Ceph) verbs.Handler { return c.Status }
	health := `read q; [ "$q" = status ] && { echo '{"health":{"status":"HEALTH_WARN"}}' '` + monitorsOf + `'; exit 0; }; `
	for name, tc := range map[string]struct{ manager, want string }{
		"that hangs":              {"exec sleep 30", "no answer within 3s"},
		"that is none":            {"echo no manager >&2; exit 1", "no manager"},
		"that refuses one of two": {`echo '{"nodes":[]}'; echo Error EACCES: access denied >&2`, "answered 1 of 2 commands: Error EACCES: access denied"},
	} {
		t.Run(name, func(t *testing.T) {
			events, done, _, err := do(t, map[string]string{batch: health + tc.manager}, show, nodeapi.Order{})
			require.NoError(t, err)
			require.Equal(t, "HEALTH_WARN", done)
			require.Len(t, events, 3)
			require.JSONEq(t, `{"status":{"health":{"status":"HEALTH_WARN"}}}`, string(events[0].Result))
			require.JSONEq(t, `{"monitors":{"all":["mon-1","mon-2"],"quorum":["mon-1"],"leader":"mon-1"}}`, string(events[1].Result))
			require.Contains(t, events[2].Say, "the OSDs and the pools are missing")
			require.Contains(t, events[2].Say, tc.want)
		})
	}
	_, _, _, err := do(t, map[string]string{batch: "echo no monitors >&2; exit 1"}, show, nodeapi.Order{})
	require.ErrorContains(t, err, "no monitors")
}

func TestManyOSDsComeInParts(t *testing.T) {
	show := func(c Ceph) verbs.Handler { return c.Status }
	node := `{"type":"osd","name":"osd.1","filler":"` + strings.Repeat("x", 1000) + `"}`
	file := filepath.Join(t.TempDir(), "tree")
	tree := `{"nodes":[` + strings.Repeat(node+",", 1200) + node + `],"stray":[{"id":7}],"summary":{"total_kb":1}}`
	require.NoError(t, os.WriteFile(file, []byte(tree), 0o600))
	script := `read q; [ "$q" = status ] && { echo '{"health":{"status":"HEALTH_OK"}}' '` + monitorsOf + `'; exit 0; }; cat ` + file + `; echo '{"pools":[]}'`
	events, done, _, err := do(t, map[string]string{batch: script}, show, nodeapi.Order{})
	require.NoError(t, err)
	require.Equal(t, "HEALTH_OK", done)
	var nodes []int
	for _, e := range events[2:5] {
		var part struct {
			OSDs struct{ Nodes []json.RawMessage }
		}
		require.NoError(t, json.Unmarshal(e.Result, &part))
		nodes = append(nodes, len(part.OSDs.Nodes))
	}
	require.Equal(t, []int{500, 500, 201}, nodes)
	require.JSONEq(t, `{"osds":{"stray":[{"id":7}]}}`, string(events[5].Result))
	require.JSONEq(t, `{"osds":{"summary":{"total_kb":1}}}`, string(events[6].Result))
	require.JSONEq(t, `{"pools":{"pools":[]}}`, string(events[7].Result))
	require.Len(t, events, 8)
}

func TestNoMonitorIsTakenOutOnWhichAMajorityHangs(t *testing.T) {
	for name, tc := range map[string]struct {
		all, serve []string
		who, force string
		want       string
	}{
		"a lost one of three":  {[]string{"a", "b", "c"}, []string{"a", "b"}, "c", "", ""},
		"one that serves":      {[]string{"a", "b", "c"}, []string{"a", "b", "c"}, "c", "", ""},
		"one of two":           {[]string{"a", "b", "c"}, []string{"a", "b"}, "b", "", "of the 2 monitors that are left 1 serve, and a majority is 2"},
		"one of two, by force": {[]string{"a", "b", "c"}, []string{"a", "b"}, "b", "ceph-mon", ""},
		"another's force":      {[]string{"a", "b", "c"}, []string{"a", "b"}, "b", "etcd", "a majority is 2"},
		"the only one":         {[]string{"a"}, []string{"a"}, "a", "ceph-mon", "a is the only monitor"},
		"nobody":               {[]string{"a", "b"}, []string{"a", "b"}, "x", "", `there is no monitor "x"; there are a, b`},
	} {
		t.Run(name, func(t *testing.T) {
			err := removable(tc.all, tc.serve, tc.who, tc.force)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAMonitorThatWasTakenOutIsTakenOutAgain(t *testing.T) {
	remove := func(c Ceph) verbs.Handler { return c.RemoveMonitor }
	quorum := `echo '{"quorum_names":["a","b"],"monmap":{"mons":[{"name":"a"},{"name":"b"}]}}'`
	for name, want := range map[string]string{"mon-1": "", "chess": `there is no monitor "chess"; there are a, b`} {
		o := nodeapi.Order{Arguments: map[string]string{"monitor": name}, Confirm: name}
		_, done, called, err := do(t, map[string]string{batch: quorum}, remove, o)
		require.Len(t, called, 1)
		if want != "" {
			require.EqualError(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "mon-1 is none of the monitors (any more); it joins when it starts without its former data", done)
	}
}

func TestAnswersOfTheMonitorsAreCounted(t *testing.T) {
	answers, err := split([]byte("\n{\"a\":1}\n\n[2]\n"), 2)
	require.NoError(t, err)
	require.JSONEq(t, `[2]`, string(answers[1]))
	_, err = split([]byte(`{}`), 2)
	require.ErrorContains(t, err, "answered 1 of 2 commands")
	_, err = split([]byte(`{} Error EINVAL`), 2)
	require.ErrorContains(t, err, "malformed")
}

func TestANodeWithoutAMonitorSaysWhoHasOne(t *testing.T) {
	c := &facts.Cluster{Members: map[string][]string{role: {"mon-1", "mon-2"}}}
	m := node.New("test", paths.Root(t.TempDir()))
	_, _, err := verbstest.Do(t, m, c, &facts.Node{Name: "osd-1", Roles: []string{"ceph-osd"}}, Ceph{Run: (&verbstest.Programs{}).Run}.Status, nodeapi.Order{})
	require.EqualError(t, err, "osd-1 has no monitor; those that have one are mon-1, mon-2")
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n[2]"), 2)
	f.Fuzz(func(t *testing.T, out []byte, want int) {
		if answers, err := split(out, want); err == nil {
			require.Len(t, answers, want)
		}
	})
}

func TestCephSaysWhetherItBearsThatOSDsGo(t *testing.T) {
	const busy = "echo 'Error EBUSY: unsafe to stop osd(s) at this time (2 PGs are or would become offline)' >&2; exit 16"
	safe := func(c Ceph) verbs.Handler { return c.Safe }
	ask := func(osds, to string) nodeapi.Order {
		return nodeapi.Order{Arguments: map[string]string{"osds": osds, "to": to}}
	}
	all := `echo '{"osds":[{"osd":0,"up":1,"in":1},{"osd":1,"up":1,"in":1},{"osd":2,"up":1,"in":0},{"osd":3,"up":0,"in":1}]}'`
	for name, tc := range map[string]struct {
		order  nodeapi.Order
		answer map[string]string
		want   string
		called int
	}{
		"it does":                        {ask("0", "stop"), map[string]string{"osd ok-to-stop 0": "exit 0"}, `{"running":[0],"others":1}`, 2},
		"it does not":                    {ask("0,1", "stop"), map[string]string{"osd ok-to-stop 0 1": busy}, `{"running":[0,1],"others":0,"unsafe":"EBUSY: unsafe to stop osd(s) at this time (2 PGs are or would become offline)"}`, 2},
		"one that is down stops":         {ask("3", "stop"), nil, `{"running":[],"others":2}`, 1},
		"one that is out stops":          {ask("2", "stop"), map[string]string{"ok-to-stop 2": "exit 0"}, `{"running":[2],"others":2}`, 2},
		"one that is down is lost":       {ask("3", "destroy"), map[string]string{"osd safe-to-destroy 3": "exit 0"}, `{"running":[],"others":2}`, 2},
		"one that is not there":          {ask("9", "destroy"), nil, `{"running":[],"others":2}`, 1},
		"some of what it has is unknown": {ask("3", "destroy"), map[string]string{"safe-to-destroy 3": "echo 'Error EAGAIN: OSD(s) 3 have no reported stats' >&2; exit 11"}, `{"running":[],"others":2,"unsafe":"EAGAIN: OSD(s) 3 have no reported stats"}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			answer := map[string]string{batch: all}
			for key, script := range tc.answer {
				answer[key] = script
			}
			events, _, called, err := do(t, answer, safe, tc.order)
			require.NoError(t, err)
			require.Len(t, events, 1)
			require.JSONEq(t, tc.want, string(events[0].Result))
			require.Len(t, called, tc.called)
		})
	}
	_, _, _, err := do(t, map[string]string{batch: all, "ok-to-stop": "echo no manager >&2; exit 1"}, safe, ask("0", "stop"))
	require.ErrorContains(t, err, "no manager", "it is not known")
}
