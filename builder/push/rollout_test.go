package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// plant is a cluster whose nodes say one line after the other, and the last one for ever.
type plant struct {
	mu    sync.Mutex
	lines map[string][]string
	sent  []string
	said  []string
}

func (p *plant) ask(_ context.Context, node string) (nodeapi.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s nodeapi.Status
	list := p.lines[node]
	if len(list) == 0 || list[0] == "" {
		p.lines[node] = list[min(1, len(list)):]
		return s, errors.New("no answer in time")
	}
	if len(list) > 1 {
		p.lines[node] = list[1:]
	}
	return s, json.Unmarshal([]byte(list[0]), &s)
}

const (
	before = `{"configuration":{"clusterHash":"old","staged":"new"},"services":{"etcd.service":"active"}}`
	onTry  = `{"configuration":{"clusterHash":"new","trial":true},"services":{"etcd.service":"activating"}}`
	after  = `{"configuration":{"clusterHash":"new"},"services":{"etcd.service":"active"}}`
	back   = `{"configuration":{"clusterHash":"old","problem":"went back to this configuration: etcd.service is up (failed)"}}`
	ill    = `{"configuration":{"clusterHash":"old"},"services":{"etcd.service":"failed"}}`
	held   = `{"configuration":{"clusterHash":"old"},"held":[{"role":"control-plane"}]}`
)

func TestWhatBecameOfIt(t *testing.T) {
	for want, a := range map[string]update.Answer{
		"has it in effect, after a restart of a.service, b.service":                               {Live: true, Restarted: []string{"a.service", "b.service"}},
		"has it in effect; no program had to be restarted":                                        {Live: true},
		"has it on its disk, and takes it at its next start (--reboot), because of node.roles: x": {Waits: []string{"node.roles: x"}},
		"has it on its disk, and takes it at its next start":                                      {},
	} {
		require.Equal(t, want, effect(a))
	}
}

// patience is short where it is to end: machines that run tests may be slow.
func patience(err string) time.Duration {
	if strings.Contains(err, "for it to be up") || err == "no answer in time" {
		return 50 * time.Millisecond
	}
	return time.Minute
}

func TestARollOut(t *testing.T) {
	masters := []Target{{"a", []string{"control-plane"}}, {"b", []string{"control-plane", "dns-server"}}, {"c", []string{"mqtt-broker"}}}
	for name, tt := range map[string]struct {
		lines   map[string][]string
		answer  func(string) (update.Answer, error)
		reboot  bool
		without []string
		sent    []string
		err     string
	}{
		"without restarts each has it": {sent: []string{"a", "b", "c"}},
		"with restarts one after the other": {
			reboot: true, sent: []string{"a", "b", "c"},
			lines: map[string][]string{"a": {before, "", onTry, after}, "b": {before, before, "", after}, "c": {"", after}},
		},
		"one that goes back ends it": {
			reboot: true, sent: []string{"a"}, lines: map[string][]string{"a": {before, "", onTry, back}, "b": {before}},
			err: "a: went back to this configuration: etcd.service is up (failed)",
		},
		"one that still says what became of the update before is waited for": {
			reboot: true, sent: []string{"a", "b", "c"},
			lines: map[string][]string{"a": {back, back, "", onTry, after}, "b": {before, before, "", after}, "c": {"", after}},
		},
		"one that goes back for the same reason again ends it": {
			reboot: true, sent: []string{"a"}, lines: map[string][]string{"a": {back, back, "", back}, "b": {before}},
			err: "a: went back to this configuration: etcd.service is up (failed)",
		},
		"one that stays on trial ends it": {
			reboot: true, sent: []string{"a"}, lines: map[string][]string{"a": {onTry}, "b": {before}}, err: "for it to be up with it: it is on trial: etcd.service is activating",
		},
		"one that does not come back ends it": {reboot: true, sent: []string{"a"}, lines: map[string][]string{"b": {before}}, err: "no answer in time"},
		"no master restarts while another is away": {
			reboot: true, lines: map[string][]string{"a": {after}}, err: "a is not restarted: b, which has a role of it too, does not answer (--without b continues anyway): no answer in time",
		},
		"one that is named may be away": {
			reboot: true, without: []string{"b"}, sent: []string{"a", "b"}, lines: map[string][]string{"a": {"", after}},
			answer: func(n string) (update.Answer, error) {
				if n == "b" {
					return update.Answer{}, errors.New("no route to host")
				}
				return update.Answer{Node: n}, nil
			}, err: "b: no route to host",
		},
		"no master restarts while another is ill": {
			reboot: true, lines: map[string][]string{"b": {ill}}, err: "a is not restarted: b, which has a role of it too, is not up (--without b continues anyway): etcd.service is failed",
		},
		"no master restarts while a role is held elsewhere": {reboot: true, lines: map[string][]string{"b": {held}}, err: "role control-plane is held"},
		"one that refuses ends it": {
			answer: func(n string) (update.Answer, error) {
				if n == "b" {
					return update.Answer{Error: "the update is refused: older"}, nil
				}
				return update.Answer{}, nil
			}, sent: []string{"a", "b"}, err: "b: the update is refused: older",
		},
		"one that does not answer ends it":    {answer: func(string) (update.Answer, error) { return update.Answer{}, errors.New("no answer") }, sent: []string{"a"}, err: "a: no answer"},
		"what runs already is not waited for": {reboot: true, answer: func(string) (update.Answer, error) { return update.Answer{Unchanged: true}, nil }, sent: []string{"a", "b", "c"}, lines: map[string][]string{"a": {after}, "b": {after}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plant{lines: tt.lines}
			if p.lines == nil {
				p.lines = map[string][]string{}
			}
			r := Rollout{
				Services: services.Ours(),
				Nodes:    masters, All: masters, ClusterHash: "new", Reboot: tt.reboot, Without: tt.without, Bound: patience(tt.err), Every: time.Millisecond, Ask: p.ask,
				Send: func(_ context.Context, n string, _ Wish) (update.Answer, error) {
					p.sent = append(p.sent, n)
					if tt.answer == nil {
						return update.Answer{Node: n}, nil
					}
					return tt.answer(n)
				},
				Say: func(n, text string) { p.said = append(p.said, n+" "+text) },
			}
			_, err := r.Run(context.Background())
			require.Equal(t, tt.sent, p.sent)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(p.said, func(s string) bool { return s[0] == 'c' }))
		})
	}
}

// hall is a cluster of nodes that take updates, which counts how many do at once.
type hall struct {
	mu           sync.Mutex
	root         map[string]string
	at, most     int
	sent, said   []string
	refuses      string
	keepsWayBack bool
}

func (h *hall) rollout(nodes ...Target) Rollout {
	return Rollout{
		Services: services.Ours(),
		Nodes:    nodes, All: nodes, RootHash: "fresh", ClusterHash: "new", Bound: 50 * time.Millisecond, Every: time.Millisecond,
		Ask: func(_ context.Context, node string) (nodeapi.Status, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.root[node] == "" {
				return nodeapi.Status{}, errors.New("no answer in time")
			}
			return nodeapi.Status{Configuration: &nodeapi.Configuration{RootHash: h.root[node], ClusterHash: "old"}}, nil
		},
		Send: func(_ context.Context, node string, w Wish) (update.Answer, error) {
			h.mu.Lock()
			h.at++
			h.most, h.sent = max(h.most, h.at), append(h.sent, node)
			h.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.at--
			switch {
			case node == h.refuses:
				return update.Answer{Error: "the root slot is too small"}, nil
			case h.keepsWayBack && !w.GiveUpWayBack:
				return update.Answer{Error: "the node would lose its way back: say --give-up-way-back"}, nil
			}
			return update.Answer{Node: node}, nil
		},
		Say: func(node, text string) { h.said = append(h.said, node+" "+text) },
	}
}

func several(n int) (out []Target) {
	for i := range n {
		out = append(out, Target{Name: fmt.Sprintf("n%02d", i)})
	}
	return out
}

func TestNodesThatCannotHaveItAtOnceGetItAtTheSameTime(t *testing.T) {
	nodes := several(10)
	h := &hall{root: map[string]string{}}
	for _, n := range nodes {
		h.root[n.Name] = "old"
	}
	answers, err := h.rollout(nodes...).Run(context.Background())
	require.NoError(t, err)
	require.Equal(t, atOnce, h.most)
	require.Len(t, h.sent, 10)
	require.Len(t, h.said, 10)
	for i, a := range answers {
		require.Equal(t, nodes[i].Name, a.Node, "in the order of the nodes")
	}

	h = &hall{root: map[string]string{}}
	for _, n := range nodes {
		h.root[n.Name] = "fresh"
	}
	_, err = h.rollout(nodes...).Run(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, h.most, "what is in effect at once restarts programs: one node after the other")

	h = &hall{root: map[string]string{"n00": "old", "n01": "fresh", "n02": "OLD", "n03": ""}}
	_, err = h.rollout(nodes[:4]...).Run(context.Background())
	require.NoError(t, err)
	require.LessOrEqual(t, h.most, 2)
	require.Equal(t, []string{"n01", "n03"}, h.sent[2:], "those that get it alone come last")
}

func TestTheFirstOfSeveralThatRefusesEndsIt(t *testing.T) {
	nodes := several(30)
	h := &hall{root: map[string]string{}, refuses: "n01"}
	for _, n := range nodes {
		h.root[n.Name] = "old"
	}
	answers, err := h.rollout(nodes...).Run(context.Background())
	require.EqualError(t, err, "n01: the root slot is too small")
	require.Less(t, len(h.sent), 12, "no other begins, and those that were under way end")
	require.Len(t, answers, len(h.sent)-1)
}

func TestAPersonIsAskedForTheWayBack(t *testing.T) {
	nodes := several(2)
	for name, tt := range map[string]struct {
		ask  func(string, string) bool
		err  string
		sent int
	}{
		"nobody is there": {nil, "n00: the node would lose its way back: say --give-up-way-back", 1},
		"says no":         {func(string, string) bool { return false }, "n00: the node would lose its way back", 1},
		"says yes":        {func(_, why string) bool { return strings.Contains(why, "would lose its way back") }, "", 4},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hall{root: map[string]string{"n00": "fresh", "n01": "fresh"}, keepsWayBack: true}
			r := h.rollout(nodes...)
			r.GiveUp = tt.ask
			_, err := r.Run(context.Background())
			require.Len(t, h.sent, tt.sent)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
		})
	}
	h := &hall{root: map[string]string{"n00": "fresh"}, refuses: "n00"}
	r := h.rollout(nodes[0])
	r.GiveUp = func(string, string) bool { t.Error("nobody is asked for anything else"); return true }
	_, err := r.Run(context.Background())
	require.ErrorContains(t, err, "too small")
}

func TestAPersonIsToldBeforeAnythingIsSent(t *testing.T) {
	for role, want := range map[string][]string{
		"control-plane": {
			"a could not return to what runs now: the way back of etcd from v3.6.0 to v3.5.1 is unsafe: etcd 3.5 does not start on the data of a cluster of version 3.6, " +
				"unless all its members were told so before (etcdctl downgrade enable 3.5)", "a is sent", "a has it on its disk, and takes it at its next start",
		},
		"mqtt-broker": {"a is sent", "a has it on its disk, and takes it at its next start"},
	} {
		p := &plant{lines: map[string][]string{"a": {`{"configuration":{"rootHash":"old","clusterHash":"new"},"versions":{"etcd":"v3.5.1"}}`}}}
		say := func(n, text string) { p.said = append(p.said, n+" "+text) }
		r := Rollout{
			Services: services.Ours(),
			Nodes:    []Target{{"a", []string{role}}}, RootHash: "fresh", ClusterHash: "new", Versions: map[string]string{"etcd": "v3.6.0"}, Ask: p.ask, Say: say,
			Send: func(context.Context, string, Wish) (update.Answer, error) {
				say("a", "is sent")
				return update.Answer{}, nil
			},
		}
		_, err := r.Run(context.Background())
		require.NoError(t, err)
		require.Equal(t, want, p.said)
	}
}

func TestNodesGoBack(t *testing.T) {
	const (
		runs   = `{"configuration":{"rootHash":"b","clusterHash":"x","problem":"an old one"}}`
		before = `{"configuration":{"rootHash":"a","clusterHash":"x","problem":"went back to this configuration: taken back by anna"}}`
	)
	for name, tt := range map[string]struct {
		lines  []string
		answer update.Answer
		err    string
	}{
		"another root with the same part": {[]string{runs, runs, "", before}, update.Answer{Reboot: true}, ""},
		"one that stays":                  {[]string{runs}, update.Answer{Reboot: true}, "for it to be up with it: it has not restarted yet"},
		"one that is off":                 {nil, update.Answer{}, "a: no answer in time"},
		"one that has nothing":            {[]string{runs}, update.Answer{Error: "there is no system before this one"}, "a: there is no system before this one"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plant{lines: map[string][]string{"a": tt.lines}}
			r := Rollout{
				Services: services.Ours(),
				Nodes:    []Target{{Name: "a"}}, Reboot: true, Bound: patience(tt.err), Every: time.Millisecond, Ask: p.ask,
				Send: func(context.Context, string, Wish) (update.Answer, error) { return tt.answer, nil },
				Say:  func(n, text string) { p.said = append(p.said, n+" "+text) },
			}
			_, err := r.Run(context.Background())
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"a restarts with the system before", "a is up with it"}, p.said)
		})
	}
}

func TestAnotherRootIsWaitedForLonger(t *testing.T) {
	const onTrial = `{"configuration":{"rootHash":"fresh","clusterHash":"new","trial":true}}`
	for name, tt := range map[string]struct{ before, want string }{
		"a configuration": {`{"configuration":{"rootHash":"FRESH","clusterHash":"old"}}`, "waited 10ms for it"},
		"another root":    {`{"configuration":{"rootHash":"fre","clusterHash":"new"}}`, "waited 40ms for it"},
		"who knows":       {"", "waited 40ms for it"},
	} {
		p := &plant{lines: map[string][]string{"a": {tt.before, onTrial}}}
		r := Rollout{
			Services: services.Ours(),
			Nodes:    []Target{{Name: "a"}}, Reboot: true, RootHash: "fresh", ClusterHash: "new", Bound: 10 * time.Millisecond, Settle: 30 * time.Millisecond,
			Every: time.Millisecond, Ask: p.ask, Say: func(string, string) {},
			Send: func(context.Context, string, Wish) (update.Answer, error) { return update.Answer{}, nil },
		}
		_, err := r.Run(context.Background())
		require.ErrorContains(t, err, tt.want, name)
	}
}

func TestOneThatHasItAlreadyAndIsOnTrialIsWaitedFor(t *testing.T) {
	const onTrial, kept = `{"configuration":{"rootHash":"fresh","clusterHash":"new","trial":true}}`, `{"configuration":{"rootHash":"fresh","clusterHash":"new"}}`
	p := &plant{lines: map[string][]string{"a": {onTrial, onTrial, onTrial, kept}}}
	r := Rollout{
		Services: services.Ours(),
		Nodes:    []Target{{Name: "a"}}, Reboot: true, RootHash: "fresh", ClusterHash: "new", Bound: time.Minute, Every: time.Millisecond, Ask: p.ask,
		Say:  func(n, text string) { p.said = append(p.said, text) },
		Send: func(context.Context, string, Wish) (update.Answer, error) { return update.Answer{Unchanged: true}, nil },
	}
	_, err := r.Run(context.Background())
	require.NoError(t, err)
	require.Equal(t, []string{"is up with it"}, p.said, "the answer may have been lost with the connection")
	require.Len(t, p.lines["a"], 1)
}
