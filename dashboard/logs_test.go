package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/fleet/logs"
)

// evil is a text that would do something on a page that takes it for more than text.
const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\x1b[2J\u202eevil\u2066'"

func requireClean(t *testing.T, text string) {
	t.Helper()
	require.Contains(t, text, `<script>alert(1)</script>`, "it is shown")
	for _, bad := range []string{"\x1b", "\u202e", "\u2066"} {
		require.NotContains(t, text, bad)
	}
}

func (p *plant) finds(t *testing.T, found logs.Found, err error) *logs.Question {
	var asked logs.Question
	p.watch(t, Asker{Timeout: time.Second, Logs: func(_ context.Context, q logs.Question) (logs.Found, error) {
		asked = q
		return found, err
	}})
	return &asked
}

func (p *plant) html(t *testing.T, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func TestLogsAreLookedForAsTheAddressSays(t *testing.T) {
	p := newPlant(t, "edge-01", "edge-02")
	at := p.time()
	asked := p.finds(t, logs.Found{
		Store: "edge-02", HasStore: true, Since: at.Add(-time.Hour), Until: at, Said: []string{"edge-01: the store has its lines up to noon"},
		Lines: []logs.Line{
			{Time: at.Add(-30 * time.Minute), Node: "edge-01", Unit: "kafka.service", Priority: 3, Message: "fenced"},
			{Time: at.Add(-time.Minute), Node: "edge-02", Pod: "plant/press-0/main", Priority: 6, Message: "hot"},
		},
	}, nil)
	_, text := p.page(t, "/logs")
	require.Zero(t, *asked, "nothing was looked for")
	require.NotContains(t, text, "There is no such line")
	const address = "/logs?node=edge-01&role=mqtt-broker&unit=kafka&since=1h&until=2026-11-26T03%3A00%3A00Z&priority=err&grep=a%7Cb"
	_, text = p.page(t, address)
	require.Equal(t, logs.Question{
		Nodes: []string{"edge-01"}, Roles: []string{"mqtt-broker"}, Units: []string{"kafka"}, Since: "1h", Until: "2026-11-26T03:00:00Z",
		Priority: "err", Pattern: "a|b", Lines: counted,
	}, *asked)
	require.Contains(t, text, "The store of edge-02 has answered.")
	require.Contains(t, text, "edge-01: the store has its lines up to noon")
	require.Contains(t, text, "critical: fenced")
	require.Less(t, strings.Index(text, "hot"), strings.Index(text, "fenced"), "the newest is on top")
	body := p.html(t, address)
	require.Contains(t, body, `value="a|b"`)
	require.Contains(t, body, `<option selected>edge-01`)
	require.Contains(t, body, `href="/logs?grep=a%7Cb&amp;node=edge-01&amp;priority=err&amp;role=mqtt-broker&amp;since=2026-11-26T02%3A00%3A00Z&amp;unit=kafka&amp;until=2026-11-26T03%3A00%3A00Z"`)
	require.Contains(t, body, `href="/logs?node=edge-01&amp;since=1h&amp;unit=kafka.service"`)
	require.Contains(t, body, `href="/logs?pod=plant%2Fpress-0%2Fmain&amp;since=1h"`)
	require.NotContains(t, body, "live.js", "the form stays as it is")
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events?page="+url.QueryEscape(address), nil))
	require.Equal(t, http.StatusNotFound, w.Code)
}

func TestLogsWithoutAStoreSaySo(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.finds(t, logs.Found{Problem: errors.New("1 of 2 nodes did not answer, or not to the end"), Said: []string{"edge-02: no answer in time"}}, nil)
	_, text := p.page(t, "/logs?since=1h")
	for _, want := range []string{"no node has the role logs", "edge-02: no answer in time", "1 of 2 nodes did not answer", "There is no such line."} {
		require.Contains(t, text, want)
	}
	p.finds(t, logs.Found{HasStore: true}, nil)
	_, text = p.page(t, "/logs?since=1h")
	require.Contains(t, text, "No store has answered; the nodes were asked themselves.")
	p.finds(t, logs.Found{}, errors.New(`"yesterday" is not a time`))
	_, text = p.page(t, "/logs?since=yesterday")
	require.Contains(t, text, `Nothing can be looked for so: "yesterday" is not a time`)
}

func TestHostileLinesStayText(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.finds(t, logs.Found{Store: evil, Said: []string{evil}, Lines: []logs.Line{
		{Time: p.time(), Node: evil, Unit: evil, Message: evil}, {Time: p.time(), Node: evil, Pod: evil, Message: evil},
		{Time: p.time(), Node: "edge-01", Identifier: evil, Message: evil},
	}}, nil)
	q := url.Values{}
	for _, name := range logFields {
		q.Set(name, evil)
	}
	_, text := p.page(t, "/logs?"+q.Encode())
	requireClean(t, text)
	p.finds(t, logs.Found{}, errors.New(evil))
	_, text = p.page(t, "/logs?"+q.Encode())
	requireClean(t, text)
}

func TestAPageOfLogsIsSmall(t *testing.T) {
	p := newPlant(t, "edge-01")
	found := logs.Found{Since: p.time().Add(-time.Hour), Until: p.time()}
	for i := range counted {
		found.Lines = append(found.Lines, logs.Line{
			Time: found.Since.Add(time.Duration(i) * time.Hour / counted), Node: "edge-01", Unit: "a.service", Message: fmt.Sprint(i, strings.Repeat(`"`, 200)),
		})
	}
	p.finds(t, found, nil)
	body := p.html(t, "/logs?since=1h")
	require.Less(t, len(body), 110_000)
	require.Contains(t, body, "9999&#34;")
	require.Contains(t, body, "of 10000 lines, the newest on top")
	require.Contains(t, body, "Earlier lines")
	require.Equal(t, bars, strings.Count(body, "<rect class=\"all\""))
	require.Equal(t, bars, strings.Count(body, "<rect class=\"bad\""), "priority 0 is an emergency")
	require.Contains(t, body, "Lines over time, 10000 in all")
}

func TestSearchesAreBounded(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.finds(t, logs.Found{}, nil)
	p.server.searches.fill()
	_, text := p.page(t, "/logs?since=1h")
	require.Contains(t, text, "3 searches are under way")
}
