package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// id is that of a silence.
const id = "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"

// lab is a node with an Alertmanager that answers as the test says, by method and path.
type lab struct {
	t       *testing.T
	m       *node.Machine
	cluster *facts.Cluster
	at      Alertmanager
	answers map[string]string
	// status is that of an answer where it is not 200.
	status map[string]int
	asked  []string
	bodies []string
}

func newLab(t *testing.T, answers map[string]string) *lab {
	l := &lab{
		t: t, m: node.New("test", paths.Root(t.TempDir())), answers: answers, status: map[string]int{},
		cluster: &facts.Cluster{Members: map[string][]string{metrics.AlertsRole: {"observer-01"}}},
	}
	l.m.Now = func() time.Time { return time.Date(2026, 11, 26, 9, 0, 0, 5, time.UTC) }
	file := l.m.Root.At(filepath.Join(paths.Secrets, metrics.Manager, metrics.AlertsPassword))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte("swordfish\n"), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "spore" || password != "swordfish" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		what := r.Method + " " + r.URL.Path
		l.asked, l.bodies = append(l.asked, what), append(l.bodies, string(body))
		if code := l.status[what]; code != 0 {
			w.WriteHeader(code)
		} else if _, known := l.answers[what]; !known {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, l.answers[what])
	}))
	t.Cleanup(server.Close)
	l.at = Alertmanager{Address: strings.TrimPrefix(server.URL, "http://")}
	return l
}

func (l *lab) do(handle verbs.Handler, o nodeapi.Order) (results []json.RawMessage, done string, err error) {
	l.t.Helper()
	byAnna := verbs.Handler(func(ctx context.Context, r *verbs.Run) (string, error) {
		r.Caller = "anna"
		return handle(ctx, r)
	})
	events, done, err := verbstest.Do(l.t, l.m, l.cluster, &facts.Node{Name: "observer-01"}, byAnna, o)
	for _, e := range events {
		results = append(results, e.Result)
	}
	return results, done, err
}

func read[T any](t *testing.T, results []json.RawMessage) (all []T) {
	t.Helper()
	for _, part := range results {
		var some []T
		require.NoError(t, json.Unmarshal(part, &some))
		all = append(all, some...)
	}
	return all
}

// firing is gettableAlert of Alertmanager's API.
func firing(labels, status string) string {
	return `{"annotations":{"summary":"it does not answer","description":"since a while","runbook":"alerts#nodesilent"},` +
		`"endsAt":"2026-11-26T09:05:00.000Z","fingerprint":"8f7e3f0a","receivers":[{"name":"people"}],` +
		`"startsAt":"2026-11-26T08:48:00.123Z","status":` + status + `,"updatedAt":"2026-11-26T08:59:00.000Z",` +
		`"generatorURL":"http://127.0.0.1:8880/vmalert/alert","labels":` + labels + `}`
}

const (
	active    = `{"inhibitedBy":[],"silencedBy":[],"state":"active"}`
	quiet     = `{"inhibitedBy":["a1"],"silencedBy":["` + id + `"],"state":"suppressed"}`
	inhibited = `{"inhibitedBy":["a1"],"silencedBy":[],"state":"suppressed"}`
	watchdog  = `{"alertname":"Watchdog","alertgroup":"spore","severity":"info"}`
)

// silenceNow is gettableSilence.
func silenceNow(id, state string) string {
	return `{"id":"` + id + `","status":{"state":"` + state + `"},"updatedAt":"2026-11-26T08:00:00.000Z","comment":"new disk",` +
		`"createdBy":"bert","endsAt":"2026-11-26T12:00:00.000Z","startsAt":"2026-11-26T08:00:00.000Z",` +
		`"matchers":[{"isEqual":true,"isRegex":false,"name":"instance","value":"edge-01"},{"isEqual":false,"isRegex":true,"name":"job","value":"a.*"}]}`
}

func list(all ...string) string { return "[" + strings.Join(all, ",") + "]" }

func TestAlertsComeTheWorstFirstWithWhoSilencedThem(t *testing.T) {
	l := newLab(t, map[string]string{
		"GET /api/v2/silences": list(silenceNow(id, "active")),
		"GET /api/v2/alerts": list(
			firing(`{"alertname":"A","severity":"info","instance":"edge-01"}`, active),
			firing(`{"alertname":"B","severity":"critical","instance":"edge-02"}`, inhibited),
			firing(`{"alertname":"C","instance":"edge-02"}`, active),
			firing(`{"alertname":"D","severity":"critical","instance":"edge-01"}`, quiet),
			firing(`{"alertname":"E","severity":"warning","instance":"edge-02"}`, active),
			firing(`{"alertname":"E","severity":"warning","instance":"edge-01"}`, active),
			firing(`{"alertname":"F","severity":"critical"}`, `{"state":"unprocessed"}`),
			firing(watchdog, active),
		),
	})
	results, done, err := l.do(l.at.Show, nodeapi.Order{})
	require.NoError(t, err)
	require.Equal(t, "firing: 5, silenced: 1, held back: 1", done)
	all := read[machine.Alert](t, results)
	var got []string
	for _, a := range all {
		got = append(got, strings.TrimSpace(a.Labels["alertname"]+" "+a.Labels["instance"])+" "+a.State)
	}
	require.Equal(t, []string{
		"Watchdog fires", "F fires", "E edge-01 fires", "E edge-02 fires", "A edge-01 fires", "C edge-02 fires", "B edge-02 held back", "D edge-01 silenced",
	}, got)
	require.Equal(t, machine.Alert{
		Labels: map[string]string{"alertname": "D", "severity": "critical", "instance": "edge-01"}, State: machine.Silenced,
		Since:   time.Date(2026, 11, 26, 8, 48, 0, 0, time.UTC),
		Summary: "it does not answer", Description: "since a while", Runbook: "alerts#nodesilent",
		Silences: []machine.Silence{{
			ID: id, By: "bert", Comment: "new disk", Begins: time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC), Ends: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
		}},
	}, all[7])
	require.Equal(t, []string{"GET /api/v2/silences", "GET /api/v2/alerts"}, l.asked)

	l.answers["GET /api/v2/silences"], l.answers["GET /api/v2/alerts"] = "[]", list(firing(`{"alertname":"D"}`, quiet))
	results, _, err = l.do(l.at.Show, nodeapi.Order{})
	require.NoError(t, err)
	require.Equal(t, []machine.Silence{{ID: id}}, read[machine.Alert](t, results)[0].Silences, "one that was made meanwhile")

	l.answers["GET /api/v2/alerts"] = "[]"
	results, done, err = l.do(l.at.Show, nodeapi.Order{})
	require.NoError(t, err)
	require.Empty(t, results)
	require.Equal(t, "firing: 0, silenced: 0, held back: 0", done)
}

func TestSilencesThatHaveEndedAreLeftOut(t *testing.T) {
	l := newLab(t, map[string]string{"GET /api/v2/silences": list(silenceNow("b", "pending"), silenceNow("c", "expired"), silenceNow("a", "active"))})
	results, done, err := l.do(l.at.Silences, nodeapi.Order{})
	require.NoError(t, err)
	require.Equal(t, "2 silences", done)
	all := read[machine.Silence](t, results)
	require.Equal(t, []string{"a", "b"}, []string{all[0].ID, all[1].ID})
	require.Equal(t, []bool{false, true}, []bool{all[0].Pending, all[1].Pending})
	require.Equal(t, []machine.Matcher{{Name: "instance", Value: "edge-01", Operator: "="}, {Name: "job", Value: "a.*", Operator: "!~"}}, all[0].Matchers)
}

func TestAMatcherIsWrittenAsInPromQL(t *testing.T) {
	for text, want := range map[string]string{
		`{"isRegex":false}`: "=", `{"isRegex":true}`: "=~", `{"isEqual":true,"isRegex":true}`: "=~",
		`{"isEqual":false,"isRegex":false}`: "!=", `{"isEqual":false,"isRegex":true}`: "!~",
	} {
		var m matcher
		require.NoError(t, json.Unmarshal([]byte(text), &m))
		require.Equal(t, want, m.operator(), text)
	}
}

func order(pairs ...string) nodeapi.Order {
	o := nodeapi.Order{Arguments: map[string]string{"for": "2h", "comment": "new power supply"}}
	for i := 0; i < len(pairs); i += 2 {
		o.Arguments[pairs[i]] = pairs[i+1]
	}
	return o
}

func TestASilenceIsOfWhoAsksForIt(t *testing.T) {
	l := newLab(t, map[string]string{
		"GET /api/v2/alerts": list(firing(watchdog, active), firing(`{"alertname":"NodeSilent","instance":"edge-01","job":"node"}`, active),
			firing(`{"alertname":"NodeSilent","instance":"edge-02","job":"node"}`, active)),
		"POST /api/v2/silences": `{"silenceID":"` + id + `"}`,
	})
	o := order("name", "NodeSilent", "node", "edge-01", "labels", `{"job":"node"}`)
	results, done, err := l.do(l.at.Silence, o)
	require.NoError(t, err)
	require.Equal(t, `{alertname="NodeSilent", instance="edge-01", job="node"} is silenced until 2026-11-26T11:00:00Z `+
		`(1 of 3 alerts now); spore alerts unsilence `+id+` ends it`, done)
	require.Equal(t, id, read[machine.Silence](t, results)[0].ID)
	require.Equal(t, []string{"GET /api/v2/alerts", "POST /api/v2/silences"}, l.asked)
	require.JSONEq(t, `{"matchers":[{"name":"alertname","value":"NodeSilent","isRegex":false,"isEqual":true},
		{"name":"instance","value":"edge-01","isRegex":false,"isEqual":true},{"name":"job","value":"node","isRegex":false,"isEqual":true}],
		"startsAt":"2026-11-26T09:00:00Z","endsAt":"2026-11-26T11:00:00Z","createdBy":"anna","comment":"new power supply"}`, l.bodies[1])

	l.asked, o.DryRun = nil, true
	results, done, err = l.do(l.at.Silence, o)
	require.NoError(t, err)
	require.Empty(t, results)
	require.Equal(t, `would silence {alertname="NodeSilent", instance="edge-01", job="node"} until 2026-11-26T11:00:00Z (1 of 3 alerts now); nothing was done`, done)
	require.Equal(t, []string{"GET /api/v2/alerts"}, l.asked)
}

func TestWhatWouldSilenceEverythingOrTheWatchdogIsRefused(t *testing.T) {
	const always = "the alert Watchdog says that alerts arrive, and fires always"
	for name, c := range map[string]struct {
		order  nodeapi.Order
		force  string
		silent bool // Watchdog does not fire now.
		err    string
	}{
		"everything":                           {order: order(), err: "that would silence every alert; name an alert, a node or a label"},
		"everything by force":                  {order: order(), force: "watchdog", err: "that would silence every alert"},
		"an alert":                             {order: order("name", "NodeSilent")},
		"an alert while Watchdog is silent":    {order: order("name", "NodeSilent"), silent: true},
		"a node":                               {order: order("node", "edge-01")},
		"a node while Watchdog is silent":      {order: order("node", "edge-01"), silent: true},
		"a label that Watchdog has not":        {order: order("labels", `{"severity":"warning"}`)},
		"a label that Watchdog has":            {order: order("labels", `{"severity":"info"}`), err: `{severity="info"} would also silence the alert Watchdog; --force watchdog does it nevertheless`},
		"that by force":                        {order: order("labels", `{"severity":"info"}`), force: "watchdog"},
		"a label while Watchdog is silent":     {order: order("labels", `{"severity":"warning"}`), silent: true, err: `nobody knows whether {severity="warning"} would silence it`},
		"Watchdog":                             {order: order("name", "Watchdog"), err: always},
		"Watchdog while it is silent":          {order: order("name", "Watchdog"), silent: true, err: always},
		"Watchdog by its label":                {order: order("labels", `{"alertname":"Watchdog"}`), err: always},
		"Watchdog of a node that it is not of": {order: order("name", "Watchdog", "node", "edge-01"), err: always},
		"Watchdog by force":                    {order: order("name", "Watchdog"), force: "watchdog"},
		"another force":                        {order: order("name", "NodeSilent"), force: "etcd", err: `force is "etcd", and what can be forced here is watchdog`},
		"a name given twice":                   {order: order("name", "A", "labels", `{"alertname":"B"}`), err: "the label alertname is given twice: it is what name says"},
		"a node given twice":                   {order: order("node", "a", "labels", `{"instance":"b"}`), err: "the label instance is given twice: it is what node says"},
	} {
		t.Run(name, func(t *testing.T) {
			alerts := list(firing(watchdog, active))
			if c.silent {
				alerts = "[]"
			}
			l := newLab(t, map[string]string{"GET /api/v2/alerts": alerts, "POST /api/v2/silences": `{"silenceID":"` + id + `"}`})
			c.order.Force = c.force
			require.NoError(t, check("alerts-silence", c.order))
			_, _, err := l.do(l.at.Silence, c.order)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
			require.NotContains(t, l.asked, "POST /api/v2/silences")
		})
	}
}

func check(verb string, o nodeapi.Order) error {
	v, _ := nodeapi.FindVerb(verb)
	return v.Check(o)
}

func TestASilenceIsEndedOnce(t *testing.T) {
	one, end := "GET /api/v2/silence/"+id, "DELETE /api/v2/silence/"+id
	l := newLab(t, map[string]string{one: silenceNow(id, "active"), end: ""})
	o := nodeapi.Order{Arguments: map[string]string{"id": id}}
	_, done, err := l.do(l.at.Unsilence, o)
	require.NoError(t, err)
	require.Equal(t, "the silence "+id+", made by bert (new disk) has ended", done)
	require.Equal(t, []string{one, end}, l.asked)

	l.asked, o.DryRun = nil, true
	_, done, err = l.do(l.at.Unsilence, o)
	require.NoError(t, err)
	require.Equal(t, "would end the silence "+id+", made by bert (new disk); nothing was done", done)
	require.Equal(t, []string{one}, l.asked)

	l.answers[one], o.DryRun = silenceNow(id, "expired"), false
	_, done, err = l.do(l.at.Unsilence, o)
	require.NoError(t, err)
	require.Equal(t, "the silence "+id+", made by bert (new disk) ended already, at 2026-11-26T12:00:00Z", done)
	require.NotContains(t, l.asked, end)

	delete(l.answers, one)
	_, _, err = l.do(l.at.Unsilence, o)
	require.EqualError(t, err, "there is no silence "+id+"; spore alerts silences lists them")
}

func TestWhatAlertmanagerRefusesIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		text   string
		err    string
	}{
		"a string":         {400, `"bad matcher"`, "alertmanager says: HTTP 400: bad matcher"},
		"an object":        {422, `{"code":602,"message":"startsAt in body is required"}`, "alertmanager says: HTTP 422: startsAt in body is required"},
		"text":             {500, "gone\xff\n", "alertmanager says: HTTP 500: gone\ufffd"},
		"much text":        {500, strings.Repeat("ä", 2000), "alertmanager says: HTTP 500: " + strings.Repeat("ä", 1024) + "…"},
		"another password": {401, "Unauthorized\n", "alertmanager says: HTTP 401: Unauthorized"},
		"another address":  {307, "", "alertmanager says: HTTP 307: "},
		"no JSON":          {200, "<html>", "the answer of Alertmanager is malformed: invalid character"},
		"another form":     {200, `[{"labels":["a"]}]`, "the answer of Alertmanager is malformed"},
		"no time":          {200, `[{"startsAt":"yesterday"}]`, "the answer of Alertmanager is malformed"},
		"without end":      {200, strings.Repeat(" ", maxAnswer+1), "the answer of Alertmanager has more than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, map[string]string{"GET /api/v2/silences": "[]", "GET /api/v2/alerts": c.text})
			l.status["GET /api/v2/alerts"] = c.status
			for _, handle := range []verbs.Handler{l.at.Show, l.at.Silence} {
				results, _, err := l.do(handle, order("name", "A"))
				require.ErrorContains(t, err, c.err)
				require.Empty(t, results)
			}
			require.NotContains(t, l.asked, "POST /api/v2/silences")
		})
	}

	l := newLab(t, map[string]string{"GET /api/v2/alerts": "[]", "POST /api/v2/silences": `{}`})
	_, _, err := l.do(l.at.Silence, order("name", "A"))
	require.ErrorContains(t, err, "it has no silenceID")
	l.status["POST /api/v2/silences"] = 400
	_, _, err = l.do(l.at.Silence, order("name", "A"))
	require.ErrorContains(t, err, "alertmanager says: HTTP 400")
	file := l.m.Root.At(filepath.Join(paths.Secrets, metrics.Manager, metrics.AlertsPassword))
	require.NoError(t, os.WriteFile(file, []byte("another"), 0o600))
	_, _, err = l.do(l.at.Silences, nodeapi.Order{})
	require.ErrorContains(t, err, "alertmanager says: HTTP 401")
	require.NoError(t, os.Remove(file))
	_, _, err = l.do(l.at.Silences, nodeapi.Order{})
	require.ErrorContains(t, err, "the password of Alertmanager: ")
	l.cluster.Members = nil
	_, _, err = l.do(l.at.Show, nodeapi.Order{})
	require.EqualError(t, err, "observer-01 has no alerts; ask a node with the role alerts")
}

func TestAStormOfAlertsIsShownAsFarAsPeopleRead(t *testing.T) {
	var all []string
	for i := range maxAlerts {
		all = append(all, firing(fmt.Sprintf(`{"alertname":"A","severity":"warning","instance":"edge-%d"}`, i), active))
	}
	all = append(all, firing(`{"alertname":"Last","severity":"critical"}`, active), firing(watchdog, active))
	l := newLab(t, map[string]string{"GET /api/v2/silences": "[]", "GET /api/v2/alerts": list(all...)})
	results, done, err := l.do(l.at.Show, nodeapi.Order{})
	require.NoError(t, err)
	require.Equal(t, "firing: 2001, silenced: 0, held back: 0; the worst 2000 are shown", done)
	got := read[machine.Alert](t, results)
	require.Len(t, got, maxAlerts)
	require.Equal(t, []string{"Watchdog", "Last"}, []string{got[0].Labels["alertname"], got[1].Labels["alertname"]})
}

// Labels and texts are what rules and targets say.
func TestAlertsWithoutMeasureFitIntoTheAnswer(t *testing.T) {
	labels := map[string]string{"alertname": strings.Repeat("<", 3000), "instance": "edge-01"}
	for i := range 300 {
		labels[fmt.Sprintf("l%04d%s", i, strings.Repeat("<", 200))] = strings.Repeat("\x01", 1500)
	}
	text, err := json.Marshal(labels)
	require.NoError(t, err)
	one := strings.ReplaceAll(firing(string(text), quiet), "since a while", strings.Repeat("ä", 30_000))
	l := newLab(t, map[string]string{"GET /api/v2/silences": "[]", "GET /api/v2/alerts": list(one, one, one)})
	results, _, err := l.do(l.at.Show, nodeapi.Order{})
	require.NoError(t, err)
	got := read[machine.Alert](t, results)
	require.Len(t, got, 3)
	require.Len(t, got[2].Labels, maxLabels)
	require.Equal(t, "edge-01", got[2].Labels["instance"])
	require.Equal(t, strings.Repeat("<", maxValue)+"…", got[2].Labels["alertname"])
	require.Equal(t, strings.Repeat("ä", maxText/2)+"…", got[2].Description)
}

// Alertmanager is a program that reads what others say; its answers are held to their form and to bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte(list(firing(watchdog, quiet))))
	f.Add([]byte(list(silenceNow(id, "active"))))
	f.Add([]byte(`[{"startsAt":"9999-12-31T23:59:59-23:00","endsAt":"0000-01-01T00:00:00+23:00","labels":{"\ud800":"\u001b"}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fits := func(v any) {
			text, err := json.Marshal(v)
			require.NoError(t, err)
			require.Less(t, len(text), nodeapi.MaxEvent-100)
		}
		silences, err := parseSilences(data)
		if err == nil {
			for _, one := range silences {
				fits(one.shown())
			}
		}
		if alerts, err := parseAlerts(data); err == nil {
			for _, one := range alerts {
				fits(one.shown(silences))
			}
		}
		if one, err := parseSilence(data); err == nil {
			fits(one.shown())
		}
	})
}
