package logs

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/fleet"
	"spore/services/logs"
	"spore/services/metrics"
	"spore/test/testca"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// plant is a cluster of nodes that answer as the test says, by node and path, and what they were asked.
type plant struct {
	t       *testing.T
	answers map[string]http.HandlerFunc
	mu      sync.Mutex // of what follows
	asked   []string
	orders  []nodeapi.Order
	c       *fleet.Cluster
}

func newPlant(t *testing.T, stores ...string) *plant {
	t.Helper()
	p := &plant{t: t, answers: map[string]http.HandlerFunc{}}
	ca, err := testca.New("agents")
	require.NoError(t, err)
	certificate, key, err := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "anna"}})
	require.NoError(t, err)
	at := map[string][]string{}
	p.c = &fleet.Cluster{Timeout: 10 * time.Second, Client: nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return nodeapi.Identity{Certificate: certificate, Key: key, Authorities: ca.PEM()}, nil
		},
		Addresses: func(node string) ([]string, error) { return at[node], nil },
	}}
	p.c.Facts = facts.Cluster{Name: "plant", Services: spec.Services{&logs.Settings{}}, Members: map[string][]string{
		logs.Role: stores, metrics.Role: {"metrics-1"}, metrics.AlertsRole: {"metrics-1"},
	}}
	for _, node := range []string{"edge-01", "edge-02", "store-1", "store-2", "metrics-1"} {
		p.c.Nodes = append(p.c.Nodes, facts.Node{Name: node})
		at[node] = serve(t, ca, node, func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			p.asked = append(p.asked, node+" "+r.URL.Path)
			p.mu.Unlock()
			what := node + " " + r.URL.Path
			if r.Method == http.MethodPost {
				var o nodeapi.Order
				require.NoError(t, json.NewDecoder(r.Body).Decode(&o))
				verb, found := nodeapi.FindVerb(strings.TrimPrefix(r.URL.Path, nodeapi.VerbsPath))
				require.True(t, found)
				require.NoError(t, verb.Check(o), "the node takes it")
				p.mu.Lock()
				p.orders = append(p.orders, o)
				p.mu.Unlock()
				if strings.HasPrefix(o.Arguments["query"], "tfirst_over_time(") {
					what += recently
				}
			}
			answer := p.answers[what]
			if answer == nil {
				http.Error(w, "not today", http.StatusServiceUnavailable)
				return
			}
			answer(w, r)
		})
	}
	return p
}

// recently is behind a path that is asked for what began a moment ago.
const recently = " recently"

const query = nodeapi.VerbsPath + nodeapi.LogsQuery

// show asks as the command does.
func (p *plant) show(o Options, q nodeapi.Logs) (out, said string, err error) {
	p.t.Helper()
	return p.showAs(false, o, q)
}

func (p *plant) showAs(asJSON bool, o Options, q nodeapi.Logs) (out, said string, err error) {
	p.t.Helper()
	var outs, errs bytes.Buffer
	o.Several = true
	asks, err := o.Asks(p.c, q, nil)
	require.NoError(p.t, err)
	w := bufio.NewWriter(&outs)
	err = Show(p.t.Context(), p.c, Output{Lines: w, Said: &errs, JSON: asJSON}, asks, o.Stores(p.c), &o)
	require.NoError(p.t, w.Flush())
	return outs.String(), errs.String(), err
}

// answers is an answer of a verb.
func answers(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "\n"+strings.Join(events, "\n")+"\n")
	}
}

// fresh is the end of an answer of a store that has all.
func fresh(nodes ...string) string {
	end := machine.LogsEnd{Newest: map[string]time.Time{}}
	for _, n := range append(nodes, "store-1", "store-2", "metrics-1") {
		end.Newest[n] = time.Now()
	}
	data, err := json.Marshal(end)
	if err != nil {
		panic(err)
	}
	return `{"result":` + string(data) + `}`
}

const (
	two  = `{"result":[{"__REALTIME_TIMESTAMP":"5000000","MESSAGE":"one","SYSLOG_IDENTIFIER":"x","node":"edge-02","role":"worker"},{"__REALTIME_TIMESTAMP":"6000000","MESSAGE":"two","SYSLOG_IDENTIFIER":"x","node":"edge-01"}]}`
	done = `{"done":"2 entries"}`
)

func fromNode(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, `{"__REALTIME_TIMESTAMP":"7000000","MESSAGE":"from the node","SYSLOG_IDENTIFIER":"x"}`)
}

func TestTheStoreIsAskedWhereThereIsOne(t *testing.T) {
	p := newPlant(t, "store-1", "store-2")
	p.answers["store-1 "+query] = answers(two, fresh("edge-01", "edge-02"), done)
	q := nodeapi.Logs{
		Lines: 50_000, Priority: "3", Grep: `a"b`, Boot: "-1", Since: time.Unix(1, 0), Until: time.Unix(1_900_000_000, 500_000),
	}
	out, said, err := p.show(Options{Units: []string{"kafka", "a@.service"}, Sources: []string{"journal", "pod"}}, q)
	require.NoError(t, err)
	require.Empty(t, said)
	require.Equal(t, "edge-02    1970-01-01 00:00:05.000 x: one\nedge-01    1970-01-01 00:00:06.000 x: two\n", out)
	require.Equal(t, []string{"store-1 " + query}, p.asked)
	require.Equal(t, map[string]string{
		"nodes": "edge-01,edge-02,store-1,store-2,metrics-1", "units": "kafka.service,a@.service", "sources": "journal,pod",
		"priority": "3", "grep": `a"b`, "boot": "-1", "lines": "50000", "since": "1970-01-01T00:00:01Z", "until": "2030-03-17T17:46:40.0005Z",
	}, p.orders[0].Arguments)

	out, _, err = p.showAs(true, Options{}, nodeapi.Logs{Lines: 5})
	require.NoError(t, err)
	var first map[string]string
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &first))
	require.Equal(t, "plant", first["cluster"])
	require.Equal(t, [2]string{"edge-02", "worker"}, [2]string{first["node"], first["role"]})
}

func TestTheOtherStoreIsAskedAndThenTheNodes(t *testing.T) {
	p := newPlant(t, "store-1", "store-2")
	half := strings.Replace(two, "one", "half", 1)
	for name, broken := range map[string]http.HandlerFunc{
		"it is off":          nil,
		"VictoriaLogs is":    answers(`{"error":"ask the store, victoria-logs.service: refused"}`),
		"it ends":            answers(half),
		"it has no last":     answers(half, done),
		"it is malformed":    answers(`{"result":[1,`),
		"a line of no node":  answers(strings.ReplaceAll(half, "edge-02", `\u001b[2J`), fresh(), done),
		"a list of no lines": answers(`{"result":["x"]}`, fresh(), done),
		"too many lines":     answers(half, half, half, half, half, fresh(), done),
	} {
		t.Run(name, func(t *testing.T) {
			p.asked = nil
			p.answers = map[string]http.HandlerFunc{"store-1 " + query: broken, "store-2 " + query: answers(two, fresh("edge-01", "edge-02"), done)}
			out, said, err := p.show(Options{}, nodeapi.Logs{Lines: 4})
			require.NotContains(t, out+said, "\x1b")
			require.NoError(t, err)
			require.Contains(t, said, "store-1: ")
			require.Contains(t, said, "the store of store-2 is asked")
			require.Contains(t, out, ": one\n")
			require.NotContains(t, out, "half", "nothing of a store that did not answer to its end")
		})
	}
	t.Run("no store", func(t *testing.T) {
		p.asked = nil
		p.answers = map[string]http.HandlerFunc{"edge-01 " + nodeapi.LogsPath: fromNode}
		out, said, err := p.show(Options{}, nodeapi.Logs{Lines: 50_000})
		require.ErrorContains(t, err, "4 of 5 nodes did not answer")
		require.Contains(t, said, "no store of logs answers: store-1: it answers 503")
		require.Contains(t, said, "the nodes are asked themselves\n")
		require.Contains(t, out, "from the node")
		out, said, err = p.show(Options{Sources: []string{"audit"}}, nodeapi.Logs{Lines: 5})
		require.ErrorContains(t, err, "; the nodes themselves do not have that")
		require.Empty(t, out+said)
	})
	t.Run("nobody wants one", func(t *testing.T) {
		p.asked = nil
		_, said, _ := p.show(Options{Direct: true}, nodeapi.Logs{Lines: 5})
		require.NotContains(t, said, "store of logs")
		require.False(t, slices.ContainsFunc(p.asked, func(s string) bool { return strings.HasSuffix(s, query) }))
		require.Empty(t, (&Options{Several: true, Follow: true}).Stores(p.c))
		require.Empty(t, (&Options{}).Stores(p.c), "one node and one unit are asked as ever")
		p.c.Facts.Services = nil
		require.Empty(t, (&Options{Several: true}).Stores(p.c))
	})
}

func TestWhatTheStoreDoesNotHaveIsSaid(t *testing.T) {
	now := time.Now()
	end := func(cut bool, why string, newest map[string]time.Time) string {
		data, err := json.Marshal(machine.LogsEnd{Newest: newest, Cut: cut, Why: why})
		require.NoError(t, err)
		return `{"result":` + string(data) + `}`
	}
	p := newPlant(t, "store-1")
	newest := map[string]time.Time{"edge-01": now.Add(-time.Hour), "store-1": now, "store-2": now.Add(-9 * time.Minute), "metrics-1": now}
	p.answers["store-1 "+query] = answers(`{"say":"3 entries are left out\u001b"}`, two, end(true, "it took long", newest), done)
	_, said, err := p.show(Options{}, nodeapi.Logs{Lines: 2})
	require.NoError(t, err)
	require.Equal(t, `store-1: 3 entries are left out\x1b`+"\nthere may be older lines: it took long\n"+
		"edge-01: the store has its lines up to "+newest["edge-01"].UTC().Format(time.RFC3339)+"; see with --direct what it says since\n"+
		"edge-02: the store has had no line of its journal for a day; see with --direct what it says\n", said)

	_, said, err = p.show(Options{}, nodeapi.Logs{Lines: 2, Until: now.Add(-55 * time.Minute)})
	require.NoError(t, err)
	require.NotContains(t, said, "edge-01", "it is not behind that time")

	p.answers["store-1 "+query] = answers(two, end(true, "", newest), done)
	_, said, err = p.show(Options{Since: "1h"}, nodeapi.Logs{Lines: 2})
	require.NoError(t, err)
	require.Contains(t, said, "these are the last 2 lines; choose a later --since")
	_, said, err = p.show(Options{}, nodeapi.Logs{Lines: 2})
	require.NoError(t, err)
	require.NotContains(t, said, "these are the last", "as many were asked for")
	p.answers["store-1 "+query] = answers(end(false, "", newest), done)
	_, said, err = p.show(Options{}, nodeapi.Logs{Lines: 2})
	require.NoError(t, err)
	require.Contains(t, said, "the store has no such line\n")

	var errs bytes.Buffer
	s := &session{printer: &printer{said: &errs}}
	for i := range 100 {
		s.asks = append(s.asks, Ask{node: fmt.Sprintf("n-%d", i)})
	}
	s.sayBehind(nil, now)
	require.Equal(t, maxBehind+1, strings.Count(errs.String(), "\n"))
	require.Contains(t, errs.String(), "and the same of 80 more nodes\n")
}

func TestClocksThatAreNotTheStoresAreSaid(t *testing.T) {
	p := newPlant(t, "store-1")
	now := time.Now()
	data, err := json.Marshal(machine.LogsEnd{
		Newest: map[string]time.Time{"edge-01": now, "edge-02": now, "store-1": now, "store-2": now, "metrics-1": now},
		Clocks: map[string]float64{"edge-01": 45, "edge-02": -3600, "store-2": 1e300, "gone-1": 7},
	})
	require.NoError(t, err)
	p.answers["store-1 "+query] = answers(two, `{"result":`+string(data)+`}`, done)
	_, said, err := p.show(Options{}, nodeapi.Logs{Lines: 2})
	require.NoError(t, err)
	require.Equal(t, "edge-01: its clock is 45s ahead of the store's\nedge-02: its clock is 1h0m0s behind the store's\n"+
		"store-2: its clock is 87600h0m0s ahead of the store's\n", said)

	var errs bytes.Buffer
	s := &session{printer: &printer{said: &errs}}
	clocks := map[string]float64{}
	for i := range 100 {
		s.asks = append(s.asks, Ask{node: fmt.Sprintf("n-%d", i)})
		clocks[s.asks[i].node] = 5
	}
	s.sayClocks(clocks)
	require.Equal(t, maxBehind+1, strings.Count(errs.String(), "\n"))
	require.Contains(t, errs.String(), "and the clocks of 80 more nodes differ\n")
}

func TestNodesWithTheSameUnitsAreInOneQuestion(t *testing.T) {
	s := &session{}
	for i := range 200 {
		a := Ask{node: fmt.Sprintf("n-%050d", i), Logs: nodeapi.Logs{Lines: 7, Unit: "a.service"}}
		if i%2 == 0 {
			a.Unit = "b.service"
		}
		s.asks = append(s.asks, a)
	}
	verb, _ := nodeapi.FindVerb(nodeapi.LogsQuery)
	nodes := 0
	questions := s.questions(nil)
	for _, o := range questions {
		require.NoError(t, verb.Check(o))
		nodes += len(strings.Split(o.Arguments["nodes"], ","))
	}
	require.Equal(t, 200, nodes)
	require.Len(t, questions, 4)

	p := newPlant(t, "store-1")
	p.c.Facts.Members["a"], p.c.Facts.Members["b"] = []string{"edge-01"}, []string{"edge-02"}
	p.answers["store-1 "+query] = answers(two, fresh("edge-01", "edge-02"), done)
	o := &session{printer: &printer{said: io.Discard}, asks: []Ask{{node: "edge-01", Logs: nodeapi.Logs{Unit: "a.service"}}, {node: "edge-02"}}}
	require.Len(t, o.questions(nil), 2)
}

func TestOfSeveralQuestionsTheLastLinesAreShown(t *testing.T) {
	p := newPlant(t, "store-1")
	n := 0
	p.answers["store-1 "+query] = func(w http.ResponseWriter, r *http.Request) {
		n++
		answers(fmt.Sprintf(`{"result":[{"__REALTIME_TIMESTAMP":"%d","MESSAGE":"m%d","node":"edge-0%d"},{"__REALTIME_TIMESTAMP":"%d","MESSAGE":"m%d","node":"edge-0%d"}]}`,
			n*1e6, n, n, (n+2)*1e6, n+2, n), fresh("edge-01", "edge-02"), done)(w, r)
	}
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	asks := []Ask{{node: "edge-01", Logs: nodeapi.Logs{Lines: 3, Unit: "a.service"}}, {node: "edge-02", Logs: nodeapi.Logs{Lines: 3}}}
	require.NoError(t, Show(t.Context(), p.c, Output{Lines: w, Said: io.Discard}, asks, []string{"store-1"}, &Options{Several: true}))
	require.NoError(t, w.Flush())
	require.Equal(t, 2, n)
	require.Equal(t, []string{"m2", "m3", "m4"}, fields(out.String()))
}

// fields are the last words of lines.
func fields(text string) (out []string) {
	for l := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		words := strings.Fields(l)
		out = append(out, words[len(words)-1])
	}
	return out
}

func TestAnAlertIsFoundByWhatFires(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	alert := func(name, node string, since time.Time) string {
		return fmt.Sprintf(`{"labels":{"alertname":%q,"instance":%q},"state":"fires","since":%q}`, name, node, since.Format(time.RFC3339))
	}
	series := func(node string, seconds ...int64) string {
		var samples []string
		for _, s := range seconds {
			samples = append(samples, fmt.Sprintf(`{"at":%d,"value":"1"}`, s))
		}
		return fmt.Sprintf(`{"labels":{"__name__":"ALERTS","alertname":"DiskFull","instance":%q},"samples":[%s]}`, node, strings.Join(samples, ","))
	}
	const firesNow, firedOnce = "metrics-1 " + nodeapi.VerbsPath + "alerts", "metrics-1 " + nodeapi.VerbsPath + "metrics-query"
	none := answers(`{"result":[]}`, `{"done":"x"}`)
	since := func(node string, at int64) http.HandlerFunc {
		return answers(fmt.Sprintf(`{"result":[{"labels":{"alertname":"DiskFull","instance":%q},"samples":[{"at":%d,"value":"%d.5"}]}]}`,
			node, now.Unix(), at), `{"done":"x"}`)
	}
	value := func(text string) http.HandlerFunc {
		return answers(`{"result":[{"labels":{"alertname":"DiskFull","instance":"edge-02"},"samples":[{"at":1,"value":"`+text+`"}]}]}`, `{"done":"x"}`)
	}
	base := now.Add(-24 * time.Hour).Unix()
	for name, c := range map[string]struct {
		answers      map[string]http.HandlerFunc
		nodes        []string
		since, until time.Time
		said, err    string
	}{
		"one that fires": {
			map[string]http.HandlerFunc{firesNow: answers(`{"result":[`+alert("Other", "edge-02", now)+`,`+alert("DiskFull", "edge-01", now.Add(-time.Hour))+`]}`, `{"done":"x"}`)},
			[]string{"edge-01"}, now.Add(-65 * time.Minute), now.Add(-55 * time.Minute), "DiskFull began to fire at 2026-11-24T11:00:00Z", "",
		},
		"the last of several, with those of the same time": {
			map[string]http.HandlerFunc{firesNow: answers(`{"result":[`+alert("DiskFull", "store-1", now.Add(-3*time.Hour))+`,`+
				alert("DiskFull", "edge-01", now.Add(-time.Hour))+`,`+alert("DiskFull", "edge-02", now.Add(-61*time.Minute))+`]}`, `{"done":"x"}`)},
			[]string{"edge-01", "edge-02"}, now.Add(-66 * time.Minute), now.Add(-55 * time.Minute), "", "",
		},
		"one that has fired": {
			map[string]http.HandlerFunc{
				firesNow:             none,
				firedOnce:            answers(`{"result":[`+series("edge-02", base, base+120, base+7200, base+7320, base+7440)+`]}`, `{"done":"x"}`),
				firedOnce + recently: none,
			},
			[]string{"edge-02"}, time.Unix(base+7200-300, 0), time.Unix(base+7200+300, 0), "", "",
		},
		"one that has fired, and fires until a moment ago": {
			map[string]http.HandlerFunc{
				firesNow:             none,
				firedOnce:            answers(`{"result":[`+series("edge-02", base, base+120, base+240)+`]}`, `{"done":"x"}`),
				firedOnce + recently: since("edge-02", base+300),
			},
			[]string{"edge-02"}, time.Unix(base-300, 0), time.Unix(base+300, 0), "", "",
		},
		"one that has fired, and began again a moment ago": {
			map[string]http.HandlerFunc{
				firesNow:             none,
				firedOnce:            answers(`{"result":[`+series("edge-02", base, base+120)+`]}`, `{"done":"x"}`),
				firedOnce + recently: since("edge-02", base+900),
			},
			[]string{"edge-02"}, time.Unix(base+900-300, 0), time.Unix(base+900+300, 0), "", "",
		},
		"one that began a moment ago, between two looks": {
			map[string]http.HandlerFunc{
				firesNow:             none,
				firedOnce:            none,
				firedOnce + recently: since("edge-02", base),
			},
			[]string{"edge-02"}, time.Unix(base-300, 0), time.Unix(base+300, 0), "", "",
		},
		"a store whose times are none": {
			map[string]http.HandlerFunc{firesNow: none, firedOnce: none, firedOnce + recently: value("x")},
			nil, now, now, "", `the store of metrics says "x" for a time`,
		},
		"a store whose times are NaN": {
			map[string]http.HandlerFunc{firesNow: none, firedOnce: none, firedOnce + recently: value("NaN")},
			nil, now, now, "", `the store of metrics says "NaN" for a time`,
		},
		"nobody knows what fires": {
			map[string]http.HandlerFunc{
				firedOnce:            answers(`{"result":[`+series("edge-02", base)+`]}`, `{"done":"x"}`),
				firedOnce + recently: none,
			},
			[]string{"edge-02"}, time.Unix(base-300, 0), time.Unix(base+300, 0), "it is not known whether DiskFull fires now: metrics-1: it answers 503", "",
		},
		"one of no node": {
			map[string]http.HandlerFunc{firesNow: answers(`{"result":[`+alert("DiskFull", "plc-7:9100", now)+`]}`, `{"done":"x"}`)},
			[]string{"edge-01", "edge-02", "store-1", "store-2", "metrics-1"}, now.Add(-5 * time.Minute), now.Add(5 * time.Minute), "all are shown", "",
		},
		"one that never fired": {
			map[string]http.HandlerFunc{firesNow: answers(`{"done":"x"}`), firedOnce: answers(`{"done":"x"}`), firedOnce + recently: answers(`{"done":"x"}`)},
			nil, now, now, "", "no alert DiskFull fires, and none has in the last 7 days",
		},
		"nobody knows": {nil, nil, now, now, "", "look when DiskFull has fired: metrics-1: it answers 503"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlant(t)
			p.answers = c.answers
			var said bytes.Buffer
			e := Event{Alert: "DiskFull", Span: 10 * time.Minute}
			since, until, err := Find(t.Context(), p.c, e, now, &said)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, [2]int64{c.since.Unix(), c.until.Unix()}, [2]int64{since.Unix(), until.Unix()})
			var nodes []string
			for _, n := range p.c.Nodes {
				nodes = append(nodes, n.Name)
			}
			require.Equal(t, c.nodes, nodes)
			require.Contains(t, said.String(), c.said)
			for _, order := range p.orders {
				if q := order.Arguments["query"]; q != "" {
					const alerts = `ALERTS{alertname="DiskFull",alertstate="firing"}`
					require.Contains(t, []string{alerts, "tfirst_over_time(" + alerts + "[240s])"}, q)
				}
			}
		})
	}
}

func TestWhatIsTheNameOfAnAlert(t *testing.T) {
	for name, want := range map[string]bool{"NodeSilent": true, `a "b" ü`: true, "": false, "a\n": false, "\x1b": false, strings.Repeat("x", 257): false} {
		require.Equal(t, want, AlertName(name), "%q", name)
	}
}
