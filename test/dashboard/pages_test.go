//go:build e2e

package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"spore/test/browser"
	"spore/wire/machine"
)

// What a page may cost: its bytes in all, with style, script and first event; and the time until something is painted,
// of which the best of some is taken, because the machine has other things to do.
const (
	mostBytes  = 150_000
	firstPaint = 200 * time.Millisecond
	paints     = 10
)

// pages are all pages. Each row is tested with each width and colour scheme.
var pages = []struct {
	// path is where it is, and sees is what must be read on it.
	path string
	sees []string
	// picture is the name of its pictures; empty where there are none.
	picture string
	// operator is whether the certificate may silence alerts, and status what the server answers; 0 is that all is well.
	operator bool
	status   int
	// services is whether the cluster has them, and still whether the page stays as it is while it is open.
	services, still bool
}{
	{path: "/", picture: "cluster", sees: []string{
		"things are wrong", "edge-03", "it does not answer: connection refused", "1 % of /var is free", "spore clean configs --node edge-02",
	}},
	{path: "/nodes/edge-02", picture: "node", sees: []string{"edge-02", "1 % of /var is free", "mosquitto.service", "0123456789ab"}},
	{path: "/nodes/edge-03", sees: []string{"edge-03", "it does not answer: connection refused"}},
	{path: "/nodes/edge-04", sees: []string{"kafka.service", "failed"}},
	{path: "/alerts", sees: []string{"NodeSilent", "the press is too hot", "held back", "docs/alerts.md#nodesilent", "changes nothing"}},
	{path: "/alerts", operator: true, picture: "alerts", sees: []string{"NodeSilent", "Silence", "End the silence", "by bert", "can silence alerts"}},
	{path: silenceForm, operator: true, picture: "silence", sees: []string{"For how long", "Why"}},
	{path: "/alerts/unsilence?id=" + silenceID, operator: true, sees: []string{"End the silence", "bert", "the sensor is replaced"}},
	{path: "/logs?since=1h", services: true, still: true, sees: []string{"The store of edge-03 has answered", "press-399", "READ FPDMA QUEUED", "line-control/press-gateway"}},
	{path: "/charts?node=edge-01", services: true, still: true, sees: []string{"Processors in use", "node_load1"}},
	{path: "/certificates", services: true, still: true, sees: []string{"6 days", "kafka.service", "it does not say: no answer: connection refused"}},
	{path: "/versions", services: true, sees: []string{"on trial", "went back to 7", "no route to host"}},
	{path: "/history", services: true, still: true, sees: []string{"unit-restart", "failed: it is not active after 30 s", "only edge-01 has it"}},
	{path: "/devices/edge-01", services: true, still: true, sees: []string{"ZGY1", "/var/lib/kafka/disks/1", "eth0"}},
	{path: "/devices/none", services: true, still: true, status: http.StatusNotFound, sees: []string{"There is no such page"}},
	{path: "/kubernetes", picture: "kubernetes", services: true, sees: []string{"2 of 3 nodes are ready", "CrashLoopBackOff", "DiskPressure; cordoned", "recipes"}},
	{path: "/quorums", services: true, sees: []string{"2 of 3 serve; edge-01 leads; none may be lost", "context deadline exceeded", "Ceph's monitors"}},
	{path: "/kafka", picture: "kafka", services: true, sees: []string{"3 topics, 4 partitions", "historian", "48211"}},
	{path: "/ceph", services: true, sees: []string{"HEALTH_WARN", "1 osds down", "osd.1", "kubernetes"}},
	{path: "/messaging", services: true, sees: []string{"212", "SERVFAIL", "no answer: connection refused"}},
	{path: "/configuration", services: true, sees: []string{"cluster.yaml:4", "services: [mqtt, dns]", "the folder has it, and the nodes have not"}},
	{path: "/machines", services: true, sees: []string{"spore approve out 3f2a-91c0-77de-0b42", "52:54:00:77:00:99"}},
	{path: silenceForm, status: http.StatusForbidden, sees: []string{"You may look, and not silence", "spore access configs --role operator"}},
	{path: "/nowhere", status: http.StatusNotFound, sees: []string{"There is no such page"}},
}

// silenceForm is where an alert is silenced.
const silenceForm = "/alerts/silence?name=PressTooHot&label=job%3Dpress"

// screen is a width, in CSS pixels, and a colour scheme.
type screen struct {
	width  int64
	scheme string
}

var screens = []screen{{1280, "light"}, {1280, "dark"}, {390, "light"}, {390, "dark"}}

func TestPagesAreForEverybody(t *testing.T) {
	small, operated := served(t, troubled()), troubled()
	operated.operator = true
	served(t, operated)
	hurt := troubled()
	hurt.operator = true
	hurt.says("edge-02", spiteful)
	hurt.nodes[3].Name = hostile
	hurt.answers[hostile] = well(hostile)
	evil := served(t, hurt)
	all := served(t, serving())
	hurt.alerts = append(hurt.alerts, machine.Alert{
		Labels: map[string]string{machine.AlertName: hostile, machine.AlertNode: hostile, machine.Severity: hostile}, State: machine.Silenced,
		Summary: hostile, Silences: []machine.Silence{{ID: hostile, By: hostile, Comment: hostile}},
	})
	for _, p := range pages {
		of, on := small, screens
		switch {
		case p.operator:
			of = operated
		case p.services:
			of, on = all, []screen{screens[0], screens[3]} // Their style is that of the others.
		}
		t.Run(p.path, func(t *testing.T) { holds(t, of, p.path, p.sees, p.picture, p.status, on...) })
	}
	for _, path := range []string{"/", "/alerts", "/nodes/edge-02", "/alerts/silence?" + url.Values{"name": {hostile}, "label": {hostile}}.Encode(),
		"/alerts/unsilence?" + url.Values{"id": {hostile}}.Encode()} {
		t.Run("hostile", func(t *testing.T) { holds(t, evil, path, nil, "", 0, screens[0], screens[2]) })
	}
	t.Run("200 nodes", func(t *testing.T) {
		holds(t, served(t, large(200)), "/", []string{"40 things are wrong", "200 nodes", "edge-199"}, "", 0, screens[0], screens[3])
	})
}

// served serves a plant until the test is over, and waits until its nodes have answered.
func served(t *testing.T, p *plant) *plant {
	t.Helper()
	require.NoError(t, p.serve())
	t.Cleanup(p.stopped)
	b := chromium.Tab(t)
	b.Open(p.address)
	b.Sees(browser.Patience, browser.Says("wrong")+"||"+browser.Says("Nothing is wrong"), "all have answered")
	return p
}

// holds what is to be true of each page.
func holds(t *testing.T, p *plant, path string, sees []string, picture string, status int, screens ...screen) {
	b := chromium.Tab(t)
	b.Open(p.address) // It gets its cookie there.
	costs(t, b, p.origin+path)
	for _, s := range screens {
		b.Look(s.width, s.scheme)
		require.LessOrEqual(t, browser.Eval[int64](b, "document.documentElement.scrollWidth"), s.width, "%d: it scrolls to the side", s.width)
		for _, want := range sees { // A service is asked when somebody looks.
			b.Sees(browser.Patience, browser.Says(want), want)
		}
		accessible(t, b, fmt.Sprintf("%d, %s", s.width, s.scheme))
		if s.scheme == "light" { // Colours change nothing of the keyboard.
			keyboard(t, b)
		}
		if s.scheme == "light" || !slices.Contains(screens, screen{s.width, "light"}) {
			takePicture(t, b, s.width, picture)
		}
	}
	require.False(t, browser.Eval[bool](b, "'hacked' in window"))
	require.Zero(t, browser.Eval[int](b, "document.querySelectorAll('img, main script').length"))
	if status != 0 { // The browser tells of it on the console, too.
		wrong := b.Wrong()
		require.NotEmpty(t, wrong)
		for _, w := range wrong {
			require.Contains(t, w, fmt.Sprintf("the server responded with a status of %d", status))
		}
	}
	b.Clean(p.origin)
}

// costs opens the page, and holds how long it takes and how large it is.
func costs(t *testing.T, b *browser.Tab, address string) {
	t.Helper()
	best := time.Hour
	var size int64
	for range paints {
		b.Bytes()
		b.Open(address)
		b.Sees(browser.Patience, "performance.getEntriesByName('first-contentful-paint').length", "something is painted")
		ms := browser.Eval[float64](b, "performance.getEntriesByName('first-contentful-paint')[0].startTime")
		best = min(best, time.Duration(ms*float64(time.Millisecond)))
		size = max(size, b.Bytes())
		if best < firstPaint/2 {
			break
		}
	}
	t.Logf("painted after %s, %d bytes", best, size)
	require.Less(t, best, firstPaint)
	require.Less(t, size, int64(mostBytes))
}

// accessible has axe-core look at the page (WCAG 2.2, levels A and AA, and its rules of good practice).
func accessible(t *testing.T, b *browser.Tab, screen string) {
	t.Helper()
	if !browser.Eval[bool](b, "'axe' in window") {
		browser.Eval[bool](b, axe+";true")
	}
	found := browser.Eval[string](b, `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(
		r.violations.map((v) => ({rule: v.id, help: v.help, at: v.nodes.map((n) => n.html + " " + n.failureSummary).slice(0, 5)}))))`)
	var violations []any
	require.NoError(t, json.Unmarshal([]byte(found), &violations))
	require.Empty(t, violations, screen)
}

// keyboard holds that the key Tab reaches whatever can be used, and that one sees where it is.
func keyboard(t *testing.T, b *browser.Tab) {
	t.Helper()
	const name = `const name = (e) => [e.tagName, e.getAttribute("href"), e.getAttribute("name"), e.textContent.trim()].join(" ");`
	want := browser.Eval[[]string](b, `(() => {`+name+`
		document.activeElement.blur();
		getSelection().empty();
		window.reached = [];
		window.reaches ||= document.addEventListener("focusin", (e) => reached.push([name(e.target), getComputedStyle(e.target).outlineStyle])) || true;
		return [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, pre[tabindex]")].map(name); })()`)
	b.Press(strings.Repeat(kb.Tab, len(want)+1))
	got := map[string]bool{}
	for _, at := range browser.Eval[[][2]string](b, "reached") {
		require.NotEqual(t, "none", at[1], "%s: it is not seen where the keyboard is", at[0])
		got[at[0]] = true
	}
	for _, w := range want {
		require.True(t, got[w], "the keyboard does not reach %s", w)
	}
}

// Browsers end a line behind a hyphen. Whoever types edge-02 from a phone is to see it whole.
func TestACommandOnANarrowScreenEndsItsLinesBetweenWords(t *testing.T) {
	t.Parallel()
	long := strings.TrimRight(strings.Repeat("press-", 10), "-")
	p := newPlant("edge-01", "edge-02", long)
	p.says("edge-02", failing)
	p.says(long, failing)
	served(t, p)
	b := chromium.Tab(t)
	b.Open(p.address)
	b.Look(390, "light")
	b.Sees(browser.Patience, browser.Says("spore health configs --all --node edge-02"), "the commands")
	require.LessOrEqual(t, browser.Eval[int](b, "document.documentElement.scrollWidth"), 390)
	require.Equal(t, []string{long}, broken(b, ".do code"), "the one that has no room in a line")
	require.Equal(t, "spore health configs --all --node "+long, strings.TrimSpace(browser.Eval[string](b, `(() => {
		getSelection().selectAllChildren([...document.querySelectorAll(".do code")].find((c) => /health.*press/.test(c.textContent)));
		return getSelection().toString(); })()`)), "what is copied")
}

// broken are the words, once each, that are on several lines in what a selector of CSS finds.
func broken(b *browser.Tab, selector string) []string {
	return browser.Eval[[]string](b, fmt.Sprintf(`(() => {
		const out = new Set();
		for (const e of document.querySelectorAll(%q)) {
			const texts = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
			for (let n = texts.nextNode(); n; n = texts.nextNode()) for (const word of n.data.matchAll(/\S+/g)) {
				const range = document.createRange();
				range.setStart(n, word.index);
				range.setEnd(n, word.index + word[0].length);
				if (new Set([...range.getClientRects()].map((r) => r.top)).size > 1) out.add(word[0]);
			}
		}
		return [...out]; })()`, selector))
}

// spiteful is a node that was taken over.
func spiteful(a *answer) {
	failing(a)
	a.status.System, a.status.Problem, a.status.Addresses = hostile, hostile, []string{hostile}
	a.status.Services, a.status.Versions = map[string]string{hostile: hostile}, map[string]string{hostile: hostile}
	for i := range a.health.Conditions {
		a.health.Conditions[i].Reason = hostile
	}
}
