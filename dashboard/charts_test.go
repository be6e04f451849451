package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// stores has the plant answer queries, and returns the last order.
func (p *plant) stores(t *testing.T, series []machine.Series, problem error) *nodeapi.Order {
	t.Helper()
	verb, found := nodeapi.FindVerb("metrics-query")
	require.True(t, found)
	var asked nodeapi.Order
	p.facts.Members = map[string][]string{metrics.Role: {"edge-01"}, "mqtt-broker": {"edge-01", "edge.02"}}
	p.watch(t, Asker{Timeout: time.Second, Query: func(_ context.Context, o nodeapi.Order) ([]machine.Series, string, error) {
		require.NoError(t, verb.Check(o), "the node takes it")
		asked = o
		return series, "edge-01", problem
	}})
	return &asked
}

var dataOf = regexp.MustCompile(`data-series="([^"]*)"`)

func TestReadyChartsAreOfANodeOrOfARole(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.stores(t, nil, nil)
	_, text := p.page(t, "/charts")
	require.Contains(t, text, "Choose a node or a role, or write a query.")
	for address, want := range map[string]string{
		"/charts?node=edge-01": `instance=~"edge-01"`, "/charts?role=mqtt-broker&since=3d&week=1": `instance=~"edge-01|edge\\.02"`,
	} {
		body := p.html(t, address)
		found := dataOf.FindAllStringSubmatch(body, -1)
		require.Len(t, found, len(ready()))
		for _, f := range found {
			at, err := url.Parse(html.UnescapeString(f[1]))
			require.NoError(t, err)
			require.Contains(t, at.Query().Get("q"), want)
		}
		require.Equal(t, strings.Contains(address, "week"), strings.Contains(body, "data-before="))
		require.Contains(t, body, "/static/uplot/uPlot.iife.min.js")
	}
	require.Contains(t, p.html(t, "/nodes/edge-01"), `href="/charts?node=edge-01"`)
	require.NotContains(t, p.html(t, "/"), "uPlot")
}

func TestAChartOfAQueryHasAnAddressToShare(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.stores(t, nil, nil)
	body := p.html(t, "/charts?q="+url.QueryEscape(`rate(a{b="c"}[5m])`)+"&since=1h")
	require.Contains(t, body, `href="/charts?q=rate%28a%7Bb%3D%22c%22%7D%5B5m%5D%29&amp;since=2026-11-26T02%3A00%3A00Z&amp;until=2026-11-26T03%3A00%3A00Z"`)
	require.Contains(t, body, `until=1795662000`)
	for query, want := range map[string]string{
		"q=up&since=x": "since: ", "q=up&until=x": "until: ", "q=up&since=1h&until=2h": "until is behind since", "q=up&since=400d": "at most 366 days",
		"node=edge-99": "no node of cluster.yaml", "role=welder": "no node has the role", "q=" + strings.Repeat("x", maxPromQL+1): "at most 4000 bytes",
	} {
		_, text := p.page(t, "/charts?"+query)
		require.Contains(t, text, want)
	}
}

func TestSeriesAreAlignedAndThoseOfAWeekBeforeAreOfNow(t *testing.T) {
	p := newPlant(t, "edge-01")
	from := float64(1_795_658_400)
	asked := p.stores(t, []machine.Series{
		{Labels: map[string]string{"__name__": "up", "instance": evil}, Samples: []machine.Sample{
			{At: from - 604800, Value: "1"}, {At: from - 604800 + 15, Value: "NaN"}, {At: from - 604800 + 31, Value: "1234567.89"}, {At: from * 2, Value: "3"},
		}},
	}, nil)
	get := func(query string) (int, seriesAnswer, string) {
		w := httptest.NewRecorder()
		p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/series?"+query, nil))
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		var out seriesAnswer
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
		return w.Code, out, w.Body.String()
	}
	code, out, text := get("q=up&from=1795658400&until=1795658460&week=1")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, map[string]string{"query": "up", "from": "1795053600", "until": "1795053660", "step": "15"}, asked.Arguments)
	require.Equal(t, []int64{1795658400, 1795658415, 1795658430, 1795658445, 1795658460}, out.At)
	require.Contains(t, text, `"values":[1,null,1.23457e+06,null,null]`)
	require.Equal(t, "edge-01", out.Store)
	requireClean(t, out.Lines[0].Name[strings.Index(out.Lines[0].Name, "<"):])

	_, _, _ = get("q=up&from=1795572000&until=1795658400")
	require.Equal(t, "360", asked.Arguments["step"], "a day has 240 points")
	for _, query := range []string{"q=up", "q=up&from=x&until=1", "q=up&from=1795658460&until=1795658400", "q=up&from=1&until=1795658400"} {
		code, out, _ = get(query)
		require.Equal(t, http.StatusUnprocessableEntity, code, query)
		require.NotEmpty(t, out.Problem)
	}
	p.stores(t, make([]machine.Series, shownSeries+3), nil)
	_, out, _ = get("q=up&from=1795658400&until=1795658460")
	require.Len(t, out.Lines, shownSeries)
	require.Equal(t, 3, out.More)
	p.stores(t, nil, errors.New("edge-01: parse error"+evil))
	code, out, _ = get("q=up&from=1795658400&until=1795658460")
	require.Equal(t, http.StatusUnprocessableEntity, code)
	requireClean(t, out.Problem)
}

func TestChartsWithoutAStoreSayWhatToDo(t *testing.T) {
	p := newPlant(t, "edge-01")
	code, text := p.page(t, "/charts?q=up")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, "No node has the role metrics-store")
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/series?q=up&from=1795658400&until=1795658460", nil))
	require.Contains(t, w.Body.String(), "no node has the role metrics-store")
}

func TestHostileQueriesStayText(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.stores(t, nil, nil)
	q := url.Values{}
	for _, name := range []string{"q", "since", "until", "node", "role"} {
		q.Set(name, evil)
	}
	_, text := p.page(t, "/charts?"+q.Encode())
	require.NotContains(t, text, "\u202e")
	q.Del("since")
	q.Del("until")
	_, text = p.page(t, "/charts?"+q.Encode())
	requireClean(t, text)
}

func TestEachPageIsAtMost150KB(t *testing.T) {
	p := newPlant(t, "edge-01")
	for range 200 {
		p.nodes = append(p.nodes, facts.Node{Name: "node-with-a-long-name-" + string(rune('a'+len(p.nodes)%26))})
	}
	p.stores(t, nil, nil)
	total := len(p.html(t, "/charts?node=edge-01&week=1"))
	for _, path := range []string{"style.css", "live.js", "charts.js", "icon.svg", "uplot/uPlot.iife.min.js", "uplot/uPlot.min.css"} {
		total += len(p.html(t, "/static/"+path))
	}
	require.Less(t, total, 150_000)
}

func TestUPlotIsTheReleasedOne(t *testing.T) {
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	} {
		data, err := os.ReadFile("static/uplot/" + name)
		require.NoError(t, err)
		sum := sha256.Sum256(data)
		require.Equal(t, want, hex.EncodeToString(sum[:]), name)
		for _, bad := range []string{"innerHTML", "cssText", `setAttribute("style"`, "new Function", "eval("} {
			require.NotContains(t, string(data), bad, "the policy of the page refuses it")
		}
	}
}
