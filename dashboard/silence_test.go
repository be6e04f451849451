package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"spore/services/metrics"
	"spore/wire/machine"
)

const session = "the token of this session"

// operated is a plant whose page may silence alerts, one of which fires; wishes and ended are what was asked.
func operated(t *testing.T) (p *plant, wishes *[]Wish, ended *[]string) {
	t.Helper()
	p = newPlant(t, "edge-01")
	wishes, ended = &[]Wish{}, &[]string{}
	a := p.watcher.asker
	a.Silence = func(_ context.Context, w Wish) (string, error) {
		if w.Name == metrics.Watchdog {
			return "", errors.New(`edge-01: it would silence "Watchdog"`)
		}
		*wishes = append(*wishes, w)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.alerts[1].State = machine.Silenced
		p.alerts[1].Silences = []machine.Silence{{
			ID: "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4", By: "anna", Comment: w.Comment, Ends: p.now.Add(2 * time.Hour),
			Matchers: []machine.Matcher{{Name: "alertname", Value: "PressTooHot", Operator: "="}},
		}}
		return "silenced", nil
	}
	a.Unsilence = func(_ context.Context, id string) (string, error) {
		*ended = append(*ended, id)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.alerts[1].State, p.alerts[1].Silences = machine.Fires, nil
		return "ended", nil
	}
	p.watch(t, a)
	p.server.Token = session
	p.alerts = append(p.alerts, machine.Alert{
		Labels: map[string]string{machine.AlertName: "PressTooHot", machine.AlertNode: "edge-01", machine.Severity: "warning", "job": "press"},
		State:  machine.Fires, Since: p.time(), Summary: "the press is too hot",
	})
	p.round()
	return p, wishes, ended
}

// sends sends a form.
func (p *plant) sends(t *testing.T, path string, form url.Values) (w *httptest.ResponseRecorder, text string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w = httptest.NewRecorder()
	p.server.ServeHTTP(w, r)
	root, err := html.Parse(strings.NewReader(w.Body.String()))
	require.NoError(t, err)
	requireInert(t, root)
	return w, words(root)
}

func TestAnAlertIsSilencedAndTheSilenceEnds(t *testing.T) {
	p, wishes, ended := operated(t)
	_, text := p.page(t, "/alerts")
	require.Contains(t, text, "fires")
	require.Contains(t, text, "Silence PressTooHot edge-01")
	require.Contains(t, text, "This page looks, and can silence alerts.")

	alert := p.alerts[1]
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, silencePath+"?"+wishOf(alert, true).Encode(), nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "form-action 'self'")
	require.Equal(t, "same-origin", w.Header().Get("Referrer-Policy"), "without it, browsers say that a form comes from nowhere")
	for _, want := range []string{
		`method="post"`, `value="` + session + `"`, `value="PressTooHot"`, `value="edge-01"`, "job=press\n",
	} {
		require.Contains(t, w.Body.String(), want)
	}
	require.NotContains(t, w.Body.String(), "live.js", "a form that somebody fills in is not taken away")

	w, _ = p.sends(t, silencePath, url.Values{
		"token": {session}, "name": {"PressTooHot"}, "node": {"edge-01"}, "label": {"job=press\r\n\r\n line=2 \r\n"}, "for": {"2h"}, "comment": {"a new fan"},
	})
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "/alerts", w.Header().Get("Location"))
	require.Equal(t, []Wish{{Name: "PressTooHot", Node: "edge-01", Labels: []string{"job=press", "line=2"}, For: "2h", Comment: "a new fan"}}, *wishes)
	_, text = p.page(t, "/alerts")
	require.Contains(t, text, "silenced by anna until 2026-11-26 05:00 UTC: a new fan")
	require.Contains(t, text, "End the silence of PressTooHot edge-01")

	end := unsilencePath + "?id=3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"
	_, text = p.page(t, end)
	for _, want := range []string{`alertname="PressTooHot"`, "anna", "a new fan", "2026-11-26 05:00 UTC"} {
		require.Contains(t, text, want)
	}
	w, _ = p.sends(t, unsilencePath, url.Values{"token": {session}, "id": {"3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"}})
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, []string{"3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"}, *ended)
	_, text = p.page(t, "/alerts")
	require.Contains(t, text, "Silence PressTooHot edge-01")
}

func TestWhatIsNotSilencedSaysWhy(t *testing.T) {
	p, wishes, ended := operated(t)
	good := url.Values{"token": {session}, "name": {"PressTooHot"}, "for": {"2h"}, "comment": {"a new fan"}}
	for name, c := range map[string]struct {
		field, value, path string
		status             int
		text               string
	}{
		"a form of another page":     {"token", "", silencePath, http.StatusForbidden, "The form is of another session"},
		"a form of before":           {"token", "that of the session before", silencePath, http.StatusForbidden, "Nothing was changed"},
		"the end of one, from there": {"token", "x", unsilencePath, http.StatusForbidden, "The form is of another session"},
		"no alert":                   {"name", " ", silencePath, http.StatusUnprocessableEntity, "Say which alert, or all."},
		"for no time":                {"for", "", silencePath, http.StatusUnprocessableEntity, "Say for how long"},
		"for no reason":              {"comment", " ", silencePath, http.StatusUnprocessableEntity, "Say why"},
		"what a node refuses":        {"name", metrics.Watchdog, silencePath, http.StatusUnprocessableEntity, `It was not done: edge-01: it would silence "Watchdog"`},
		"too much":                   {"comment", strings.Repeat("x", maxForm), silencePath, http.StatusBadRequest, "The form is malformed"},
		"another page":               {"name", "x", "/alerts", http.StatusMethodNotAllowed, "This page is for reading"},
		"another page of the root":   {"name", "x", "/", http.StatusMethodNotAllowed, "Nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			form := url.Values{}
			for k, v := range good {
				form[k] = v
			}
			form.Set(c.field, c.value)
			w, text := p.sends(t, c.path, form)
			require.Equal(t, c.status, w.Code)
			require.Contains(t, text, c.text)
			require.Empty(t, *wishes)
			require.Empty(t, *ended)
			if c.status == http.StatusUnprocessableEntity && c.field != "comment" {
				require.Contains(t, w.Body.String(), `value="a new fan"`, "what was filled in stays")
			}
		})
	}
	r := httptest.NewRequest(http.MethodGet, silencePath+"?"+good.Encode(), nil)
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, *wishes, "a link changes nothing")
}

func TestAReaderSeesNoForm(t *testing.T) {
	p, wishes, _ := operated(t)
	a := p.watcher.asker
	a.Silence, a.Unsilence = nil, nil
	p.watch(t, a)
	p.server.Token = session
	p.round()
	_, text := p.page(t, "/alerts")
	require.Contains(t, text, "PressTooHot")
	require.NotContains(t, text, "Silence")
	require.Contains(t, text, "This page looks, and changes nothing.")
	for _, path := range []string{silencePath, unsilencePath} {
		code, text := p.page(t, path+"?name=PressTooHot&id=1")
		require.Equal(t, http.StatusForbidden, code)
		require.Contains(t, text, "You may look, and not silence")
		w, text := p.sends(t, path, url.Values{"token": {session}, "name": {"PressTooHot"}, "for": {"2h"}, "comment": {"a new fan"}, "id": {"1"}})
		require.Equal(t, http.StatusForbidden, w.Code)
		require.Contains(t, text, "spore access configs --role operator")
		require.NotContains(t, w.Body.String(), "<form")
	}
	require.Empty(t, *wishes)
}

func TestAFormIsFilledInWithWhatMatchesOneAlert(t *testing.T) {
	a := machine.Alert{Labels: map[string]string{machine.AlertName: "X", machine.AlertNode: "host:9100", machine.Severity: "warning", "b": "2", "a": "1=1"}}
	require.Equal(t, url.Values{"name": {"X"}, "label": {"a=1=1", "b=2", "instance=host:9100"}}, wishOf(a, false))
	require.Equal(t, url.Values{"name": {"X"}, "node": {"host:9100"}, "label": {"a=1=1", "b=2"}}, wishOf(a, true))
}

func TestABrowserThatLeavesAfterASilenceHidesNoAlerts(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.server.Token = "token"
	ctx, leave := context.WithCancel(t.Context())
	p.watcher.asker.Alerts = func(ctx context.Context) ([]machine.Alert, error) { return nil, ctx.Err() }
	p.watcher.asker.Silence = func(context.Context, Wish) (string, error) { leave(); return "silenced", nil }
	form := strings.NewReader("token=token&name=X&for=2h&comment=c")
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, silencePath, form)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	p.server.ServeHTTP(httptest.NewRecorder(), r)
	require.Error(t, ctx.Err())
	v, _ := p.watcher.Look()
	require.NoError(t, v.AlertsProblem)
	require.False(t, v.AlertsAt.IsZero())
}
