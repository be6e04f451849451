package dashboard

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/machine"
	"spore/wire/nodeapi"
)

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
	require.Equal(t, 2, strings.Count(text, "since 2026-11-26 06:00 UTC or longer"), text)
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
