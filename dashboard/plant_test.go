package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
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

func etcd(serves bool) []nodeapi.Member {
	return []nodeapi.Member{{Service: "etcd", Serves: serves, Of: []string{"master-01", "master-02", "master-03"}}}
}
