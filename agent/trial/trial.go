// Package trial judges a start with a configuration that was pushed to the node: it is good when all that the node is
// there for has been up for a while, and bad when that takes longer than its bound (systemd's "automatic boot
// assessment", of which the counting is the boot loader's).
//
// It asks for no more than what was up before: a unit that had failed already when the configuration came says nothing
// of it.
package trial

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"

	"spore/agent/activate"
	"spore/agent/status"
	"spore/agent/wait"
)

// Settle is how long everything has to be up without a break with another configuration. A program that ends again and
// again is up in between. With another root or kernel it is longer (services.TrialSettle).
const Settle = 20 * time.Second

const (
	// every is how often it is looked.
	every = time.Second
	// lookBound is how long systemd may take to answer in one look. One that hangs never does, and this is what ends a
	// start with it on a machine without a hardware watchdog.
	lookBound = 30 * time.Second
)

// agentUnit starts the roles and says how the node is. It is not among what its own line tells of, which stays as it
// was when it ended last.
const agentUnit = "spore-agent.service"

// Systemd is what is asked; a *dbus.Conn is one.
type Systemd interface {
	activate.Services
	ListUnitsByNamesContext(ctx context.Context, units []string) ([]dbus.UnitStatus, error)
	GetUnitPropertiesContext(ctx context.Context, unit string) (map[string]any, error)
	GetUnitTypePropertyContext(ctx context.Context, unit, unitType, name string) (*dbus.Property, error)
}

// Clock is the time since the kernel was started (CLOCK_BOOTTIME). It goes on while the judge is started again, and
// nobody sets it.
type Clock struct {
	Now   func() time.Duration
	Sleep func(ctx context.Context, d time.Duration) error
}

// Options say what is judged.
type Options struct {
	// Node is the node's name, Roles are those that it has.
	Node  string
	Roles []string
	// Down lists units and roles that were not up before. It is asked at each look, since the node's record lies on a
	// partition that comes while this waits. May be nil.
	Down func() []string
	// Bound is how long after the start of the kernel everything has to be up, for Settle without a break. A judge that
	// is started again has no more time.
	Bound time.Duration
	// Settle is asked at each look, as Down is. May be nil: the package's.
	Settle func() time.Duration
	Clock  Clock
	// Line reads the last status line.
	Line    func() (status.Line, error)
	Systemd Systemd
	// Say is told what is waited for when that changes.
	Say func(string)
	// Each, when not nil, is called at each look.
	Each func()
}

// Await returns nil when everything has been up for long enough. Its error says what is not up after the bound
// (wait.ErrBound), or that the context ended.
func Await(ctx context.Context, o Options) error {
	if o.Settle == nil {
		o.Settle = func() time.Duration { return Settle }
	}
	var s steady
	said := ""
	for {
		if o.Each != nil {
			o.Each()
		}
		p := o.lookWithin(ctx, min(lookBound, o.Bound), s.up)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if text := strings.Join(p.missing, ", "); text != said {
			said = text
			if text != "" {
				o.Say("on trial: waiting until " + text)
			}
		}
		now, settle := o.Clock.Now(), o.Settle()
		s.see(now, p)
		if len(p.missing) == 0 && now-s.since >= settle {
			return nil
		}
		if s.late(now, o.Bound) {
			if s.broke != "" {
				p.missing = append(p.missing, fmt.Sprintf("everything stays up for %s (%s ended)", settle, s.broke))
			} else if len(p.missing) == 0 {
				p.missing = []string{fmt.Sprintf("everything stays up for %s", settle)}
			}
			text := strings.Join(p.missing, ", ")
			return fmt.Errorf("waited %s until %s: %w", now.Round(time.Second), text, wait.ErrBound)
		}
		if err := o.Clock.Sleep(ctx, every); err != nil {
			return err
		}
	}
}

// lookWithin is look with a bound.
func (o Options) lookWithin(ctx context.Context, bound time.Duration, up bool) picture {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return o.look(ctx, up)
}

// planned is how long a program may be away when somebody restarts it on purpose: longer than systemd waits for one by
// default, to end and to start (90 seconds each, systemd-system.conf(5)).
const planned = 3 * time.Minute

// picture is what one look shows.
type picture struct {
	// missing lists what is not up, each to end a sentence that begins "waiting until".
	missing []string
	// moving says that all of it is being started or stopped by a job: nothing has ended by itself.
	moving bool
	// restarts is how often each program was started again because it had ended by itself (systemd.service(5),
	// Restart=). It is empty while it matters to nobody: before everything is up.
	restarts map[string]uint64
}

// steady is since when everything is up.
type steady struct {
	up    bool
	since time.Duration
	// away is since when a restart on purpose has been going on; 0 when there is none.
	away time.Duration
	// broke is the program that ended by itself last, after all had been up.
	broke    string
	restarts map[string]uint64
}

// see takes a look into account. A program that was started again after it had ended by itself is a break, and one that
// is restarted on purpose is none.
func (s *steady) see(now time.Duration, p picture) {
	ended := s.ended(p.restarts)
	if s.up && ended != "" {
		s.up, s.broke = false, ended
	}
	switch {
	case len(p.missing) == 0:
		s.away = 0
		if !s.up {
			s.up, s.since = true, now
		}
	case s.up && p.moving:
		if s.away == 0 {
			s.away = now
		}
		s.up = now-s.away < planned
	default:
		s.up = false
	}
}

// ended names a program that was started again since the last look; empty without any.
func (s *steady) ended(restarts map[string]uint64) string {
	out := ""
	for _, unit := range slices.Sorted(maps.Keys(restarts)) {
		if before, known := s.restarts[unit]; known && restarts[unit] > before {
			out = unit
		}
	}
	s.restarts = restarts
	return out
}

// late says that it is not up within the bound, or that it was not for good.
func (s *steady) late(now, bound time.Duration) bool {
	if s.up {
		return s.since > bound
	}
	return now >= bound
}

// look asks how everything is; up says that everything was, at the look before.
func (o Options) look(ctx context.Context, up bool) picture {
	p := picture{restarts: map[string]uint64{}}
	l, err := o.Line()
	if err != nil {
		p.missing = []string{"the agent says how the node is"}
		return p
	}
	if l.Node != o.Node {
		p.missing = []string{fmt.Sprintf("the machine is node %s (it is %s)", o.Node, cmp.Or(l.Node, "none"))}
		return p
	}
	var down []string
	if o.Down != nil {
		down = o.Down()
	}
	for _, role := range o.Roles {
		if slices.Contains(l.Roles, role) || slices.Contains(down, role) {
			continue
		}
		why := "not started yet"
		for _, h := range l.Held {
			if h.Role == role {
				why = h.Reason
			}
		}
		p.missing = append(p.missing, fmt.Sprintf("role %s is started (%s)", role, why))
	}
	p.moving = len(p.missing) == 0
	names := append(slices.Sorted(maps.Keys(l.Services)), agentUnit)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(down, name) })
	active := o.active(ctx, names)
	for _, name := range names {
		if active[name] {
			continue
		}
		if state, moving := o.unit(ctx, name); state != "" {
			p.missing = append(p.missing, fmt.Sprintf("%s is up (%s)", name, state))
			p.moving = p.moving && moving
		}
	}
	if up || len(p.missing) == 0 {
		for _, name := range names {
			p.restarts[name] = o.restarts(ctx, name)
		}
	}
	return p
}

// active tells which units are active, by one question: it is asked each second, and most of the time all of them are.
// What the answer does not have is asked for by itself, which says why.
func (o Options) active(ctx context.Context, names []string) map[string]bool {
	list, err := o.Systemd.ListUnitsByNamesContext(ctx, names)
	if err != nil {
		return nil
	}
	out := map[string]bool{}
	for _, u := range list {
		out[u.Name] = u.ActiveState == "active"
	}
	return out
}

// restarts is how often systemd has started a service again because it had ended by itself.
func (o Options) restarts(ctx context.Context, name string) uint64 {
	if !strings.HasSuffix(name, ".service") {
		return 0
	}
	v, err := o.Systemd.GetUnitTypePropertyContext(ctx, name, "Service", "NRestarts")
	if err != nil {
		return 0
	}
	n, _ := v.Value.Value().(uint32)
	return uint64(n)
}

// unit is how a unit is that is not active. systemd writes a hundred properties for this. state is empty when it is up,
// when it is a oneshot that did its work, or when its conditions say that it has nothing to do here; moving says that a job
// starts or stops it, and that it has not ended by itself.
func (o Options) unit(ctx context.Context, name string) (state string, moving bool) {
	p, err := o.Systemd.GetUnitPropertiesContext(ctx, name)
	if err != nil {
		return "unknown: " + err.Error(), false
	}
	active, _ := p["ActiveState"].(string)
	sub, _ := p["SubState"].(string)
	met, known := p["ConditionResult"].(bool)
	tried, _ := p["ConditionTimestamp"].(uint64)
	if active == "active" || active == "inactive" && known && !met && tried > 0 {
		return "", false
	}
	if active == "inactive" && !activate.HasJob(p) && activate.Done(ctx, o.Systemd, name) {
		return "", false
	}
	return active + ", " + sub, activate.HasJob(p) && active != "failed" && sub != "auto-restart"
}

// NotUp lists units and roles of a status line that are not up, for Options.Down.
func NotUp(l status.Line) []string {
	var out []string
	for _, h := range l.Held {
		out = append(out, h.Role)
	}
	for _, unit := range slices.Sorted(maps.Keys(l.Services)) {
		if l.Services[unit] != "active" {
			out = append(out, unit)
		}
	}
	return out
}
