// Package watch follows systemd: which units failed, whether the boot is done, what the roles' programs do. It hears of
// changes over D-Bus and asks for the whole picture once they have come to rest.
package watch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"

	"spore/agent/activate"
)

// Times of the watch.
const (
	// Quiet is how long nothing may change before the picture is taken, Longest how long changes may put it off.
	Quiet   = 200 * time.Millisecond
	Longest = 2 * time.Second
	// Starting is when the picture is taken again while the boot is not done: systemd does not announce its end to those
	// who have no bus. As long as nothing changes each time is twice as long as the one before, up to Waiting: a node may
	// wait for another one, or for its owner, for days. Settled is how often it is taken afterwards, should a signal be
	// lost.
	Starting = time.Second
	Waiting  = 16 * time.Second
	Settled  = time.Minute
	// Early is how long the picture is taken each EarlyEvery instead of upon changes. While a machine starts, many units
	// change each second, and for each change systemd would send all properties of the unit to whoever has subscribed.
	Early      = 20 * time.Second
	EarlyEvery = time.Second / 2
)

// Picture is what systemd said at one time.
type Picture struct {
	// System is running, degraded, starting, ... (systemctl(1), is-system-running).
	System string
	Failed []string
	// Units holds the active state of the watched units. A oneshot service that did its work is active, as it would be
	// with RemainAfterExit=yes.
	Units map[string]string
}

// Systemd is what the watch asks; a *dbus.Conn is one.
type Systemd interface {
	SystemStateContext(ctx context.Context) (*dbus.Property, error)
	ListUnitsByPatternsContext(ctx context.Context, states, patterns []string) ([]dbus.UnitStatus, error)
	ListUnitsByNamesContext(ctx context.Context, units []string) ([]dbus.UnitStatus, error)
	activate.Services
}

// Take takes the picture.
func Take(ctx context.Context, s Systemd, units []string) (Picture, error) {
	p := Picture{Units: map[string]string{}}
	state, err := s.SystemStateContext(ctx)
	if err != nil {
		return p, fmt.Errorf("ask systemd for its state: %w", err)
	}
	p.System, _ = state.Value.Value().(string)
	failed, err := s.ListUnitsByPatternsContext(ctx, []string{"failed"}, nil)
	if err != nil {
		return p, fmt.Errorf("ask systemd for failed units: %w", err)
	}
	for _, u := range failed {
		p.Failed = append(p.Failed, u.Name)
	}
	slices.Sort(p.Failed)
	if len(units) == 0 {
		return p, nil
	}
	list, err := s.ListUnitsByNamesContext(ctx, units)
	if err != nil {
		return p, fmt.Errorf("ask systemd for the roles' units: %w", err)
	}
	for _, u := range list {
		p.Units[u.Name] = u.ActiveState
		if u.ActiveState == "inactive" && activate.Done(ctx, s, u.Name) {
			p.Units[u.Name] = "active"
		}
	}
	return p, nil
}

// Changes delivers a value after units changed and came to rest, and from time to time, until ctx ends.
func Changes(ctx context.Context, conn *dbus.Conn, say func(string), settled func() bool) <-chan struct{} {
	updates := make(chan *dbus.PropertiesUpdate, 256)
	lost := make(chan error, 1)
	conn.SetPropertiesSubscriber(updates, lost)
	events := make(chan struct{}, 1)
	early, end := time.NewTicker(EarlyEvery), time.After(Early)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-early.C:
			case <-end:
				early.Stop()
				if err := conn.Subscribe(); err != nil {
					say(fmt.Sprintf("subscribe to systemd's signals: %v; it is asked from time to time", err))
				}
			case <-updates:
			case <-lost: // The channel was full: something changed all the same.
			}
			select {
			case events <- struct{}{}:
			default:
			}
		}
	}()
	return Debounce(ctx, events, settled)
}

// Debounce passes on one value for events that come close together, and one from time to time without any.
func Debounce(ctx context.Context, events <-chan struct{}, settled func() bool) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		starting := Starting
		for {
			idle := starting
			if settled() {
				idle = Settled
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(idle):
				starting = min(2*starting, Waiting)
			case <-events:
				rest(ctx, events)
				starting = Starting
			}
			select {
			case out <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// rest returns when events have come to rest.
func rest(ctx context.Context, events <-chan struct{}) {
	longest := time.After(Longest)
	for {
		select {
		case <-ctx.Done():
			return
		case <-longest:
			return
		case <-time.After(Quiet):
			return
		case <-events:
		}
	}
}
