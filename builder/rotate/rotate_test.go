package rotate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

// crowd is nodes that take a few looks to be done.
type crowd struct {
	t        *testing.T
	revision uint64
	have     map[string]*nodeapi.Renewal
	// busy is for how many looks a node still has something to do, and away whether it answers.
	busy  map[string]int
	away  map[string]bool
	looks int
	log   []string
	slept time.Duration
	said  []string
}

func newFleet(t *testing.T, nodes ...string) *crowd {
	f := &crowd{t: t, revision: 2, have: map[string]*nodeapi.Renewal{}, busy: map[string]int{}, away: map[string]bool{}}
	for _, n := range nodes {
		f.have[n] = &nodeapi.Renewal{Serial: 1, Revision: 1, Settled: 1000}
	}
	return f
}

func (f *crowd) Ask(_ context.Context, node string) (nodeapi.Renewal, error) {
	f.looks++
	if f.away[node] {
		return nodeapi.Renewal{}, errors.New("no answer in time")
	}
	r := f.have[node]
	if len(r.Pending) > 0 {
		if f.busy[node]--; f.busy[node] <= 0 {
			r.Pending, r.Settled = nil, 0
			f.log = append(f.log, node+" done")
		}
	}
	return *r, nil
}

func (f *crowd) Send(_ context.Context, node string, data []byte) error {
	for other, r := range f.have {
		require.Empty(f.t, r.Pending, "%s is sent its bundle while %s is not done", node, other)
	}
	f.log = append(f.log, node+" sent")
	r := f.have[node]
	_, err := fmt.Sscan(string(data), &r.Serial)
	r.Revision, r.Pending, r.Settled = f.revision, []string{"etcd"}, 0
	f.busy[node] = 3
	return err
}

func (f *crowd) sleep(ctx context.Context, d time.Duration) error {
	f.slept += d
	for _, r := range f.have {
		r.Settled += d.Seconds()
	}
	return ctx.Err()
}

func (f *crowd) phase(bundles ...Bundle) Phase {
	return Phase{
		Fleet: f, Bundles: bundles, Revision: f.revision, Settle: 10 * time.Minute, Bound: 5 * time.Minute, Every: time.Second,
		Say: func(s string) { f.said = append(f.said, s) }, Sleep: f.sleep,
	}
}

func three() []Bundle {
	return []Bundle{{"master-01", 11, []byte("11")}, {"master-02", 12, []byte("12")}, {"worker-01", 13, []byte("13")}}
}

func TestOneNodeAfterTheOther(t *testing.T) {
	f := newFleet(t, "master-01", "master-02", "worker-01")
	require.NoError(t, f.phase(three()...).Run(t.Context()))
	require.Equal(t, []string{"master-01 sent", "master-01 done", "master-02 sent", "master-02 done", "worker-01 sent", "worker-01 done"}, f.log)
	require.GreaterOrEqual(t, f.slept, 10*time.Minute, "the last one has settled")
	require.Contains(t, f.said, "master-01: waiting until it has restarted etcd")
	require.Contains(t, strings.Join(f.said, "\n"), "until programs that look again every few minutes have looked")
}

func TestNothingIsSentWhileANodeCannotTakePart(t *testing.T) {
	for want, spoil := range map[string]func(*crowd){
		"worker-01 does not answer (no answer in time)": func(f *crowd) { f.away["worker-01"] = true },
		"worker-01 has yet to restart kafka (x is down)": func(f *crowd) {
			f.have["worker-01"].Pending, f.have["worker-01"].Problem, f.busy["worker-01"] = []string{"kafka"}, "x is down", 1000
		},
	} {
		f := newFleet(t, "master-01", "master-02", "worker-01")
		spoil(f)
		require.ErrorContains(t, f.phase(three()...).Run(t.Context()), want)
		require.Empty(t, f.log)
	}
}

func TestANodeThatIsNotDoneEndsThePhase(t *testing.T) {
	f := newFleet(t, "master-01", "master-02", "worker-01")
	p := f.phase(three()...)
	p.Say = func(string) { f.busy["master-02"] += 1000 }
	err := p.Run(t.Context())
	require.ErrorContains(t, err, "master-02: waiting until it has restarted etcd")
	require.ErrorContains(t, err, "run the command again")
	require.NotContains(t, f.log, "worker-01 sent")

	// Again: those that have theirs are not sent another one.
	f.busy["master-02"] = 1
	f.log = nil
	again := three()
	again[0].Data = nil
	f.have["master-02"].Pending = nil
	again[1].Data = nil
	require.NoError(t, f.phase(again...).Run(t.Context()))
	require.Equal(t, []string{"worker-01 sent", "worker-01 done"}, f.log)
}

func TestANodeThatGoesAwayWhileThePhaseSettlesIsWaitedFor(t *testing.T) {
	f := newFleet(t, "master-01", "master-02", "worker-01")
	p := f.phase(three()...)
	p.Say = func(s string) {
		if strings.HasPrefix(s, "waiting") {
			f.away["master-01"] = true
		}
	}
	require.ErrorContains(t, p.Run(t.Context()), "master-01 does not answer")
	f = newFleet(t, "master-01")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.phase(three()[:1]...).Run(ctx), context.Canceled)
}

func TestMastersAreFirst(t *testing.T) {
	master := func(n string) bool { return strings.HasPrefix(n, "m") }
	require.Equal(t, []string{"m1", "m2", "a", "b"}, Order([]string{"a", "m1", "b", "m2"}, master))
	require.True(t, slices.Equal([]string{"b", "a"}, Order([]string{"b", "a"}, master)))
}
