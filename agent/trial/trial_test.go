package trial

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"spore/agent/activate"
	"spore/agent/status"
	"spore/agent/wait"
)

// unit is what systemd says of a unit.
type unit struct {
	active   string
	sub      string
	skipped  bool
	done     bool
	restarts uint32
	job      uint32
}

// systemd is one whose units tests set.
type systemd map[string]*unit

// ListUnitsByNamesContext leaves out what is not there.
func (s systemd) ListUnitsByNamesContext(_ context.Context, names []string) (list []dbus.UnitStatus, _ error) {
	for _, name := range names {
		if u := s[name]; u != nil {
			list = append(list, dbus.UnitStatus{Name: name, ActiveState: u.active})
		}
	}
	return list, nil
}

func (s systemd) GetUnitPropertiesContext(_ context.Context, name string) (map[string]any, error) {
	u := s[name]
	if u == nil {
		return nil, errors.New("no such unit")
	}
	return map[string]any{
		"ActiveState": u.active, "SubState": cmp.Or(u.sub, "sub"), "ConditionResult": !u.skipped, "ConditionTimestamp": uint64(1),
		"Job": []any{u.job, godbus.ObjectPath("/")},
	}, nil
}

func (s systemd) GetUnitTypePropertyContext(_ context.Context, name, _, property string) (*dbus.Property, error) {
	if s[name] == nil {
		return nil, errors.New("no such unit")
	}
	kind := "simple"
	if s[name].done {
		kind = "oneshot"
	}
	p := map[string]any{
		"NRestarts": s[name].restarts, "Type": kind, "Result": "success", "ExecMainExitTimestamp": uint64(7),
	}
	return &dbus.Property{Name: property, Value: godbus.MakeVariant(p[property])}, nil
}

func line() status.Line {
	return status.Line{Node: "edge-01", Roles: []string{"dns-server", "mqtt-broker"}, Services: map[string]string{"coredns.service": "active", "mosquitto.service": "active"}}
}

// fakeClock is one that sleeps without waiting; at is told of each second.
type fakeClock struct {
	now time.Duration
	at  func(now time.Duration)
}

func (c *fakeClock) clock() Clock {
	return Clock{
		Now: func() time.Duration { return c.now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			c.now += d
			if c.at != nil {
				c.at(c.now)
			}
			return ctx.Err()
		},
	}
}

// begun is when the judge begins, since the start of the kernel.
const begun = 12 * time.Second

func options(s systemd, change func(*status.Line)) (Options, *fakeClock) {
	l := line()
	if change != nil {
		change(&l)
	}
	c := &fakeClock{now: begun}
	return Options{
		Node: "edge-01", Roles: []string{"dns-server", "mqtt-broker"}, Bound: 10 * time.Minute, Clock: c.clock(),
		Systemd: s, Line: func() (status.Line, error) { return l, nil }, Say: func(string) {},
	}, c
}

func up() systemd {
	return systemd{"coredns.service": {active: "active"}, "mosquitto.service": {active: "active"}, agentUnit: {active: "active"}}
}

// hung is a systemd that answers nothing.
type hung struct{}

func (hung) ListUnitsByNamesContext(ctx context.Context, _ []string) ([]dbus.UnitStatus, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hung) GetUnitPropertiesContext(ctx context.Context, _ string) (map[string]any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hung) GetUnitTypePropertyContext(ctx context.Context, _, _, _ string) (*dbus.Property, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestASystemdThatHangsEndsTheTrialAtItsBound(t *testing.T) {
	o, _ := options(nil, nil)
	o.Systemd, o.Bound = hung{}, 300*time.Millisecond
	began := time.Now()
	err := Await(context.Background(), o)
	require.ErrorIs(t, err, wait.ErrBound)
	require.ErrorContains(t, err, "coredns.service is up (unknown: context deadline exceeded)")
	require.Less(t, time.Since(began), lookBound)
}

// silent is a systemd that is not asked for the properties of a unit.
type silent struct{ systemd }

func (silent) GetUnitPropertiesContext(context.Context, string) (map[string]any, error) {
	return nil, errors.New("it has a hundred properties to write")
}

// counted is a systemd that notes when it was asked how often a service was started again.
type counted struct {
	systemd
	clock *fakeClock
	asked *[]time.Duration
}

func (c counted) GetUnitTypePropertyContext(ctx context.Context, unit, unitType, name string) (*dbus.Property, error) {
	*c.asked = append(*c.asked, c.clock.now)
	return c.systemd.GetUnitTypePropertyContext(ctx, unit, unitType, name)
}

func TestNobodyIsAskedHowOftenItWasStartedBeforeAllIsUp(t *testing.T) {
	s := up()
	s["mosquitto.service"].active = "activating"
	o, c := options(s, nil)
	o.Each = func() {
		if c.now >= begun+time.Minute {
			s["mosquitto.service"].active = "active"
		}
	}
	var asked []time.Duration
	o.Systemd = counted{s, c, &asked}
	require.NoError(t, Await(context.Background(), o))
	require.Equal(t, begun+time.Minute+Settle, c.now)
	require.GreaterOrEqual(t, asked[0], begun+time.Minute)
	require.Greater(t, len(asked), int(Settle.Seconds()))
}

func TestNoPropertiesOfAUnitThatIsActiveAreAskedFor(t *testing.T) {
	s := up()
	o, c := options(s, nil)
	o.Systemd = silent{s}
	require.NoError(t, Await(context.Background(), o))
	require.Equal(t, begun+Settle, c.now)
}

func TestWhatIsUpAndWhatIsNot(t *testing.T) {
	for name, tt := range map[string]struct {
		units func(systemd)
		line  func(*status.Line)
		down  []string
		want  string
	}{
		"all is up":                     {},
		"a unit that fails":             {units: func(s systemd) { s["mosquitto.service"].active = "failed" }, want: "mosquitto.service is up (failed, sub)"},
		"a unit that is started again":  {units: func(s systemd) { s["mosquitto.service"].active = "activating" }, want: "mosquitto.service is up (activating, sub)"},
		"a unit that had failed before": {units: func(s systemd) { s["mosquitto.service"].active = "failed" }, down: []string{"mosquitto.service"}},
		"a unit that has nothing to do": {units: func(s systemd) { s["mosquitto.service"] = &unit{active: "inactive", skipped: true} }},
		"a oneshot that did its work":   {units: func(s systemd) { s["mosquitto.service"] = &unit{active: "inactive", done: true} }},
		"a oneshot that is to work again": {units: func(s systemd) { s["mosquitto.service"] = &unit{active: "inactive", done: true, job: 3} },
			want: "mosquitto.service is up (inactive, sub)"},
		"a oneshot at its work": {units: func(s systemd) { s["mosquitto.service"] = &unit{active: "activating", done: true} },
			want: "mosquitto.service is up (activating, sub)"},
		"a unit that was stopped":           {units: func(s systemd) { s["mosquitto.service"].active = "inactive" }, want: "mosquitto.service is up (inactive, sub)"},
		"an agent that is started again":    {units: func(s systemd) { s[agentUnit].active = "activating" }, want: "spore-agent.service is up (activating, sub)"},
		"an agent that failed":              {units: func(s systemd) { s[agentUnit].active = "failed" }, want: "spore-agent.service is up (failed, sub)"},
		"a unit that systemd does not know": {units: func(s systemd) { delete(s, "mosquitto.service") }, want: "mosquitto.service is up (unknown: no such unit)"},
		"another node":                      {line: func(l *status.Line) { l.Node = "edge-02" }, want: "the machine is node edge-01 (it is edge-02)"},
		"no node":                           {line: func(l *status.Line) { l.Node = "" }, want: "the machine is node edge-01 (it is none)"},
		"a role that is held": {line: func(l *status.Line) {
			l.Roles, l.Held = l.Roles[:1], []activate.Held{{Role: "mqtt-broker", Reason: "missing secrets"}}
		}, want: "role mqtt-broker is started (missing secrets)"},
		"a role that was held before":         {line: func(l *status.Line) { l.Roles = l.Roles[:1] }, down: []string{"mqtt-broker"}},
		"a role that has not been started":    {line: func(l *status.Line) { l.Roles = nil }, want: "role dns-server is started (not started yet), role mqtt-broker"},
		"what another role of the node fails": {units: func(s systemd) { s["coredns.service"].active = "failed" }, down: []string{"mosquitto.service"}, want: "coredns.service is up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := up()
			if tt.units != nil {
				tt.units(s)
			}
			o, c := options(s, tt.line)
			o.Down = func() []string { return tt.down }
			missing := o.look(context.Background(), false).missing
			if tt.want == "" {
				require.Empty(t, missing)
				require.NoError(t, Await(context.Background(), o))
				require.Equal(t, begun+Settle, c.now)
				return
			}
			require.NotEmpty(t, missing)
			err := Await(context.Background(), o)
			require.ErrorIs(t, err, wait.ErrBound)
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, 10*time.Minute, c.now)
		})
	}
}

// What happens in a trial, by the seconds since the start of the kernel, and when it is over.
func TestHowLongATrialLasts(t *testing.T) {
	const settle = 10 * time.Minute
	minute := func(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }
	during := func(now, from, to time.Duration) bool { return now >= from && now < to }
	for name, tt := range map[string]struct {
		at     func(s systemd, now time.Duration)
		settle time.Duration
		over   time.Duration
		want   string
	}{
		"all is up from the start": {nil, settle, begun + settle, ""},
		"another configuration":    {nil, Settle, begun + Settle, ""},
		"a role that comes up late": {func(s systemd, now time.Duration) {
			s["mosquitto.service"].active = map[bool]string{true: "active", false: "activating"}[now >= minute(9)]
		}, settle, minute(19), ""},
		"a role that comes up too late": {func(s systemd, now time.Duration) {
			s["mosquitto.service"].active = map[bool]string{true: "active", false: "activating"}[now >= minute(10.5)]
		}, settle, minute(10), "waited 10m0s until mosquitto.service is up (activating, sub)"},
		"a role that falls over in minute nine and stays down": {func(s systemd, now time.Duration) {
			if now >= minute(9) {
				s["mosquitto.service"].active = "failed"
			}
		}, settle, minute(10), "mosquitto.service is up (failed, sub)"},
		"a role that falls over every nine minutes": {func(s systemd, now time.Duration) {
			s["mosquitto.service"].restarts = uint32(now / minute(9))
		}, settle, minute(18), "waited 18m0s until everything stays up for 10m0s (mosquitto.service ended)"},
		"a role that falls over in minute nine is no trouble to a configuration": {func(s systemd, now time.Duration) {
			s["mosquitto.service"].restarts = uint32(now / minute(9))
		}, Settle, begun + Settle, ""},
		"a program that ends once while all comes up": {func(s systemd, now time.Duration) {
			if now >= minute(2) {
				s["coredns.service"].restarts = 1
			}
		}, settle, minute(12), ""},
		"a start by hand clears the count": {func(s systemd, now time.Duration) {
			s["coredns.service"].restarts = map[bool]uint32{true: 0, false: 3}[now >= minute(5)]
		}, settle, begun + settle, ""},
		"restarts on purpose are not counted": {func(s systemd, now time.Duration) {
			u := s["coredns.service"]
			*u = unit{active: "active"}
			switch {
			case during(now, minute(4), minute(4.5)) || during(now, minute(8), minute(8.2)):
				*u = unit{active: "deactivating", sub: "stop-sigterm", job: 71}
			case during(now, minute(4.5), minute(5)):
				*u = unit{active: "inactive", sub: "dead", job: 71}
			case during(now, minute(5), minute(6)):
				*u = unit{active: "activating", sub: "start-post", job: 71}
			}
		}, settle, begun + settle, ""},
		"a restart on purpose that ends after the time is over": {func(s systemd, now time.Duration) {
			*s["coredns.service"] = unit{active: "active"}
			if during(now, minute(10), minute(11)) {
				*s["coredns.service"] = unit{active: "activating", sub: "start", job: 71}
			}
		}, settle, minute(11), ""},
		"a restart on purpose that does not end": {func(s systemd, now time.Duration) {
			if now >= minute(9) {
				*s["coredns.service"] = unit{active: "activating", sub: "start", job: 71}
			}
		}, settle, minute(12), "waited 12m0s until coredns.service is up (activating, start)"},
		"a restart on purpose after which it ends by itself": {func(s systemd, now time.Duration) {
			*s["coredns.service"] = unit{active: "active"}
			switch {
			case during(now, minute(9), minute(9.5)):
				*s["coredns.service"] = unit{active: "activating", sub: "start", job: 71}
			case during(now, minute(9.5), minute(10.1)):
				*s["coredns.service"] = unit{active: "activating", sub: "auto-restart", job: 72}
			}
		}, settle, minute(10), "coredns.service is up (activating, auto-restart)"},
		"a unit that is stopped for good": {func(s systemd, now time.Duration) {
			if now >= minute(5) {
				*s["coredns.service"] = unit{active: "inactive", sub: "dead"}
			}
		}, settle, minute(10), "coredns.service is up (inactive, dead)"},
		"an agent that crashes again and again": {func(s systemd, now time.Duration) {
			s[agentUnit].restarts = uint32(now / (2 * time.Second))
		}, Settle, 10*time.Minute + 2*time.Second, "everything stays up for 20s (spore-agent.service ended)"},
		"an agent that crashes in minute nine and not again": {func(s systemd, now time.Duration) {
			if now >= minute(9) {
				s[agentUnit].restarts = 1
			}
			s[agentUnit].active = map[bool]string{true: "activating", false: "active"}[during(now, minute(9), minute(9)+3*time.Second)]
		}, settle, minute(19) + 3*time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := up()
			o, c := options(s, nil)
			o.Settle = func() time.Duration { return tt.settle }
			if tt.at != nil {
				c.at = func(now time.Duration) { tt.at(s, now) }
				c.at(c.now)
			}
			err := Await(context.Background(), o)
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, wait.ErrBound)
				require.ErrorContains(t, err, tt.want)
			}
			require.Equal(t, tt.over, c.now)
		})
	}
}

// The judge ends at minute six and is started again: it judges from the start, and the bound is the same.
func TestAJudgeThatIsStartedAgainHasNoMoreTime(t *testing.T) {
	s := up()
	o, c := options(s, nil)
	o.Settle = func() time.Duration { return 10 * time.Minute }
	c.now = 6 * time.Minute
	require.NoError(t, Await(context.Background(), o))
	require.Equal(t, 16*time.Minute, c.now)

	s["mosquitto.service"].active = "failed"
	c.now = 6 * time.Minute
	require.ErrorContains(t, Await(context.Background(), o), "waited 10m0s until mosquitto.service is up")
	require.Equal(t, 10*time.Minute, c.now)

	c.now = time.Hour
	require.ErrorIs(t, Await(context.Background(), o), wait.ErrBound)
	require.Equal(t, time.Hour, c.now, "at the first look")
	s["mosquitto.service"].active = "active"
	require.ErrorContains(t, Await(context.Background(), o), "everything stays up for 10m0s")
}

// The record that says what is on trial may be out of reach until the state partition is there.
func TestHowLongItHasToLastIsAskedAtEachLook(t *testing.T) {
	s := up()
	o, c := options(s, nil)
	o.Settle = func() time.Duration {
		if c.now < begun+10*time.Second {
			return Settle
		}
		return 5 * time.Minute
	}
	require.NoError(t, Await(context.Background(), o))
	require.Equal(t, begun+5*time.Minute, c.now)
}

func TestWhatEndsTheWait(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o, _ := options(up(), nil)
	require.ErrorIs(t, Await(ctx, o), context.Canceled)

	ctx, cancel = context.WithCancel(context.Background())
	o, c := options(up(), nil)
	c.at = func(now time.Duration) {
		if now > begun+5*time.Second {
			cancel()
		}
	}
	require.ErrorIs(t, Await(ctx, o), context.Canceled, "the machine is restarted on purpose")
	require.Equal(t, begun+6*time.Second, c.now)

	o, _ = options(up(), nil)
	o.Line = func() (status.Line, error) { return status.Line{}, errors.New("no such file") }
	require.ErrorContains(t, Await(context.Background(), o), "the agent says how the node is")
}

func TestWhatIsWaitedForIsSaidOnce(t *testing.T) {
	s := up()
	s["mosquitto.service"].active = "activating"
	o, c := options(s, nil)
	var said []string
	o.Say = func(text string) { said = append(said, text) }
	c.at = func(now time.Duration) {
		if now > time.Minute {
			s["mosquitto.service"].active = "active"
		}
	}
	require.NoError(t, Await(context.Background(), o))
	require.Equal(t, []string{"on trial: waiting until mosquitto.service is up (activating, sub)"}, said)
}

func TestWhatWasNotUpBefore(t *testing.T) {
	l := line()
	l.Services["kafka.service"] = "failed"
	l.Services["etcd.service"] = "activating"
	l.Held = []activate.Held{{Role: "worker"}}
	require.Equal(t, []string{"worker", "etcd.service", "kafka.service"}, NotUp(l))
}

// A unit that is up only after a while, and one that is started once more at first, are waited for within the bound.
func TestRolesThatComeUpLateAreWaitedFor(t *testing.T) {
	for name, change := range map[string]func(looks int, s systemd, l *status.Line){
		"a unit that is late": func(looks int, s systemd, _ *status.Line) {
			s["mosquitto.service"].active = map[bool]string{true: "activating", false: "active"}[looks < 3]
		},
		"a role that is held at first": func(looks int, _ systemd, l *status.Line) {
			if l.Roles = l.Roles[:1]; looks >= 3 {
				l.Roles = l.Roles[:2]
			}
		},
		"a program that ends once": func(looks int, s systemd, _ *status.Line) {
			s["mosquitto.service"].restarts = uint32(min(looks, 2))
		},
		"a node that is known late": func(looks int, _ systemd, l *status.Line) {
			l.Node = map[bool]string{true: "", false: "edge-01"}[looks < 3]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, l, looks := up(), line(), 0
			o, _ := options(s, nil)
			o.Line = func() (status.Line, error) { return l, nil }
			o.Each = func() { looks++; change(looks, s, &l) }
			require.NoError(t, Await(context.Background(), o))
			require.Greater(t, looks, 3)
		})
	}
}
