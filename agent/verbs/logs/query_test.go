package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/logs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// now is the clock of the store's node.
var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// said is an entry in a store.
type said struct {
	at     time.Time
	fields map[string]string
}

// store is a node with a store that answers with what is in it, whatever the filter, as VictoriaLogs does: the newest
// come first, as many as are asked for, from the begin on and before the end.
type store struct {
	t       *testing.T
	m       *node.Machine
	cluster *facts.Cluster
	forms   []url.Values
	has     []said
	// rows are what counts answer, and answer stands for all of it where it is there.
	rows   []string
	answer http.HandlerFunc
	at     Store
	by     nodeapi.Caller
}

func newStore(t *testing.T, has ...said) *store {
	s := &store{t: t, m: node.New("test", paths.Root(t.TempDir())), has: has, cluster: &facts.Cluster{
		Members: map[string][]string{logs.Role: {"observer-01"}}, Services: spec.Services{&logs.Settings{}},
	}}
	s.by = nodeapi.Caller{Name: "anna", Roles: []nodeapi.Role{nodeapi.Operator}}
	s.m.Now = func() time.Time { return now }
	file := s.m.Root.At(filepath.Join(paths.Secrets, logs.Program, logs.PasswordEntry))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte("swordfish\n"), 0o600))
	slices.SortStableFunc(s.has, func(a, b said) int { return b.at.Compare(a.at) })
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.at = Store{Address: strings.TrimPrefix(server.URL, "http://")}
	return s
}

func (s *store) serve(w http.ResponseWriter, r *http.Request) {
	require.NoError(s.t, r.ParseForm())
	user, password, _ := r.BasicAuth()
	require.Equal(s.t, [2]string{"spore", "swordfish"}, [2]string{user, password})
	require.Equal(s.t, "/select/logsql/query", r.URL.Path)
	s.forms = append(s.forms, r.Form)
	if strings.Contains(r.Form.Get("query"), "| stats") {
		fmt.Fprint(w, strings.Join(s.rows, "\n"))
		return
	}
	if s.answer != nil {
		s.answer(w, r)
		return
	}
	begin, err := time.Parse(time.RFC3339Nano, r.Form.Get("start"))
	require.NoError(s.t, err)
	end, err := time.Parse(time.RFC3339Nano, r.Form.Get("end"))
	require.NoError(s.t, err)
	left, err := strconv.Atoi(r.Form.Get("limit"))
	require.NoError(s.t, err)
	for _, e := range s.has {
		if e.at.Before(begin) || !e.at.Before(end) || left == 0 {
			continue
		}
		left--
		e.fields["_time"] = e.at.Format(time.RFC3339Nano)
		data, err := json.Marshal(e.fields)
		require.NoError(s.t, err)
		_, _ = w.Write(append(data, '\n'))
	}
}

// result is an answer.
type result struct {
	entries []map[string]string
	end     machine.LogsEnd
	said    []string
	done    string
}

func (s *store) query(arguments map[string]string) (result, error) {
	s.t.Helper()
	verb, found := nodeapi.FindVerb(nodeapi.LogsQuery)
	require.True(s.t, found)
	order := nodeapi.Order{Arguments: arguments}
	require.NoError(s.t, verb.Check(order))
	var out bytes.Buffer
	r := verbs.For(s.m, s.cluster, &facts.Node{Name: "observer-01"}, order, &out)
	r.By = s.by
	done, err := s.at.Query(s.t.Context(), r)
	got := result{done: done}
	_, lost := nodeapi.ReadEvents(strings.NewReader(out.String()+`{"done":"-"}`+"\n"), func(e nodeapi.Event) error {
		switch {
		case e.Say != "":
			got.said = append(got.said, e.Say)
		case e.Result[0] == '[':
			var part []map[string]string
			require.NoError(s.t, json.Unmarshal(e.Result, &part))
			got.entries = append(got.entries, part...)
		default:
			require.NoError(s.t, json.Unmarshal(e.Result, &got.end))
		}
		return nil
	})
	require.NoError(s.t, lost)
	return got, err
}

// entries are count entries of a node, one each so often, the last one at now.
func entries(node string, count int, every time.Duration) (out []said) {
	for i := range count {
		at := now.Add(-time.Duration(count-1-i) * every)
		out = append(out, said{at, map[string]string{
			"_msg": fmt.Sprintf("%s-%d", node, i), "node": node, "_SPORE_SOURCE": "journal", "_stream": "{}", "_stream_id": "0",
			"__CURSOR": fmt.Sprintf("s=1;i=%x;b=2;m=3;t=4;x=5", i), "PRIORITY": "6",
		}})
	}
	return out
}

func messages(r result) (out []string) {
	for _, e := range r.entries {
		out = append(out, e["MESSAGE"])
	}
	return out
}

func TestTheNewestAreAnsweredInTheOrderOfTime(t *testing.T) {
	s := newStore(t, append(entries("a", 5, time.Second), entries("b", 2, 1500*time.Millisecond)...)...)
	s.rows = []string{`{"node":"a","newest":"2026-11-24T12:00:00Z"}`}
	got, err := s.query(map[string]string{"lines": "4"})
	require.NoError(t, err)
	require.Equal(t, []string{"b-0", "a-3", "a-4", "b-1"}, messages(got))
	require.True(t, got.end.Cut)
	require.Empty(t, got.end.Why, "that is what was asked for")
	require.Equal(t, map[string]time.Time{"a": now}, got.end.Newest)
	require.Equal(t, "4 entries", got.done)
	require.Equal(t, map[string]string{
		"MESSAGE": "a-3", "node": "a", "_SPORE_SOURCE": "journal", "__CURSOR": "s=1;i=3;b=2;m=3;t=4;x=5", "PRIORITY": "6",
		"__REALTIME_TIMESTAMP": strconv.FormatInt(now.Add(-time.Second).UnixMicro(), 10),
	}, got.entries[1])

	got, err = s.query(nil)
	require.NoError(t, err)
	require.Len(t, got.entries, 7)
	require.False(t, got.end.Cut)
	got, err = s.query(map[string]string{"lines": "0"})
	require.NoError(t, err)
	require.Empty(t, got.entries, "that tells how far the store is")
	require.NotEmpty(t, got.end.Newest)
}

func TestManyEntriesComeInPagesAndWindows(t *testing.T) {
	const count = 2*page + 17
	s := newStore(t, entries("a", count, 2*time.Second)...) // More than five hours.
	got, err := s.query(map[string]string{"lines": strconv.Itoa(count)})
	require.NoError(t, err)
	require.Len(t, got.entries, count)
	require.False(t, got.end.Cut)
	require.Empty(t, got.said)
	require.True(t, slices.IsSortedFunc(got.entries, func(a, b map[string]string) int {
		return strings.Compare(a["__REALTIME_TIMESTAMP"], b["__REALTIME_TIMESTAMP"])
	}))
	for _, f := range s.forms {
		limit, err := strconv.Atoi(f.Get("limit"))
		require.NoError(t, err)
		if !strings.Contains(f.Get("query"), "| stats") {
			require.LessOrEqual(t, limit, page, "the store has what is asked for in memory")
		}
	}
	got, err = s.query(map[string]string{"since": "2026-11-24T11:59:00Z", "until": "2026-11-24T11:59:30Z"})
	require.NoError(t, err)
	require.Len(t, got.entries, 16, "both ends are included")
}

func TestWhatANodeSentTwiceIsThereOnce(t *testing.T) {
	twice := append(entries("a", 3, time.Second), entries("a", 3, time.Second)...)
	other := entries("b", 3, time.Second) // Its cursors are the same.
	got, err := newStore(t, append(twice, other...)...).query(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a-0", "b-0", "a-1", "b-1", "a-2", "b-2"}, messages(got))
}

func TestEntriesOfOneTimeKeepTheirNodesOrder(t *testing.T) {
	same := entries("a", leastPage+200, 0)
	slices.Reverse(same)
	s := newStore(t, same...)
	got, err := s.query(map[string]string{"lines": "500"})
	require.NoError(t, err)
	require.Len(t, got.entries, 500)
	require.True(t, got.end.Cut)
	require.True(t, slices.IsSortedFunc(got.entries, func(a, b map[string]string) int {
		var i, j int
		_, err1 := fmt.Sscanf(a["MESSAGE"], "a-%d", &i)
		_, err2 := fmt.Sscanf(b["MESSAGE"], "a-%d", &j)
		require.NoError(t, err1)
		require.NoError(t, err2)
		return i - j
	}))
	s.has = entries("a", page+1, 0)
	got, err = s.query(map[string]string{"lines": "100000"})
	require.NoError(t, err)
	require.Len(t, got.entries, page)
	require.Equal(t, []string{"more than 5000 entries have the time 2026-11-24T12:00:00Z; not all of them are shown"}, got.said)
}

func TestAnAnswerHasABound(t *testing.T) {
	big := entries("a", 600, time.Second)
	for _, e := range big {
		e.fields["_msg"] += strings.Repeat("x", 64<<10)
	}
	got, err := newStore(t, big...).query(map[string]string{"lines": "1000"})
	require.NoError(t, err)
	require.True(t, got.end.Cut)
	require.Equal(t, "an answer has at most 32 MiB", got.end.Why)
	require.Less(t, len(got.entries), 512)
	require.True(t, strings.HasPrefix(got.entries[len(got.entries)-1]["MESSAGE"], "a-599x"), "the newest are there")

	long := entries("a", 3, time.Second)
	long[1].fields["_msg"] = strings.Repeat("x", maxLine)
	got, err = newStore(t, long...).query(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a-0", "a-2"}, messages(got))
	require.Equal(t, []string{"1 entries have no room in an answer and are left out; see them on their nodes"}, got.said)
}

func TestAnExpressionIsThatOfRE2(t *testing.T) {
	s := newStore(t, entries("a", 30, time.Second)...)
	s.has[0].fields["_msg"] = "x\ny"
	got, err := s.query(map[string]string{"grep": "x.y"})
	require.NoError(t, err)
	require.Empty(t, got.entries, "the store's point is a line's end, too")
	got, err = s.query(map[string]string{"grep": "-1[12]$"})
	require.NoError(t, err)
	require.Equal(t, []string{"a-11", "a-12"}, messages(got))
	require.Contains(t, s.forms[len(s.forms)-3].Get("query"), `_msg:~"-1[12]$"`)
}

func TestAStartIsCountedForEachNode(t *testing.T) {
	s := newStore(t, entries("a", 1, time.Second)...)
	s.rows = []string{
		`{"node":"a","_BOOT_ID":"a1","newest":"2026-11-20T12:00:00Z"}`, `{"node":"a","_BOOT_ID":"a3","newest":"2026-11-24T12:00:00Z"}`,
		`{"node":"b","_BOOT_ID":"b1","newest":"2026-11-24T11:00:00Z"}`, `{"node":"a","_BOOT_ID":"a2","newest":"2026-11-22T12:00:00Z"}`,
	}
	for boot, want := range map[string]string{"0": `"a3", "b1"`, "-1": `"a2"`, "-2": `"a1"`} {
		s.forms = nil
		_, err := s.query(map[string]string{"boot": boot})
		require.NoError(t, err)
		require.Contains(t, s.forms[1].Get("query"), "_BOOT_ID:in("+want+")", boot)
	}
	got, err := s.query(map[string]string{"boot": "-3"})
	require.NoError(t, err)
	require.Empty(t, got.entries, "no node has that many")
}

// noAudit is what a question has besides of a caller who may not read audit records.
const noAudit = `(_TRANSPORT:in("driver", "journal", "kernel", "stdout", "syslog") or {_SPORE_SOURCE not_in ("journal")})`

func TestWhoMayReadWhat(t *testing.T) {
	reader := nodeapi.Caller{Name: "rita", Roles: []nodeapi.Role{nodeapi.Reader}}
	operator := nodeapi.Caller{Name: "otto", Roles: []nodeapi.Role{nodeapi.Operator}}
	admin := nodeapi.Caller{Name: "anna", Roles: []nodeapi.Role{nodeapi.Admin}}
	limited := nodeapi.Caller{Name: "otto", Roles: []nodeapi.Role{nodeapi.Operator}, Nodes: []string{"edge-01", "observer-01"}}
	pod := map[string]string{"pod": "plant/press-0"}
	for name, c := range map[string]struct {
		by        nodeapi.Caller
		rights    *spec.LogRights
		arguments map[string]string
		want, err string
	}{
		"a reader reads units":              {reader, nil, nil, `{_SPORE_SOURCE in ("journal")} ` + noAudit, ""},
		"an operator reads audit":           {operator, nil, nil, `{_SPORE_SOURCE in ("journal")}`, ""},
		"a reader reads no pods":            {reader, nil, pod, "", "the logs of pods are not for this certificate: cluster.yaml (logRights.pods) lets operator read them, and admins"},
		"a reader reads no audit log":       {reader, nil, map[string]string{"sources": "journal,audit"}, "", "audit logs are not for this certificate"},
		"a source is a pod's":               {reader, nil, map[string]string{"sources": "pod"}, "", "the logs of pods"},
		"an operator reads pods":            {operator, nil, pod, `{_SPORE_SOURCE in ("pod"), KUBERNETES_NAMESPACE in ("plant"), KUBERNETES_POD in ("press-0")}`, ""},
		"a list lets readers":               {reader, &spec.LogRights{Pods: []string{"reader"}}, pod, `{_SPORE_SOURCE in ("pod"), KUBERNETES_NAMESPACE in ("plant"), KUBERNETES_POD in ("press-0")} ` + noAudit, ""},
		"a list lets one":                   {reader, &spec.LogRights{Audit: []string{"rita"}}, nil, `{_SPORE_SOURCE in ("journal")}`, ""},
		"a list lets another":               {operator, &spec.LogRights{Audit: []string{"rita"}}, map[string]string{"sources": "audit"}, "", "lets rita read them"},
		"an admin may whatever the list":    {admin, &spec.LogRights{Audit: []string{"rita"}}, map[string]string{"sources": "audit"}, `{_SPORE_SOURCE in ("audit")}`, ""},
		"a list for admins":                 {operator, &spec.LogRights{Pods: []string{"admin"}}, pod, "", "the logs of pods"},
		"a certificate for some nodes":      {limited, nil, nil, `{node in ("edge-01", "observer-01"), _SPORE_SOURCE in ("journal")}`, ""},
		"a certificate for one of them":     {limited, nil, map[string]string{"nodes": "edge-01"}, `{node in ("edge-01"), _SPORE_SOURCE in ("journal")}`, ""},
		"a certificate for others":          {limited, nil, map[string]string{"nodes": "edge-02"}, "", "edge-02: this certificate is limited to edge-01, observer-01"},
		"whoever is unknown reads no audit": {nodeapi.Caller{}, nil, nil, `{_SPORE_SOURCE in ("journal")} ` + noAudit, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			s.by, s.cluster.LogRights = c.by, c.rights
			_, err := s.query(c.arguments)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Empty(t, s.forms, "the store is not asked")
				return
			}
			require.NoError(t, err)
			query, _, _ := strings.Cut(s.forms[0].Get("query"), " | ")
			require.Equal(t, c.want, query)
			for _, f := range s.forms {
				if len(c.by.Nodes) > 0 {
					require.Contains(t, f.Get("query"), `{node in ("edge-01"`, "nothing is told of other nodes")
				}
			}
		})
	}
}

func TestWhatTheStoreRefusesIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		err    string
	}{
		"an error":        {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "too slow\xff", http.StatusBadRequest) }, "the store says: HTTP 400: too slow?"},
		"no JSON":         {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>\n") }, "the store's answer is malformed: "},
		"another form":    {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"_time":1}`) }, "the store's answer is malformed: "},
		"no time":         {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"_msg":"x"}`) }, `the store's answer is malformed: an entry has the time ""`},
		"another address": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/"); w.WriteHeader(302) }, "the store says: HTTP 302: "},
		"it is cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"_time":`)
		}, "from 2026-11-24T11:58:07Z to 2026-11-24T12:00:00Z: the store broke off its answer"},
		"more than was asked for": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 2 * page {
				fmt.Fprintf(w, `{"_time":"2026-11-24T11:00:00Z","_msg":"%d"}`+"\n", i)
			}
		}, "the store answers more than the 1000 rows that it was asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			s.answer = c.answer
			got, err := s.query(map[string]string{"lines": "2"})
			if name == "more than was asked for" {
				require.NoError(t, err, "what was found is shown")
				require.True(t, got.end.Cut)
				return
			}
			require.ErrorContains(t, err, c.err)
			require.Empty(t, got.entries)
		})
	}
}

func TestANodeWithoutAStoreSaysSo(t *testing.T) {
	s := newStore(t)
	s.cluster.Members = nil
	_, err := s.query(nil)
	require.EqualError(t, err, "observer-01 has no store of logs; ask a node with the role logs-store")
	s = newStore(t)
	_, err = s.query(map[string]string{"since": "2026-11-24T12:00:00Z", "until": "2026-11-24T11:00:00Z"})
	require.EqualError(t, err, "the end is not behind the begin")
	var units []string
	for i := range 100 {
		units = append(units, strings.Repeat("u", 30)+strconv.Itoa(i)+".service")
	}
	var nodes []string
	for i := range 60 {
		nodes = append(nodes, strings.Repeat("n", 55)+strconv.Itoa(i))
	}
	s.by.Nodes = append(nodes, strings.Repeat("m", 60))
	for range 7 {
		s.by.Nodes = append(s.by.Nodes, s.by.Nodes[0:20]...)
	}
	_, err = s.query(map[string]string{"units": strings.Join(units, ",")})
	require.ErrorContains(t, err, "ask for fewer nodes or units")
}

func TestTheTableOfVerbsTakesNoOtherArguments(t *testing.T) {
	verb, _ := nodeapi.FindVerb(nodeapi.LogsQuery)
	for argument, values := range map[string][]string{
		"nodes": {"a,,b", "A", "a b"}, "units": {"kafka", "*", "a.service,"}, "pod": {"a", "a/b/c/d", "a//b", "A/b", `a/"`},
		"sources": {"kernel", "pod,", "journal;pod"}, "since": {"1h", "yesterday"}, "until": {"0"}, "priority": {"err", "8"},
		"grep": {"(", strings.Repeat("x", 257)}, "boot": {"1", "x"}, "lines": {"-1", "100001", "x"},
	} {
		for _, v := range values {
			require.Error(t, verb.Check(nodeapi.Order{Arguments: map[string]string{argument: v}}), "%s %q", argument, v)
		}
	}
	require.NoError(t, verb.Check(nodeapi.Order{Arguments: map[string]string{
		"nodes": "a,b-1", "units": "a.service,b@.service", "pod": "a/b.c-0/d", "sources": "journal,pod,audit",
		"since": "2026-11-24T12:00:00Z", "until": "2026-11-24T12:00:00.5Z", "priority": "3", "grep": "a|b", "boot": "-1", "lines": "100000",
	}}))
}

func TestASearchThatTakesTooLongSaysHowFarItWent(t *testing.T) {
	end := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	f := search{began: time.Now()}
	require.False(t, f.late(end))
	require.False(t, f.cut)
	f.began = time.Now().Add(-2 * patience)
	// No question is sent: what it would be sent to is not there.
	require.NoError(t, Store{}.window(t.Context(), nil, &f, end.Add(-time.Hour), end))
	require.True(t, f.cut)
	require.Equal(t, "the search took longer than 1m30s, and went back to 2026-11-24T12:00:00Z; go on with --until 2026-11-24T12:00:00Z", f.why)
}

// VictoriaLogs ends a search at -search.maxQueryDuration by 503, or by a line that is no HTTP, before an answer or within it.
func TestAWindowThatTakesTheStoreTooLongIsHalved(t *testing.T) {
	const reason = "the request couldn&#39;t be executed in 60.001 seconds; possible solutions: to pass"
	for name, flushed := range map[string]string{
		"an error": "", "before the first line": "", "within the answer": `{"_time`, "with a reason": "\n" + reason + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, entries("a", 300, time.Minute)...) // Five hours.
			most, answers, future := 20*time.Minute, 0, 0
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				if answers++; answers > 200 {
					t.Error("it asks without end")
				}
				begin, err := time.Parse(time.RFC3339Nano, r.Form.Get("start"))
				require.NoError(t, err)
				end, err := time.Parse(time.RFC3339Nano, r.Form.Get("end"))
				require.NoError(t, err)
				if end.After(now.Add(time.Hour)) {
					future, end = future+1, now
				}
				if end.Sub(begin) <= most || begin.Before(now.Add(-24*time.Hour)) {
					answer := s.answer
					s.answer = nil
					s.serve(w, r)
					s.answer = answer
					return
				}
				if name == "an error" {
					http.Error(w, "the request couldn't be executed in 60.001 seconds", http.StatusServiceUnavailable)
					return
				}
				if flushed != "" { // What it has by then need not be the newest.
					fmt.Fprintf(w, `{"_time":"%s","_msg":"a","node":"a","__CURSOR":"i=5"}`+"\n"+flushed, begin.Format(time.RFC3339Nano))
					require.NoError(t, http.NewResponseController(w).Flush())
				}
				c, out, err := http.NewResponseController(w).Hijack()
				require.NoError(t, err)
				_, _ = out.WriteString("\nthe connection has been aborted; see the last line in the response\n")
				_ = out.Flush()
				_ = c.Close()
			}
			got, err := s.query(map[string]string{"lines": "1000", "since": "2026-11-24T06:00:00Z"})
			require.NoError(t, err)
			require.Empty(t, got.said)
			require.False(t, got.end.Cut, got.end.Why)
			require.Len(t, got.entries, 300)
			require.Equal(t, "a-0", got.entries[0]["MESSAGE"])
			require.Equal(t, "a-299", got.entries[299]["MESSAGE"])
			require.Less(t, future, 5)

			most, answers = 0, 0
			_, err = s.query(map[string]string{"lines": "1000"})
			require.ErrorContains(t, err, "from 2026-11-24T11:58:07Z to 2026-11-24T12:00:00Z: the store broke off its answer, as it does when a "+
				"search takes it longer than a minute; ask for less time")
			require.Less(t, answers, 10)
		})
	}
}

func TestAStoreThatIsAwayIsNotAskedAgain(t *testing.T) {
	s := newStore(t)
	s.at.Address = "127.0.0.1:1"
	_, err := s.query(nil)
	require.ErrorContains(t, err, "ask the store, victoria-logs.service: ")
}
