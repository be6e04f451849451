// Package trial judges a start with a configuration that was pushed to the node: it is good when all that the node is there for
// has been up for a while, and bad when that takes longer than its bound (systemd's "automatic boot assessment", of which the
// counting is the boot loader's).
//
// It asks for no more than what was up before: a unit that had failed already when the configuration came says nothing of it.
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

	"spore/agent/status"
	"spore/agent/wait"
)

// Settle is how long everything has to be up without a break. A program that ends again and again is up in between.
const Settle = 20 * time.Second

// every is how often it is looked.
const every = time.Second

// Systemd is what is asked; a *dbus.Conn is one.
type Systemd interface {
	GetUnitPropertiesContext(ctx context.Context, unit string) (map[string]any, error)
	GetUnitTypePropertyContext(ctx context.Context, unit, unitType, name string) (*dbus.Property, error)
}

// Options say what is judged.
type Options struct {
	// Node is the node's name, Roles are those that it has.
	Node  string
	Roles []string
	// Down lists units and roles that were not up before. It is asked at each look, since the node's record lies on a partition
	// that comes while this waits. May be nil.
	Down func() []string
	// Bound is how long it may take, Settle how long it has to last; the package's when 0.
	Bound, Settle time.Duration
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
	if o.Settle == 0 {
		o.Settle = Settle
	}
	var since time.Time
	var before uint64
	said, missing := "", []string{"anything is known of the node"}
	err := wait.Until(ctx, wait.Condition{For: "the node's roles", Bound: o.Bound, Every: every, Met: func() bool {
		if o.Each != nil {
			o.Each()
		}
		var restarts uint64
		missing, restarts = o.look(ctx)
		if text := strings.Join(missing, ", "); text != said {
			said = text
			if text != "" {
				o.Say("on trial: waiting until " + text)
			}
		}
		if len(missing) > 0 || restarts != before || since.IsZero() {
			since, before = time.Now(), restarts
			if len(missing) > 0 {
				since = time.Time{}
			}
			return false
		}
		return time.Since(since) >= o.Settle
	}})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case len(missing) == 0:
		missing = []string{fmt.Sprintf("everything stays up for %s", o.Settle)}
	}
	return fmt.Errorf("waited %s until %s: %w", o.Bound.Round(time.Second), strings.Join(missing, ", "), wait.ErrBound)
}

// look lists what is not up, each to end a sentence that begins "waiting until", and counts how often programs were started
// again.
func (o Options) look(ctx context.Context) (missing []string, restarts uint64) {
	l, err := o.Line()
	if err != nil {
		return []string{"the agent says how the node is"}, 0
	}
	if l.Node != o.Node {
		return []string{fmt.Sprintf("the machine is node %s (it is %s)", o.Node, cmp.Or(l.Node, "none"))}, 0
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
		missing = append(missing, fmt.Sprintf("role %s is started (%s)", role, why))
	}
	for _, unit := range slices.Sorted(maps.Keys(l.Services)) {
		if slices.Contains(down, unit) {
			continue
		}
		state, again := o.unit(ctx, unit)
		restarts += again
		if state != "" {
			missing = append(missing, fmt.Sprintf("%s is up (%s)", unit, state))
		}
	}
	return missing, restarts
}

// unit is the state of a unit that is not up; empty when it is, or when its conditions say that it has nothing to do here.
func (o Options) unit(ctx context.Context, name string) (state string, restarts uint64) {
	p, err := o.Systemd.GetUnitPropertiesContext(ctx, name)
	if err != nil {
		return "unknown: " + err.Error(), 0
	}
	active, _ := p["ActiveState"].(string)
	sub, _ := p["SubState"].(string)
	if strings.HasSuffix(name, ".service") {
		if v, err := o.Systemd.GetUnitTypePropertyContext(ctx, name, "Service", "NRestarts"); err == nil {
			n, _ := v.Value.Value().(uint32)
			restarts = uint64(n)
		}
	}
	met, known := p["ConditionResult"].(bool)
	tried, _ := p["ConditionTimestamp"].(uint64)
	if active == "active" || active == "inactive" && known && !met && tried > 0 {
		return "", restarts
	}
	return active + ", " + sub, restarts
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
