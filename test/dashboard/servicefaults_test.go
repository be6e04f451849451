//go:build e2e

package dashboard

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"spore/test/browser"
)

// serviceBound is that of docs/dashboard.md in which what has become of a service is seen. One that answers at once is
// asked every 5 s; one that this machine, which has other things to do, takes 0.3 s to ask is asked every 20 s, and an
// answer that is due is late after less than 10 more.
const serviceBound = 30 * time.Second

// greyService is that the page of a service shows what it has as old.
const greyService = `document.querySelector("#main > div.stale") && getComputedStyle(document.querySelector("#main > div.stale")).filter.includes("grayscale")`

// opened serves a plant and opens pages of it, each in a tab of its own, and waits until each has its text. A browser has
// six connections to an address, of which each page keeps one: the one that has let the browser in is closed.
func opened(t *testing.T, p *plant, texts map[string]string) map[string]*browser.Tab {
	t.Helper()
	require.NoError(t, p.serve())
	t.Cleanup(p.stopped)
	tabs := map[string]*browser.Tab{}
	for path, text := range texts {
		b := chromium.Tab(t)
		if len(tabs) == 0 {
			b.Open(p.address)
		}
		b.Open(p.origin + path)
		b.Sees(browser.Patience, browser.Says(text), path)
		require.False(t, browser.Eval[bool](b, "!!("+greyService+")"), path)
		tabs[path] = b
	}
	return tabs
}

func TestFaultsOfServicesAreSeenWhileTheirPagesAreOpen(t *testing.T) {
	t.Parallel()
	p := serving()
	tabs := opened(t, p, map[string]string{
		"/kafka": "edge-01 leads", "/quorums": "edge-01 leads", "/kubernetes": "2 of 3 nodes are ready", "/ceph": "HEALTH_WARN",
	})
	began := time.Now()
	within := func(bound time.Duration) time.Duration { return max(bound-time.Since(began), 0) }
	// Kafka's controllers have lost their majority, and so have Ceph's monitors; Kubernetes takes 7 s to answer. The
	// store of metrics is gone.
	p.breaks("kafka-quorum", fault{answer: []string{`{"leader":"","epoch":12,"voters":[{"id":1,"name":"edge-01","silent":-1},
		{"id":2,"name":"edge-02","silent":-1},{"id":4,"name":"edge-04","silent":-1}],"brokers":[]}`}})
	p.breaks("ceph-status", fault{answer: []string{`{"status":{"health":{"status":"HEALTH_ERR","checks":{}},"quorum_names":[]}}`,
		`{"monitors":{"all":["edge-01","edge-02","edge-03"],"quorum":[],"leader":""}}`}})
	p.breaks("kubernetes-status", fault{takes: 7 * time.Second})
	p.breaks("metrics-query", fault{err: errors.New("no answer: connection refused")})
	// First: it is grey until the answer comes, and what is lost stays so.
	tabs["/kubernetes"].Sees(within(serviceBound), greyService, "an answer that was due is late")
	require.Contains(t, tabs["/kubernetes"].Text(), "2 of 3 nodes are ready", "what is old stays")
	lost := browser.Says("0 of 3 serve; nobody leads; a majority is 2, so nothing is written")
	tabs["/kafka"].Sees(within(serviceBound), lost, "Kafka has no quorum")
	tabs["/quorums"].Sees(within(serviceBound), `[...document.querySelectorAll("section")].filter((e) => e.innerText.includes("nobody leads")).length === 2`,
		"two quorums are lost")
	tabs["/ceph"].Sees(within(serviceBound), browser.Says("0 of 3 in the quorum; nobody leads")+"&&"+browser.Says("HEALTH_ERR"), "no monitor of Ceph leads")
	tabs["/ceph"].Sees(within(serviceBound), browser.Says("The store of metrics does not answer: edge-01: no answer: connection refused"), "the store of metrics is gone")
	tabs["/kubernetes"].Sees(within(serviceBound+7*time.Second), browser.Says("The answer took 7 s")+"&& !("+greyService+")", "a node that answers slowly")

	began = time.Now()
	p.breaks("ceph-status", fault{answer: []string{`{"status":{"health":{"status":["` + "x" + `"]}}}`}})
	p.breaks("kafka-topics", fault{answer: []string{fmt.Sprintf(`[{"name":%q,"partitions":[{"leader":-1,"replicas":[1],"inSync":[]}]}]`, hostileInJSON)}})
	p.breaks("kafka-lag", fault{answer: []string{`[{"group":`}})
	tabs["/ceph"].Sees(within(serviceBound), browser.Says("the answer is malformed")+"&&"+greyService, "an answer that is malformed")
	tabs["/kafka"].Sees(within(serviceBound), browser.Says("<img src=x onerror")+"&&"+browser.Says("It is not known how far they are behind"), "an answer that is hostile")
	require.False(t, browser.Eval[bool](tabs["/kafka"], "'hacked' in window"))

	began = time.Now()
	p.says("edge-01", func(a *answer) { a.err = errors.New("no answer: connection refused") })
	tabs["/kafka"].Sees(within(nodeBound), greyService+"&&("+browser.Says("edge-01, which said so, says nothing any more")+"||"+browser.Says("It is not known how it is now")+")",
		"the node that has answered is gone")
	require.Contains(t, tabs["/kafka"].Text(), "0 of 3 serve; nobody leads", "what it said last is kept")
	for path, b := range tabs {
		require.Zero(t, browser.Eval[int](b, "document.querySelectorAll('img, main script').length"), path)
		b.Clean(p.origin)
	}
}

// hostileInJSON is hostile as far as JSON and Go quote it alike.
const hostileInJSON = `<img src=x onerror=window.hacked=1><script>window.hacked=1</script>`

func TestFaultsOfWhatKeepsAlertsLogsAndMetricsAreSeen(t *testing.T) {
	t.Parallel()
	p := serving()
	p.says("edge-03", func(a *answer) { a.err = nil })
	tabs := opened(t, p, map[string]string{
		"/": "1 % of /var is free", "/alerts": "the press is too hot", "/logs?since=1h": "The store of edge-03 has answered", "/charts?node=edge-01": "From the store of edge-02",
	})
	began := time.Now()
	within := func(bound time.Duration) time.Duration { return max(bound-time.Since(began), 0) }
	gone := errors.New("edge-03: no answer: connection refused")
	p.mu.Lock()
	p.problem = gone
	p.mu.Unlock()
	p.breaks("logs", fault{err: gone})
	p.breaks("metrics", fault{err: gone})
	p.says("edge-04", func(a *answer) { a.ahead = time.Hour })

	tabs["/"].Sees(within(nodeBound), browser.Says("edge-04 is 1h0m0s ahead of this machine"), "the clock of a node is wrong")
	tabs["/alerts"].Sees(within(serviceBound), browser.Says("It is not known which alerts fire now: edge-03: no answer: connection refused")+"&&"+
		`/Asked \d+ s ago/.test(document.body.innerText)`, "Alertmanager is gone")
	require.Contains(t, tabs["/alerts"].Text(), "the press is too hot", "what was known last stays")
	tabs["/"].Sees(within(serviceBound), browser.Says("last known: the press is too hot"), "Alertmanager is gone, as the cluster says it")
	// What these show is of a time that stands on it, and is no old value. The next question tells.
	tabs["/charts?node=edge-01"].Type(`a[href*="until"]`, kb.Enter)
	tabs["/charts?node=edge-01"].Sees(serviceBound, browser.Says("It cannot be drawn: edge-03: no answer: connection refused"), "the store of metrics is gone")
	tabs["/logs?since=1h"].Type("#unit", kb.Enter)
	tabs["/logs?since=1h"].Sees(serviceBound, browser.Says("Nothing can be looked for so: edge-03: no answer: connection refused"), "the store of logs is gone")
	tabs["/"].Clean(p.origin)
	tabs["/alerts"].Clean(p.origin)
	accessible(t, tabs["/alerts"], "alerts that nobody knows")
}
