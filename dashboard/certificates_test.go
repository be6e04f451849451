package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/fleet"
	"spore/wire/nodeapi"
)

func TestCertificatesAreInTheOrderOfTheirEnds(t *testing.T) {
	p := newPlant(t, "edge-01")
	in := func(d time.Duration) nodeapi.Renewal { return nodeapi.Renewal{Ends: p.time().Add(d)} }
	answers := []fleet.Answer[nodeapi.Renewal]{
		{Node: facts.Node{Name: "far"}, Value: in(200 * 24 * time.Hour)}, {Node: facts.Node{Name: "ended"}, Value: in(-time.Hour)},
		{Node: facts.Node{Name: "soon"}, Value: in(3 * 24 * time.Hour)}, {Node: facts.Node{Name: "silent"}, Err: errors.New("no answer in time" + evil)},
		{Node: facts.Node{Name: "busy"}, Value: nodeapi.Renewal{Ends: p.time().Add(100 * 24 * time.Hour), Pending: []string{"kafka"}, Problem: evil}},
		{Node: facts.Node{Name: "bare"}},
	}
	a := Asker{Timeout: time.Second, Ends: p.time().Add(10 * time.Hour), Renewals: func(context.Context) []fleet.Answer[nodeapi.Renewal] { return answers }}
	p.watch(t, a)
	_, text := p.page(t, "/certificates")
	requireClean(t, text)
	at := -1
	for _, want := range []string{
		"silent , the first of those of the node", "bare , the first", "ended , the first", "of this page: what the nodes are shown", "soon , the first",
		"busy , the first", "far , the first",
	} {
		next := strings.Index(text, want)
		require.Greater(t, next, at, "%s in %s", want, text)
		at = next
	}
	for _, want := range []string{
		"critical: 2026-11-26 02:00 UTC it has ended", "warning: 2026-11-29 03:00 UTC 3 days", "ok: 2027-06-14 03:00 UTC 200 days you: spore bundle configs --all --make",
		"what is new was not taken yet by kafka", "not known, it does not say: no answer in time", "it has no bundle", "10 h", "asked at 2026-11-26 03:00:00 UTC",
		"The cluster has no master", "5 things are wrong", "ended certificate it has ended spore bundle configs --node ended --make",
		"soon certificate the first ends in 3 days spore bundle configs --node soon --make",
		"busy certificate the first ends in 100 days; what is new was not taken yet by kafka", "read docs/keys.md#how-programs-load-new-certificates",
		"spore status configs --node silent", "bare certificate it has no bundle spore bundle configs --node bare --make",
	} {
		require.Contains(t, text, want)
	}
	p.facts.Members = map[string][]string{masterRole: {"far"}}
	p.watch(t, a)
	_, text = p.page(t, "/certificates")
	require.Contains(t, text, "a master, by itself")
	require.Contains(t, text, "see whether a master answers, and why none has signed")
	require.NotContains(t, text, "The cluster has no master")
	p.server.searches.fill()
	_, text = p.page(t, "/certificates")
	require.Contains(t, text, "The nodes cannot be asked now: 3 searches are under way")
}

func TestVersionsSayWhatRunsWhere(t *testing.T) {
	p := newPlant(t, "edge-01", "edge-02", "edge-03", "edge-04", "edge-05")
	p.says("edge-02", func(a *answer) {
		a.status.Configuration = &nodeapi.Configuration{RootHash: "ffffffffffffffff", Serial: 8, Trial: true, StagedRoot: "aaaabbbbccccdddd", Loader: "it is to be tried"}
	})
	p.says("edge-03", func(a *answer) {
		a.status.Configuration.Problem, a.status.Configuration.RootHash, a.status.Configuration.Staged = evil, "0123456789ab"+evil, evil
		a.status.Updates = &nodeapi.Updates{At: p.now, From: evil, Problem: evil}
	})
	p.says("edge-04", func(a *answer) { a.status.Configuration = nil })
	p.says("edge-05", func(a *answer) { a.err = errors.New("no answer in time") })
	p.round()
	_, text := p.page(t, "/versions")
	requireClean(t, text)
	for _, want := range []string{
		"2 images run", "0123456789ab 2 nodes edge-01, edge-03", "ffffffffffff 1 node edge-02", "Not known of: edge-04, edge-05.",
		"edge-02 ffffffffffff 8, on trial another root, aaaabbbbcccc; boot loader: it is to be tried no none: it takes nothing by itself",
		"edge-01 0123456789ab 7 the same no", "edge-04 it does not say", "edge-05 it has not answered yet not known",
		"last look for updates ✕ critical: edge-03", "2 things are wrong",
		"spore logs configs edge-03 spore-agent push a better update", "spore net configs edge-03", "another configuration, ", "at 2026-11-26T03:00:00Z, ",
	} {
		require.Contains(t, text, want)
	}
	p.later(stale + time.Second)
	_, text = p.page(t, "/versions")
	require.Equal(t, 4, strings.Count(text, "as of 10 s ago"), text)
	d, _, err := p.server.draw("/versions")
	require.NoError(t, err)
	require.Contains(t, d.main, `<tr class="stale">`, "it changes while it is open")
}

func TestThePageOfTheVersionsOfManyNodesIsSmall(t *testing.T) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("node-%03d", i))
	}
	p := newPlant(t, names...)
	p.round()
	total := len(p.html(t, "/versions"))
	for _, path := range []string{"style.css", "live.js", "icon.svg"} {
		total += len(p.html(t, "/static/"+path))
	}
	require.Less(t, total, 150_000)
}
