package dashboard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/machine"
)

// served has a node serve the pages of a plant.
func served(t *testing.T, p *plant, a Asker) {
	t.Helper()
	a.From, a.Timeout = "edge-01", time.Second
	p.watch(t, a)
}

func TestPagesOfANodeSayWhoLooksAndHaveNothingToActWith(t *testing.T) {
	p := newPlant(t, "edge-01", "edge-02")
	p.alerts = []machine.Alert{{State: machine.Fires, Labels: map[string]string{machine.AlertName: "DiskFull", machine.AlertNode: "edge-02"}}}
	served(t, p, Asker{Alerts: func(context.Context) ([]machine.Alert, error) { return p.alerts, nil }})
	p.round()
	over := make(chan struct{})
	g := &Guest{Name: "anna\x1b", Role: "operator", Ends: p.now, Over: over, Why: func() (string, string, []string) { return "It is over", "", nil }}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/alerts", nil)
	p.server.ServeHTTP(w, r.WithContext(WithGuest(r.Context(), g)))
	text := w.Body.String()
	require.Contains(t, text, `You are <strong>anna\x1b</strong>, operator, until 2026-11-26 03:00 UTC. `)
	require.Contains(t, text, "This page looks, and changes nothing. edge-01 serves it.")
	require.Contains(t, text, `data-from="edge-01"`)
	require.Contains(t, text, "<code>spore alerts silence</code>")
	require.NotContains(t, text, silencePath)
	require.NotContains(t, text, "Ctrl-C")

	status, text := p.page(t, silencePath)
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, text, "It is served by a node, whose certificate can change nothing.")
	for path, want := range map[string]string{configurationPath: "edge-01, which serves it, has none", machinesPath: "edge-01, which serves it, cannot ask that"} {
		status, text = p.page(t, path)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, text, want)
	}

	close(over)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.server.ServeHTTP(w, r.WithContext(WithGuest(r.Context(), g)))
	}))
	defer web.Close()
	res, err := http.Get(web.URL + "/events?page=/")
	require.NoError(t, err)
	defer res.Body.Close()
	events, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(events), "event: ended\n"), "%s", events)
	require.Contains(t, string(events), "It is over")
}

func TestANodeThatReachesNobodySaysThatItIsTheOne(t *testing.T) {
	p := newPlant(t, "edge-01", "edge-02")
	served(t, p, Asker{})
	for _, name := range []string{"edge-01", "edge-02"} {
		p.says(name, func(a *answer) { a.err = errors.New("no answer in time") })
	}
	p.round()
	_, text := p.page(t, "/")
	require.Contains(t, text, "no node answers edge-01, which serves this page")
	require.NotContains(t, text, "this machine reaches the network")
}
