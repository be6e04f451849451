package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

type systemd struct {
	state  string
	failed []dbus.UnitStatus
	units  map[string]string
	// done are oneshots that ended well.
	done []string
	err  error
}

func (s systemd) SystemStateContext(context.Context) (*dbus.Property, error) {
	return &dbus.Property{Name: "SystemState", Value: godbus.MakeVariant(s.state)}, s.err
}

func (s systemd) ListUnitsByPatternsContext(context.Context, []string, []string) ([]dbus.UnitStatus, error) {
	return s.failed, nil
}

func (s systemd) ListUnitsByNamesContext(_ context.Context, names []string) (out []dbus.UnitStatus, err error) {
	for _, n := range names {
		out = append(out, dbus.UnitStatus{Name: n, ActiveState: s.units[n]})
	}
	return out, nil
}

func (s systemd) GetUnitTypePropertyContext(_ context.Context, unit, _, name string) (*dbus.Property, error) {
	kind := "simple"
	if slices.Contains(s.done, unit) {
		kind = "oneshot"
	}
	p := map[string]any{"Type": kind, "Result": "success", "ExecMainExitTimestamp": uint64(7)}
	return &dbus.Property{Name: name, Value: godbus.MakeVariant(p[name])}, nil
}

func TestAOneshotThatDidItsWorkIsActive(t *testing.T) {
	s := systemd{state: "running", done: []string{"done.service", "again.service"}, units: map[string]string{
		"done.service": "inactive", "again.service": "activating", "ended.service": "inactive", "x.timer": "inactive",
	}}
	p, err := Take(t.Context(), s, slices.Sorted(maps.Keys(s.units)))
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"done.service": "active", "again.service": "activating", "ended.service": "inactive", "x.timer": "inactive",
	}, p.Units)
}

func TestTake(t *testing.T) {
	s := systemd{state: "degraded", failed: []dbus.UnitStatus{{Name: "b.service"}, {Name: "a.service"}}, units: map[string]string{"dns.target": "active"}}
	p, err := Take(context.Background(), s, []string{"dns.target"})
	require.NoError(t, err)
	require.Equal(t, Picture{System: "degraded", Failed: []string{"a.service", "b.service"}, Units: map[string]string{"dns.target": "active"}}, p)
	s.err = errors.New("gone")
	_, err = Take(context.Background(), s, nil)
	require.ErrorContains(t, err, "ask systemd for its state: gone")
}

func TestChangesThatComeTogetherAreOne(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	events := make(chan struct{}, 100)
	out := Debounce(ctx, events, func() bool { return true })
	for range 20 {
		events <- struct{}{}
	}
	start := time.Now()
	<-out
	require.GreaterOrEqual(t, time.Since(start), Quiet)
	select {
	case <-out:
		t.Fatal("one burst is told twice")
	case <-time.After(2 * Quiet):
	}
	cancel()
	for range out { //nolint:revive // Until it is closed.
	}
}

func TestChangesWithoutEndDoNotPutThePictureOffForEver(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	events := make(chan struct{}, 1)
	go func() {
		for ctx.Err() == nil {
			select {
			case events <- struct{}{}:
			default:
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	start := time.Now()
	<-Debounce(ctx, events, func() bool { return true })
	require.Less(t, time.Since(start), Longest+time.Second)
}

func TestABootThatIsNotDoneIsLookedAtLessAndLessUntilSomethingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events := make(chan struct{})
		looks := Debounce(ctx, events, func() bool { return false })
		begin := time.Now()
		var at []float64
		look := func() {
			<-looks
			at = append(at, time.Since(begin).Seconds())
		}
		for range 7 {
			look()
		}
		require.Equal(t, []float64{1, 3, 7, 15, 31, 47, 63}, at)

		events <- struct{}{}
		at, begin = nil, time.Now()
		for range 3 {
			look()
		}
		require.Equal(t, []float64{0.2, 1.2, 3.2}, at)
		cancel()
		synctest.Wait()
	})
}
