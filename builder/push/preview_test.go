package push

import (
	"context"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

func TestWhatAnUpdateWouldChange(t *testing.T) {
	h := update.Head{RootHash: "bbbbbbbbbbbbbbbb", Root: update.Root{BuildTime: 1_790_000_000}}
	runs := nodeapi.Status{BuildTime: 1_780_000_000, Configuration: &nodeapi.Configuration{RootHash: "aaaaaaaaaaaaaaaa"}}
	const before, after = "aaaaaaaaaaaa of 2026-05-28 20:26", "bbbbbbbbbbbb of 2026-09-21 14:13"
	for name, tt := range map[string]struct {
		status nodeapi.Status
		answer update.Answer
		want   []string
	}{
		"nothing": {runs, update.Answer{Unchanged: true}, []string{"has it already: " + before}},
		"another boot loader": {runs, update.Answer{Change: &update.Change{Loader: true}}, []string{
			"would keep its root " + after, "lacks nothing",
			"would try another boot loader at the restart after the system has shown that it stays",
		}},
		"another root": {runs, update.Answer{
			Change: &update.Change{
				Root: true, From: map[string]string{"etcd": "3.5.1", "kafka": "4.0", "ceph": "18"}, To: map[string]string{"etcd": "3.6.0", "kafka": "4.0", "mqtt": "2"},
				Risks: []string{"no driver for 8086:1572"}, WayBack: "etcd 3.5 does not read what 3.6 wrote",
			}, Lacks: &update.Lack{Count: 1234, Bytes: 12_900_000},
		}, []string{
			"would get another root: " + before + " → " + after, "would get another ceph: 18 → none", "would get another etcd: 3.5.1 → 3.6.0",
			"would get another mqtt: none → 2", "lacks 1,234 pieces, 12.3 MiB", "would run it from its next start on (--reboot)",
			"risks: no driver for 8086:1572", "could not return to what runs now: etcd 3.5 does not read what 3.6 wrote",
		}},
		"versions that are judged here": {runs, update.Answer{
			Change: &update.Change{Root: true, From: map[string]string{"etcd": "v3.5.1", "own": "1"}, To: map[string]string{"etcd": "v3.6.0", "own": "2"}},
		}, []string{
			"would get another root: " + before + " → " + after, "would get another etcd: v3.5.1 → v3.6.0", "would get another own: 1 → 2",
			"lacks nothing", "would run it from its next start on (--reboot)",
			"could not return to what runs now: the way back of etcd from v3.6.0 to v3.5.1 is unsafe: etcd 3.5 does not start on the data of a cluster of version 3.6, unless all its members were told so before (etcdctl downgrade enable 3.5)",
			"may not be able to return to what runs now: the way back of own from 2 to 1 is unknown: this program knows no rule for it",
		}},
		"a machine that does not say what it runs": {nodeapi.Status{}, update.Answer{Change: &update.Change{Root: true}},
			[]string{"would get another root: unknown → " + after, "lacks nothing", "would run it from its next start on (--reboot)"}},
		"a configuration": {runs, update.Answer{}, []string{"would keep its root " + after, "lacks nothing"}},
		"one in effect at once": {runs, update.Answer{Live: true, Restarted: []string{"coredns.service"}},
			[]string{"would keep its root " + after, "lacks nothing", "would have it in effect at once, after a restart of coredns.service"}},
		"one without restarts": {runs, update.Answer{Live: true},
			[]string{"would keep its root " + after, "lacks nothing", "would have it in effect at once, without a restart of any program"}},
		"one that waits": {runs, update.Answer{Waits: []string{"node.roles: x", "y"}},
			[]string{"would keep its root " + after, "lacks nothing", "would run it from its next start on (--reboot), because of node.roles: x; y"}},
	} {
		h.Root.Versions = nil
		if tt.answer.Change != nil {
			h.Root.Versions = tt.answer.Change.To
		}
		require.Equal(t, tt.want, Outlook(services.Ours(), h, nil, tt.status, tt.answer), name)
		if tt.answer.Change != nil && tt.answer.Change.From != nil {
			tt.status.Versions, tt.answer.Change.From = tt.answer.Change.From, nil
			require.Equal(t, tt.want, Outlook(services.Ours(), h, nil, tt.status, tt.answer), "what its status says counts as well: "+name)
		}
	}
}

func TestWhatANodeWouldReturnTo(t *testing.T) {
	s := nodeapi.Status{Configuration: &nodeapi.Configuration{RootHash: "aaaaaaaaaaaaaaaa", Other: "01"}}
	require.Equal(t, []string{"would restart, and return from aaaaaaaaaaaa to the configuration before, on the same root"}, OutlookBack(services.Ours(), nil, s, update.Answer{}))
	s.Configuration.OtherRoot = "bbbbbbbbbbbbbbbb"
	require.Equal(t, []string{"would restart, and return from aaaaaaaaaaaa to the root bbbbbbbbbbbb", "would get another etcd: 3.6 → 3.5",
		"risks its data: the way back of etcd from 3.6 to 3.5 is unsafe: etcd 3.5 does not start on the data of a cluster of version 3.6, unless all its members were told so before (etcdctl downgrade enable 3.5)"},
		OutlookBack(services.Ours(), nil, s, update.Answer{Change: &update.Change{Root: true, From: map[string]string{"etcd": "3.6"}, To: map[string]string{"etcd": "3.5"}}}))
	require.Equal(t, []string{"would restart, and return from unknown to the configuration before, on the same root"}, OutlookBack(services.Ours(), nil, nodeapi.Status{}, update.Answer{}))
}

func TestADryRunSendsTheIndexesAndNoPiece(t *testing.T) {
	p := newOperator(t)
	old := noise(1, 1<<20)
	n := p.node("edge-01", built(t, old, "part", true))
	u := p.update(Options{}, built(t, changed(old, 300_000, "fix"), "part", true))
	a, err := sender(u, url.Values{"dryRun": {"true"}}, nil, n).Preview(context.Background(), "edge-01")
	require.NoError(t, err)
	require.True(t, a.DryRun)
	require.Equal(t, 1, a.Lacks.Count)
	require.EqualValues(t, 16<<10, a.Lacks.Bytes)
	messages, bytes := n.Received()
	require.Equal(t, 1, messages)
	require.Equal(t, u.Head.Root.Index.Size+u.Head.Boot.Size, bytes)
	n.Restart()
	require.NotEqual(t, u.Head.RootHash, n.Runs().RootHash)
	_, err = sender(u, nil, nil, n).Preview(context.Background(), "edge-02")
	require.ErrorContains(t, err, "edge-02 is off")
}
