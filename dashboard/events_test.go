package dashboard

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
