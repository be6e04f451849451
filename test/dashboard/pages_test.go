//go:build e2e

package dashboard

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
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
}{
	{"/", []string{"things are wrong", "edge-03", "it does not answer: connection refused", "1 % of /var is free", "spore clean configs --node edge-02"}, "cluster"},
	{"/nodes/edge-02", []string{"edge-02", "1 % of /var is free", "mosquitto.service", "0123456789ab"}, "node"},
	{"/nodes/edge-03", []string{"edge-03", "it does not answer: connection refused"}, ""},
	{"/nodes/edge-04", []string{"kafka.service", "failed"}, ""},
	{"/alerts", []string{"NodeSilent", "the press is too hot", "held back", "docs/alerts.md#nodesilent"}, "alerts"},
	{"/nowhere", []string{"There is no such page"}, ""},
}

// screens are the widths and colour schemes.
var screens = []struct {
	width  int64
	scheme string
}{{1280, "light"}, {1280, "dark"}, {390, "light"}, {390, "dark"}}

func TestPagesAreForEverybody(t *testing.T) {
	small := served(t, troubled())
	hurt := troubled()
	hurt.says("edge-02", spiteful)
	hurt.nodes[3].Name = hostile
	hurt.answers[hostile] = well(hostile)
	evil := served(t, hurt)
	for _, p := range pages {
		t.Run(p.path, func(t *testing.T) { holds(t, small, p.path, p.sees, p.picture) })
		if p.path != "/nowhere" && p.path != "/nodes/edge-04" {
			t.Run("hostile "+p.path, func(t *testing.T) { holds(t, evil, p.path, nil, "") })
		}
	}
	t.Run("200 nodes", func(t *testing.T) {
		holds(t, served(t, large(200)), "/", []string{"40 things are wrong", "200 nodes", "edge-199"}, "")
	})
}

// served serves a plant until the test is over, and waits until its nodes have answered.
func served(t *testing.T, p *plant) *plant {
	t.Helper()
	require.NoError(t, p.serve())
	t.Cleanup(p.stopped)
	b := newTab(t)
	b.open(p.address)
	b.sees(patience, says("wrong")+"||"+says("Nothing is wrong"), "all have answered")
	return p
}

// holds what is to be true of each page.
func holds(t *testing.T, p *plant, path string, sees []string, picture string) {
	b := newTab(t)
	b.open(p.address) // It gets its cookie there.
	costs(t, b, p.origin+path)
	for _, s := range screens {
		b.look(s.width, s.scheme)
		require.LessOrEqual(t, eval[int64](b, "document.documentElement.scrollWidth"), s.width, "%d: it scrolls to the side", s.width)
		text := b.text()
		for _, want := range sees {
			require.Contains(t, text, want)
		}
		accessible(t, b, fmt.Sprintf("%d, %s", s.width, s.scheme))
		if s.scheme == "light" { // Colours change nothing of the keyboard.
			keyboard(t, b)
			takePicture(t, b, s.width, picture)
		}
	}
	require.False(t, eval[bool](b, "'hacked' in window"))
	require.Zero(t, eval[int](b, "document.querySelectorAll('img, main script').length"))
	b.mu.Lock()
	if path == "/nowhere" { // The browser tells of it what it is.
		require.NotEmpty(t, b.wrong)
		for _, w := range b.wrong {
			require.Contains(t, w, "404 (Not Found)")
		}
		b.wrong = nil
	}
	b.mu.Unlock()
	b.clean(p.origin)
}

// costs opens the page, and holds how long it takes and how large it is.
func costs(t *testing.T, b *tab, address string) {
	t.Helper()
	best := time.Hour
	var size int64
	for range paints {
		b.mu.Lock()
		b.bytes = 0
		b.mu.Unlock()
		b.open(address)
		b.sees(patience, "performance.getEntriesByName('first-contentful-paint').length", "something is painted")
		ms := eval[float64](b, "performance.getEntriesByName('first-contentful-paint')[0].startTime")
		best = min(best, time.Duration(ms*float64(time.Millisecond)))
		b.mu.Lock()
		size = max(size, b.bytes)
		b.mu.Unlock()
		if best < firstPaint/2 {
			break
		}
	}
	t.Logf("painted after %s, %d bytes", best, size)
	require.Less(t, best, firstPaint)
	require.Less(t, size, int64(mostBytes))
}

// accessible has axe-core look at the page (WCAG 2.2, levels A and AA, and its rules of good practice).
func accessible(t *testing.T, b *tab, screen string) {
	t.Helper()
	if !eval[bool](b, "'axe' in window") {
		eval[bool](b, axe+";true")
	}
	found := eval[string](b, `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(
		r.violations.map((v) => ({rule: v.id, help: v.help, at: v.nodes.map((n) => n.html + " " + n.failureSummary).slice(0, 5)}))))`)
	var violations []any
	require.NoError(t, json.Unmarshal([]byte(found), &violations))
	require.Empty(t, violations, screen)
}

// keyboard holds that the key Tab reaches whatever can be used, and that one sees where it is.
func keyboard(t *testing.T, b *tab) {
	t.Helper()
	const name = `const name = (e) => [e.tagName, e.getAttribute("href"), e.getAttribute("name"), e.textContent.trim()].join(" ");`
	want := eval[[]string](b, `(() => {`+name+` document.activeElement.blur(); getSelection().empty();
		return [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")].map(name); })()`)
	got := map[string]bool{}
	for range len(want) + 1 {
		require.NoError(t, chromedp.Do(b.ctx, chromedp.KeyEvent(kb.Tab)))
		at := eval[[]string](b, `(() => {`+name+` const e = document.activeElement; return [name(e), e === document.body ? "" : getComputedStyle(e).outlineStyle]; })()`)
		require.NotEqual(t, "none", at[1], "%s: it is not seen where the keyboard is", at[0])
		got[at[0]] = true
	}
	for _, w := range want {
		require.True(t, got[w], "the keyboard does not reach %s", w)
	}
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
