package dashboard

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/machine"
	"spore/wire/nodeapi"
)

func TestHostileTextStaysText(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.says("edge-01", func(a *answer) {
		a.status.System, a.status.Problem, a.status.Addresses = evil, evil, []string{evil}
		a.status.Services = map[string]string{evil: evil}
		a.status.Versions = map[string]string{evil: evil}
		a.status.Held = []nodeapi.Held{{Role: evil, Reason: evil}}
		a.status.Configuration.RootHash, a.status.Configuration.Problem = evil, evil
		a.health.Conditions = append(a.health.Conditions, nodeapi.Condition{Name: evil, State: nodeapi.Warning, Reason: evil + strings.Repeat("x", 10_000)})
	})
	p.alerts = append(p.alerts, machine.Alert{
		Labels: map[string]string{machine.AlertName: evil, machine.AlertNode: evil, machine.Severity: evil}, State: machine.Fires, Summary: evil, Runbook: evil,
	})
	p.round()
	for _, path := range []string{"/", "/nodes/edge-01", "/alerts", "/" + "nodes/%3Cscript%3E"} {
		_, text := p.page(t, path) // It holds that there is nothing in the page that does something.
		require.NotContains(t, text, "\x1b")
		require.NotContains(t, text, "\u202e")
		require.NotContains(t, text, "\u2066")
		require.NotContains(t, text, strings.Repeat("x", maxText+1))
	}
	_, text := p.page(t, "/")
	require.Contains(t, text, `<script>alert(1)</script>`, "it is shown")
}

func TestAPageThatNeedsARoleIsThereWhereANodeHasIt(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.server.rows = append(p.server.rows, row{path: "/press", title: "Presses", template: "problem", needs: []string{"press"},
		make: func(_ *Server, a asked, p *page) bool {
			p.Problem = &problem{Title: "Topic " + a.query.Get("topic")}
			return true
		}})
	_, text := p.page(t, "/")
	require.NotContains(t, text, "Presses")
	code, text := p.page(t, "/press?topic=press")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, text, "No node has the role press.")
	p.watcher.cluster.Members = map[string][]string{"press": {"edge-01"}}
	_, text = p.page(t, "/")
	require.Contains(t, text, "Configuration Machines Presses")
	_, text = p.page(t, "/press?topic=press")
	require.Contains(t, text, "Topic press")
	d, _, err := p.server.draw("/press?topic=press")
	require.NoError(t, err)
	require.Contains(t, d.main, "Topic press")
}

func TestEachPathHasOneRow(t *testing.T) {
	p := newPlant(t, "edge-01")
	for path, want := range map[string]string{
		"/": "cluster", "/alerts": "alerts", "/nodes/edge-01": "node", "/nodes/a/b": "node", "/nodes": "", "/alerts/": "", "/x": "", "": "",
	} {
		r, _, _ := p.server.find(path)
		require.Equal(t, want, r.template, path)
	}
}
