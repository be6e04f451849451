package trial

import (
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
	skipped  bool
	restarts uint32
}

// systemd is one whose units tests set.
type systemd map[string]*unit

func (s systemd) GetUnitPropertiesContext(_ context.Context, name string) (map[string]any, error) {
	u := s[name]
	if u == nil {
		return nil, errors.New("no such unit")
	}
	return map[string]any{"ActiveState": u.active, "SubState": "sub", "ConditionResult": !u.skipped, "ConditionTimestamp": uint64(1)}, nil
}

func (s systemd) GetUnitTypePropertyContext(_ context.Context, name, _, _ string) (*dbus.Property, error) {
	return &dbus.Property{Name: "NRestarts", Value: godbus.MakeVariant(s[name].restarts)}, nil
}

func line() status.Line {
	return status.Line{Node: "edge-01", Roles: []string{"dns-server", "mqtt-broker"}, Services: map[string]string{"coredns.service": "active", "mosquitto.service": "active"}}
}

func options(s systemd, change func(*status.Line)) Options {
	l := line()
	if change != nil {
		change(&l)
	}
	return Options{
		Node: "edge-01", Roles: []string{"dns-server", "mqtt-broker"}, Bound: 2500 * time.Millisecond, Settle: 1500 * time.Millisecond,
		Systemd: s, Line: func() (status.Line, error) { return l, nil }, Say: func(string) {},
	}
}

func up() systemd {
	return systemd{"coredns.service": {active: "active"}, "mosquitto.service": {active: "active"}}
}

func TestWhatIsUpAndWhatIsNot(t *testing.T) {
	for name, tt := range map[string]struct {
		units func(systemd)
		line  func(*status.Line)
		down  []string
		want  string
	}{
		"all is up":                         {},
		"a unit that fails":                 {units: func(s systemd) { s["mosquitto.service"].active = "failed" }, want: "mosquitto.service is up (failed, sub)"},
		"a unit that is started again":      {units: func(s systemd) { s["mosquitto.service"].active = "activating" }, want: "mosquitto.service is up (activating, sub)"},
		"a unit that had failed before":     {units: func(s systemd) { s["mosquitto.service"].active = "failed" }, down: []string{"mosquitto.service"}},
		"a unit that has nothing to do":     {units: func(s systemd) { s["mosquitto.service"] = &unit{active: "inactive", skipped: true} }},
		"a unit that was stopped":           {units: func(s systemd) { s["mosquitto.service"].active = "inactive" }, want: "mosquitto.service is up (inactive, sub)"},
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
			o := options(s, tt.line)
			o.Down = func() []string { return tt.down }
			missing, _ := o.look(context.Background())
			if tt.want == "" {
				require.Empty(t, missing)
				require.NoError(t, Await(context.Background(), o))
				return
			}
			require.NotEmpty(t, missing)
			err := Await(context.Background(), o)
			require.ErrorIs(t, err, wait.ErrBound)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// Each look finds the unit up; it has been started again in between.
func TestAProgramThatEndsAgainAndAgainIsNotUp(t *testing.T) {
	s := up()
	o := options(s, nil)
	o.Each = func() { s["mosquitto.service"].restarts++ }
	require.ErrorContains(t, Await(context.Background(), o), "everything stays up for 1.5s")
}

func TestWhatEndsTheWait(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, Await(ctx, options(up(), nil)), context.Canceled)

	o := options(up(), nil)
	o.Line = func() (status.Line, error) { return status.Line{}, errors.New("no such file") }
	require.ErrorContains(t, Await(context.Background(), o), "the agent says how the node is")
}

func TestWhatWasNotUpBefore(t *testing.T) {
	l := line()
	l.Services["kafka.service"] = "failed"
	l.Services["etcd.service"] = "activating"
	l.Held = []activate.Held{{Role: "worker"}}
	require.Equal(t, []string{"worker", "etcd.service", "kafka.service"}, NotUp(l))
}
