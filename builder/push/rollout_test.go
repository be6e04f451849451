package push

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plant is a cluster whose nodes say one line after the other, and the last one for ever.
type plant struct {
	lines map[string][]string
	sent  []string
	said  []string
}

func (p *plant) ask(_ context.Context, node string) (Status, error) {
	var s Status
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
	for want, a := range map[string]Answer{
		"has it in effect, after a restart of a.service, b.service":                               {Live: true, Restarted: []string{"a.service", "b.service"}},
		"has it in effect; no program had to be restarted":                                        {Live: true},
		"has it on its disk, and takes it at its next start (--reboot), because of node.roles: x": {Waits: []string{"node.roles: x"}},
		"has it on its disk, and takes it at its next start":                                      {},
	} {
		require.Equal(t, want, a.effect())
	}
}

func TestARollOut(t *testing.T) {
	masters := []Target{{"a", []string{"control-plane"}}, {"b", []string{"control-plane", "dns-server"}}, {"c", []string{"mqtt-broker"}}}
	for name, tt := range map[string]struct {
		lines   map[string][]string
		answer  func(string) (Answer, error)
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
		"one that stays on trial ends it": {
			reboot: true, sent: []string{"a"}, lines: map[string][]string{"a": {onTry}, "b": {before}}, err: "for it to be up with the configuration: it is on trial: etcd.service is activating",
		},
		"one that does not come back ends it": {reboot: true, sent: []string{"a"}, lines: map[string][]string{"b": {before}}, err: "no answer in time"},
		"no master restarts while another is away": {
			reboot: true, lines: map[string][]string{"a": {after}}, err: "a is not restarted: b, which has a role of it too, does not answer (--without b continues anyway): no answer in time",
		},
		"one that is named may be away": {
			reboot: true, without: []string{"b"}, sent: []string{"a", "b"}, lines: map[string][]string{"a": {"", after}},
			answer: func(n string) (Answer, error) {
				if n == "b" {
					return Answer{}, errors.New("no route to host")
				}
				return Answer{Node: n}, nil
			}, err: "b: no route to host",
		},
		"no master restarts while another is ill": {
			reboot: true, lines: map[string][]string{"b": {ill}}, err: "a is not restarted: b, which has a role of it too, is not up (--without b continues anyway): etcd.service is failed",
		},
		"no master restarts while a role is held elsewhere": {reboot: true, lines: map[string][]string{"b": {held}}, err: "role control-plane is held"},
		"one that refuses ends it": {
			answer: func(n string) (Answer, error) {
				if n == "b" {
					return Answer{Error: "the update is refused: older"}, nil
				}
				return Answer{}, nil
			}, sent: []string{"a", "b"}, err: "b: the update is refused: older",
		},
		"one that does not answer ends it":    {answer: func(string) (Answer, error) { return Answer{}, errors.New("no answer") }, sent: []string{"a"}, err: "a: no answer"},
		"what runs already is not waited for": {reboot: true, answer: func(string) (Answer, error) { return Answer{Unchanged: true}, nil }, sent: []string{"a", "b", "c"}, lines: map[string][]string{"a": {after}, "b": {after}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plant{lines: tt.lines}
			if p.lines == nil {
				p.lines = map[string][]string{}
			}
			r := Rollout{
				Nodes: masters, All: masters, ClusterHash: "new", Reboot: tt.reboot, Without: tt.without, Bound: 100 * time.Millisecond, Every: time.Millisecond, Ask: p.ask,
				Send: func(_ context.Context, n string) (Answer, error) {
					p.sent = append(p.sent, n)
					if tt.answer == nil {
						return Answer{Node: n}, nil
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
