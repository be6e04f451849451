package dashboard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"spore/cluster/facts"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// plant is a cluster that answers as the test says, with a clock that the test has.
type plant struct {
	mu      sync.Mutex
	now     time.Time
	answers map[string]answer
	alerts  []machine.Alert
	problem error
	asked   map[string]int

	facts   facts.Cluster
	nodes   []facts.Node
	watcher *Watcher
	server  *Server
}

type answer struct {
	status nodeapi.Status
	health nodeapi.Health
	err    error
}

func newPlant(t *testing.T, names ...string) *plant {
	t.Helper()
	p := &plant{
		now: time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC), answers: map[string]answer{}, asked: map[string]int{},
		facts: facts.Cluster{Name: "plant", ID: "id"},
	}
	for _, name := range names {
		p.nodes = append(p.nodes, facts.Node{Name: name, Roles: []string{"mqtt-broker"}})
		p.answers[name] = well(name)
	}
	p.watch(t, Asker{Timeout: time.Second, Alerts: func(context.Context) ([]machine.Alert, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.alerts, p.problem
	}})
	p.alerts = []machine.Alert{{Labels: map[string]string{machine.AlertName: metrics.Watchdog}, State: machine.Fires}}
	return p
}

func (p *plant) watch(t *testing.T, a Asker) {
	t.Helper()
	a.Node = func(_ context.Context, name string) (nodeapi.Status, nodeapi.Health, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked[name]++
		a := p.answers[name]
		a.health.Time = p.now
		return a.status, a.health, a.err
	}
	p.watcher = NewWatcher(p.facts, p.nodes, a, p.time)
	var err error
	p.server, err = NewServer(Options{Cluster: "plant", Dir: "configs", Now: p.time}, p.watcher)
	require.NoError(t, err)
}

func (p *plant) time() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *plant) later(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

func (p *plant) says(name string, change func(*answer)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.answers[name]
	change(&a)
	p.answers[name] = a
}

// round asks everybody once.
func (p *plant) round() {
	for i, n := range p.nodes {
		p.watcher.askNode(context.Background(), i, n.Name)
	}
	if p.watcher.asker.Alerts != nil {
		p.watcher.askAlerts(context.Background())
	}
}

func (p *plant) page(t *testing.T, path string) (status int, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
	require.NotContains(t, w.Header().Get("Content-Security-Policy"), "unsafe")
	body := w.Body.String()
	root, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	requireInert(t, root)
	requireLabels(t, root)
	return w.Code, words(root)
}

// requireLabels holds that each cell has the name of its column, which a narrow screen shows in front of it. Lines of logs
// have none: what is in them says what it is.
func requireLabels(t *testing.T, root *html.Node) {
	t.Helper()
	attribute := func(n *html.Node, name string) string {
		for _, a := range n.Attr {
			if a.Key == name {
				return a.Val
			}
		}
		return ""
	}
	var heads []string
	lines := false
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "table":
			heads, lines = nil, attribute(n, "class") == "lines"
		case n.Data == "th" && attribute(n, "scope") == "col":
			heads = append(heads, strings.TrimSpace(words(n)))
		case n.Data == "tr" && n.Parent.Data == "tbody" && !lines:
			column := 0
			for cell := range n.ChildNodes() {
				if cell.Data == "td" && attribute(cell, "colspan") == "" {
					require.Less(t, column, len(heads), "a row with more cells than columns")
					require.Equal(t, heads[column], attribute(cell, "data-label"))
				}
				column++
			}
		}
	}
}

// words are what a page says, and requireInert holds that it has no script and no style of its own in it.
func words(n *html.Node) string {
	if n.Type == html.TextNode {
		return strings.Join(strings.Fields(n.Data), " ") + " "
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		b.WriteString(words(c))
	}
	return strings.ReplaceAll(b.String(), "  ", " ")
}

func requireInert(t *testing.T, root *html.Node) {
	t.Helper()
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" {
			require.Nil(t, n.FirstChild, "a script in the page")
		}
		require.NotEqual(t, "style", n.Data)
		require.NotEqual(t, "img", n.Data)
		for _, a := range n.Attr {
			require.NotEqual(t, "style", a.Key)
			require.False(t, strings.HasPrefix(a.Key, "on"), a.Key)
			if a.Key == "href" || a.Key == "src" {
				require.True(t, strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//") || strings.HasPrefix(a.Val, "#"), a.Val)
			}
		}
	}
}

func well(name string) answer {
	return answer{
		status: nodeapi.Status{
			Spore: 1, Cluster: "plant", Node: name, System: "running", Roles: []string{"mqtt-broker"}, Addresses: []string{"10.77.0.16"},
			Services: map[string]string{"mosquitto.service": "active"}, Versions: map[string]string{"mosquitto": "2.0.21"},
			Configuration: &nodeapi.Configuration{RootHash: "0123456789abcdef", Serial: 7},
		},
		health: nodeapi.Health{Cluster: "id", Node: name, Healthy: true, Conditions: []nodeapi.Condition{
			{Name: "agent", State: nodeapi.OK, Reason: "it runs"}, {Name: "space", State: nodeapi.OK, Reason: "90 % of /var is free"},
		}},
	}
}

func failing(a *answer) {
	a.health.Healthy = false
	a.health.Conditions = []nodeapi.Condition{
		{Name: "agent", State: nodeapi.OK, Reason: "it runs"}, {Name: "space", State: nodeapi.Failing, Reason: "1 % of /var is free"},
	}
}

func TestWhatIsWrongIsOnTopWithSinceWhenAndWhatToDo(t *testing.T) {
	p := newPlant(t, "edge-01", "edge-02", "edge-03")
	_, text := p.page(t, "/")
	require.Contains(t, text, "The nodes are asked …")
	p.round()
	_, text = p.page(t, "/")
	require.Contains(t, text, "Nothing is wrong")
	require.Contains(t, text, "3 nodes")

	p.later(time.Minute)
	p.says("edge-01", func(a *answer) { a.err = errors.New("no answer: connection refused") })
	p.says("edge-02", failing)
	p.alerts = append(p.alerts, machine.Alert{
		Labels: map[string]string{machine.AlertName: "PressTooHot", machine.AlertNode: "edge-03", machine.Severity: "warning"},
		State:  machine.Fires, Since: p.time().Add(-time.Hour), Summary: "the press is too hot", Runbook: "alerts#presstoohot",
	}, machine.Alert{Labels: map[string]string{machine.AlertName: "Quiet"}, State: machine.Silenced, Summary: "nobody wants to know"})
	p.round()
	p.later(5 * time.Minute)
	_, text = p.page(t, "/")
	require.Contains(t, text, "3 things are wrong")
	silent := strings.Index(text, "it does not answer: connection refused")
	space := strings.Index(text, "1 % of /var is free")
	hot := strings.Index(text, "the press is too hot")
	require.Positive(t, silent)
	require.Greater(t, space, silent, "both are critical")
	require.Greater(t, hot, space, "a warning comes behind")
	require.Contains(t, text, "since 2026-11-26 03:01 UTC, 5 min")
	require.Contains(t, text, "since 2026-11-26 02:01 UTC, 65 min")
	require.Contains(t, text, "spore clean configs --node edge-02")
	require.Contains(t, text, "read docs/alerts.md#presstoohot")
	require.NotContains(t, text, "nobody wants to know")
	require.NotContains(t, text, "or longer")

	p.says("edge-01", func(a *answer) { a.err = nil })
	p.says("edge-02", func(a *answer) { *a = well("edge-02") })
	p.alerts = p.alerts[:1]
	p.round()
	_, text = p.page(t, "/")
	require.Contains(t, text, "Nothing is wrong")
}

func TestWhatWasSoAtTheFirstLookMayBeSoForLonger(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.says("edge-01", failing)
	p.round()
	p.later(time.Minute)
	p.round()
	_, text := p.page(t, "/")
	require.Contains(t, text, "since 2026-11-26 03:00 UTC, 1 min or longer")
}

func TestWhatBecameSoWhileNobodyLookedMayBeSoForLonger(t *testing.T) {
	p := newPlant(t, "edge-01", "edge-02")
	p.round()
	p.later(3 * time.Hour)
	p.says("edge-01", failing)
	p.says("edge-02", func(a *answer) { a.err = errors.New("no answer: connection refused") })
	p.round()
	_, text := p.page(t, "/")
	require.Equal(t, 2, strings.Count(text, "since 2026-11-26 06:00 UTC, less than a minute or longer"), text)
}

func TestNothingIsSaidToBeWellBeforeAllHaveAnswered(t *testing.T) {
	p := newPlant(t, "master-01", "master-02", "master-03")
	for _, n := range p.nodes {
		p.says(n.Name, func(a *answer) { a.health.Quorums = etcd(true) })
	}
	p.watcher.askAlerts(t.Context())
	p.watcher.askNode(t.Context(), 0, "master-01")
	_, text := p.page(t, "/")
	require.Contains(t, text, "The nodes are asked …")
	require.NotContains(t, text, "critical:", "two that were not asked yet are no lost quorum")
	p.watch(t, p.watcher.asker)
	for i, n := range p.nodes {
		p.watcher.askNode(t.Context(), i, n.Name)
	}
	_, text = p.page(t, "/")
	require.Contains(t, text, "The nodes are asked …", "alerts were not")
	p.round()
	_, text = p.page(t, "/")
	require.Contains(t, text, "Nothing is wrong")
	p.later(time.Hour)
	_, text = p.page(t, "/")
	require.NotContains(t, text, "Nothing is wrong", "that was an hour ago")
}

func etcd(serves bool) []nodeapi.Member {
	return []nodeapi.Member{{Service: "etcd", Serves: serves, Of: []string{"master-01", "master-02", "master-03"}}}
}

func TestWhatASilentNodeSaidLastIsNotHowItIs(t *testing.T) {
	p := newPlant(t, "master-01", "master-02", "master-03")
	for _, n := range p.nodes {
		p.says(n.Name, func(a *answer) { a.health.Quorums = etcd(true) })
	}
	p.says("master-02", func(a *answer) { failing(a); a.health.Quorums = etcd(true) })
	p.round()
	for _, name := range []string{"master-02", "master-03"} {
		p.says(name, func(a *answer) { a.err = errors.New("no answer in time") })
	}
	p.round()
	_, text := p.page(t, "/")
	require.Contains(t, text, "1 of 3 members serve; not master-02, master-03; it needs 2 to decide")
	require.Contains(t, text, "it said last: 1 % of /var is free")
}

func TestANodeThatRefusesHasPower(t *testing.T) {
	p := newPlant(t, "edge-01")
	for text, err := range map[string]error{
		`it answers 403: "withdrawn"`: nodeapi.Refusal{Status: http.StatusForbidden, Text: "withdrawn"},
		"tls: bad certificate":        errors.New("no answer: tls: bad certificate"),
	} {
		p.says("edge-01", func(a *answer) { a.err = err })
		p.round()
		_, page := p.page(t, "/")
		require.Contains(t, page, "it does not tell how it is: "+text)
		require.NotContains(t, page, "power")
	}
}

func TestThatNoNodeAnswersIsSaidOnce(t *testing.T) {
	refuses := errors.New("no answer: remote error: tls: bad certificate")
	silent := errors.New("no answer: connection refused")
	for name, c := range map[string]struct {
		first, second error
		says          string
	}{
		"no way there":                 {silent, silent, "no node answers see whether this machine reaches the network of the nodes"},
		"a certificate withdrawn":      {refuses, refuses, "no node takes the certificate of this page spore access configs"},
		"one refuses, one is silent":   {refuses, silent, "no node answers"},
		"one answers, one is silent":   {nil, silent, ""},
		"one answers, another refuses": {nil, refuses, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlant(t, "edge-01", "edge-02")
			p.says("edge-01", func(a *answer) { a.err = c.first })
			p.watcher.askNode(t.Context(), 0, "edge-01")
			_, text := p.page(t, "/")
			require.NotContains(t, text, "no node", "the other one was not asked yet")
			p.says("edge-02", func(a *answer) { a.err = c.second })
			p.round()
			_, text = p.page(t, "/")
			if c.says == "" {
				require.NotContains(t, text, "no node")
				return
			}
			require.Contains(t, text, c.says)
			require.Less(t, strings.Index(text, c.says), strings.Index(text, "edge-01"), "it comes first")
		})
	}
}

func TestAPageIsDrawnAgainWhenAValueBecomesOld(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.round()
	p.later(stale - drawn/2)
	d, _, err := p.server.draw("/")
	require.NoError(t, err)
	require.NotContains(t, d.main, "as of")
	p.later(drawn/2 + time.Millisecond)
	d, _, err = p.server.draw("/")
	require.NoError(t, err)
	require.Contains(t, d.main, "as of 9 s ago")
}

func TestWhatIsToBeDoneHasTheFolderAsItIs(t *testing.T) {
	require.Equal(t, []string{"spore net a%s%d edge-01", "spore health a%s%d --all --node edge-01"}, remedy("a%s%d", "network", "edge-01"))
}

func TestTheFolderIsOneWordOfACommand(t *testing.T) {
	for dir, want := range map[string]string{
		"configs": "configs", "../site-b/configs": "../site-b/configs", "my plant": "'my plant'", "a;reboot": "'a;reboot'", "it's": `'it'\''s'`,
	} {
		require.Equal(t, want, word(dir))
	}
}

func TestOldValuesAreShownAsOldOnes(t *testing.T) {
	p := newPlant(t, "edge-01", "edge-02")
	p.round()
	p.later(stale + time.Second)
	p.watcher.askNode(t.Context(), 1, "edge-02")
	_, text := p.page(t, "/")
	require.Equal(t, 1, strings.Count(text, "as of 10 s ago"), text)
	_, text = p.page(t, "/nodes/edge-01")
	require.Contains(t, text, "as of 10 s ago. What you see is what it said then.")
	_, text = p.page(t, "/nodes/edge-02")
	require.NotContains(t, text, " ago")
	p.says("edge-02", func(a *answer) { a.err = errors.New("no answer in time") })
	p.later(time.Hour)
	p.round()
	_, text = p.page(t, "/nodes/edge-02")
	require.Contains(t, text, "it does not answer: no answer in time")
	require.Contains(t, text, "as of 60 min ago")
	require.Contains(t, text, "mosquitto.service", "what it said last is still there")
}

func TestANodesPageHasWhatItSays(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.says("edge-01", func(a *answer) {
		a.status.Services["kafka.service"] = "failed"
		a.status.Failed = []string{"kafka.service", "other.service"}
		a.status.Held = []nodeapi.Held{{Role: "kafka-broker", Reason: "it waits for its bundle"}}
		a.status.Configuration.Trial = true
	})
	p.round()
	code, text := p.page(t, "/nodes/edge-01")
	require.Equal(t, http.StatusOK, code)
	for _, want := range []string{"mosquitto.service", "critical: failed", "other.service", "0123456789ab", "7, on trial", "mosquitto 2.0.21", "10.77.0.16"} {
		require.Contains(t, text, want)
	}
	_, text = p.page(t, "/")
	require.Contains(t, text, "kafka-broker: it waits for its bundle")
	code, text = p.page(t, "/nodes/edge-99")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, text, "There is no such page")
}

func TestAlertsThatNobodyKnowsAreSaid(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.problem = errors.New("edge-01: no answer in time")
	p.round()
	_, text := p.page(t, "/")
	require.Contains(t, text, "it is not known which alerts fire: edge-01: no answer in time")
	require.NotContains(t, text, "the alert that always fires does not")
	hot := machine.Alert{
		Labels: map[string]string{machine.AlertName: "PressTooHot", machine.Severity: "critical"}, State: machine.Fires,
		Since: p.time().Add(time.Minute), Summary: "the press is too hot", Runbook: "https://wiki.plant.example/press#hot",
	}
	quiet := machine.Alert{Labels: map[string]string{machine.AlertName: metrics.Watchdog}, State: machine.Silenced}
	p.problem, p.alerts = nil, []machine.Alert{hot, quiet}
	p.round()
	_, text = p.page(t, "/alerts")
	require.Contains(t, text, metrics.Watchdog, "it is silenced")
	require.Contains(t, text, "0 s ago", "a clock that is ahead makes no age below zero")
	p.problem = errors.New("edge-01: no answer in time")
	p.round()
	_, text = p.page(t, "/")
	require.Contains(t, text, "it is not known which alerts fire")
	require.Contains(t, text, "last known: the press is too hot")
	require.Contains(t, text, "read https://wiki.plant.example/press#hot")
	p.problem, p.alerts = nil, nil
	p.round()
	_, text = p.page(t, "/")
	require.Contains(t, text, "the alert that always fires does not: alerts may be missing")
	p.watch(t, Asker{Timeout: time.Second})
	p.round()
	_, text = p.page(t, "/alerts")
	require.Contains(t, text, "No node has the role alerts")
	require.Contains(t, text, "give alerts to a node in cluster.yaml")
	require.Contains(t, text, "spore push configs")
}

func TestHostileTextStaysText(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.says("edge-01", func(a *answer) {
		a.status.System, a.status.Problem, a.status.Addresses = evil, evil, []string{evil}
		a.status.Services = map[string]string{evil: evil}
		a.status.Versions = map[string]string{evil: evil}
		a.status.Held = []nodeapi.Held{{Role: evil, Reason: evil}}
		a.status.Configuration.RootHash, a.status.Configuration.Problem = evil, evil
		a.health.Conditions = append(a.health.Conditions, nodeapi.Condition{Name: evil, State: nodeapi.Warning, Reason: evil + strings.Repeat("x", 10_000)})
	})
	p.alerts = append(p.alerts, machine.Alert{
		Labels: map[string]string{machine.AlertName: evil, machine.AlertNode: evil, machine.Severity: evil}, State: machine.Fires, Summary: evil, Runbook: evil,
	})
	p.round()
	for _, path := range []string{"/", "/nodes/edge-01", "/alerts", "/" + "nodes/%3Cscript%3E"} {
		_, text := p.page(t, path) // It holds that there is nothing in the page that does something.
		require.NotContains(t, text, "\x1b")
		require.NotContains(t, text, "\u202e")
		require.NotContains(t, text, "\u2066")
		require.NotContains(t, text, strings.Repeat("x", maxText+1))
	}
	_, text := p.page(t, "/")
	require.Contains(t, text, `<script>alert(1)</script>`, "it is shown")
}

func TestACertificateThatHasEndedEndsThePage(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.watch(t, Asker{Timeout: time.Second, Ends: p.time().Add(time.Hour)})
	p.round()
	_, text := p.page(t, "/")
	require.Contains(t, text, "at the latest at 2026-11-26 04:00 UTC")
	p.later(2 * time.Hour)
	code, text := p.page(t, "/")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, "The certificate has ended")
	require.NotContains(t, text, "edge-01")
	require.Equal(t, []string{"event: ended"}, eventsOf(t, p, 1))
}

// eventsOf are the first events of the page of the cluster, by their names.
func eventsOf(t *testing.T, p *plant, many int) []string {
	t.Helper()
	s := httptest.NewServer(p.server)
	defer s.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/events?page=/", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	var out []string
	for lines := bufio.NewScanner(res.Body); len(out) < many && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "event: ") {
			out = append(out, lines.Text())
		}
	}
	return out
}

func TestAPageIsSentAgainWhenItChanges(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.round()
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		time.Sleep(drawn / 2)
		p.says("edge-01", failing)
		p.later(2 * drawn)
		p.round()
	}()
	require.Equal(t, []string{"event: page", "event: page"}, eventsOf(t, p, 2))
	<-changed
	require.Equal(t, []string{"event: page", "event: same"}, eventsOf(t, p, 2), "what is the same is not sent again")
}

func TestABrowserThatHasThePageIsNotSentItAgain(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.round()
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	sum := regexp.MustCompile(`data-sum="([0-9a-f]+)"`).FindStringSubmatch(w.Body.String())
	require.Len(t, sum, 2)
	first := func(query, last string) string {
		ctx, stop := context.WithCancel(t.Context())
		stop() // The first event is sent, and none is waited for.
		r := httptest.NewRequest(http.MethodGet, "/events?page=/"+query, nil).WithContext(ctx)
		r.Header.Set("Last-Event-ID", last)
		w := &writer{ResponseRecorder: httptest.NewRecorder()}
		p.server.ServeHTTP(w, r)
		name, _, _ := strings.Cut(w.Body.String(), "\n")
		require.Contains(t, w.Body.String(), "\nid: "+sum[1]+"\n")
		return name
	}
	require.Equal(t, "event: page", first("", ""))
	require.Equal(t, "event: same", first("&sum="+sum[1], ""))
	require.Equal(t, "event: page", first("&sum="+sum[1], "0"), "since the page it has got another one")
	require.Equal(t, "event: same", first("&sum=0", sum[1]))
}

// writer has time for whatever it is sent.
type writer struct{ *httptest.ResponseRecorder }

func (*writer) SetWriteDeadline(time.Time) error { return nil }

func TestNodesAreAskedWhileSomebodyLooks(t *testing.T) {
	p := newPlant(t, "edge-01")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.watcher.Run(ctx); close(ended) }()
	asked := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.asked["edge-01"]
	}
	time.Sleep(50 * time.Millisecond)
	require.Zero(t, asked(), "nobody has looked")
	p.watcher.Look()
	require.Eventually(t, func() bool { return asked() > 0 }, time.Minute, time.Millisecond)
	stop()
	<-ended
}

func TestThePageIsSmall(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.round()
	total := 0
	for _, path := range []string{"/", "/static/style.css", "/static/live.js", "/static/icon.svg"} {
		w := httptest.NewRecorder()
		p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, w.Code, path)
		n, err := io.Copy(io.Discard, w.Body)
		require.NoError(t, err)
		total += int(n)
	}
	require.Less(t, total, 50_000)
}

func TestTwoHundredNodesAreDrawnQuickly(t *testing.T) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("node-%03d", i))
	}
	p := newPlant(t, names...)
	p.round()
	began := time.Now()
	const draws = 20
	for range draws {
		p.later(2 * drawn)
		_, _, err := p.server.draw("/")
		require.NoError(t, err)
	}
	each := time.Since(began) / draws
	t.Logf("the page of 200 nodes is drawn in %s", each)
	require.Less(t, each, 200*time.Millisecond)
}

func TestAPageThatNeedsARoleIsThereWhereANodeHasIt(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.server.rows = append(p.server.rows, row{path: "/press", title: "Presses", template: "problem", needs: []string{"press"},
		make: func(_ *Server, a asked, p *page) bool {
			p.Problem = &problem{Title: "Topic " + a.query.Get("topic")}
			return true
		}})
	_, text := p.page(t, "/")
	require.NotContains(t, text, "Presses")
	code, text := p.page(t, "/press?topic=press")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, text, "No node has the role press.")
	p.watcher.cluster.Members = map[string][]string{"press": {"edge-01"}}
	_, text = p.page(t, "/")
	require.Contains(t, text, "Configuration Machines Presses")
	_, text = p.page(t, "/press?topic=press")
	require.Contains(t, text, "Topic press")
	d, _, err := p.server.draw("/press?topic=press")
	require.NoError(t, err)
	require.Contains(t, d.main, "Topic press")
}

func TestEachPathHasOneRow(t *testing.T) {
	p := newPlant(t, "edge-01")
	for path, want := range map[string]string{
		"/": "cluster", "/alerts": "alerts", "/nodes/edge-01": "node", "/nodes/a/b": "node", "/nodes": "", "/alerts/": "", "/x": "", "": "",
	} {
		r, _, _ := p.server.find(path)
		require.Equal(t, want, r.template, path)
	}
}

func TestOnlyAPageIsAskedForEvents(t *testing.T) {
	p := newPlant(t, "edge-01")
	for _, address := range []string{"", "nodes", "https://plant.example/", "//plant.example/", "/%zz", "/" + strings.Repeat("x", maxAddress)} {
		w := httptest.NewRecorder()
		p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events?page="+url.QueryEscape(address), nil))
		require.Equal(t, http.StatusBadRequest, w.Code, address)
	}
}

// A page that does not change while it is open has no events: its script would say that the connection is lost.
func TestAPageThatStaysAsksForNoEventsWhateverItShows(t *testing.T) {
	p := newPlant(t, "edge-01")
	scripted := func(path string) bool {
		w := httptest.NewRecorder()
		p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return strings.Contains(w.Body.String(), "live.js")
	}
	require.True(t, scripted("/"))
	require.True(t, scripted("/nodes/none"))
	require.False(t, scripted("/devices/none"))
	p.watcher.asker.Ends = p.now.Add(-time.Second)
	require.False(t, scripted("/history"))
	require.True(t, scripted("/"))
}
