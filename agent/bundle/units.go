package bundle

import (
	"context"
	"errors"
	"fmt"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"spore/agent/activate"
)

// systemd is how units take what is new.
type systemd struct{ bus *activate.Bus }

func (s systemd) Started(ctx context.Context, unit string) (at uint64, active bool, err error) {
	p, err := s.bus.Conn().GetUnitPropertiesContext(ctx, unit)
	if err != nil {
		return 0, false, fmt.Errorf("look at %s: %w", unit, err)
	}
	switch p["ActiveState"] {
	case "active", "reloading":
		active = true
	case "activating":
	default:
		return 0, false, nil
	}
	at, _ = p["InactiveExitTimestampMonotonic"].(uint64)
	return at, active, nil
}

func (s systemd) Restart(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, restartBound)
	defer cancel()
	done := make(chan string, 1)
	if _, err := s.bus.Conn().RestartUnitContext(ctx, unit, "replace", done); err != nil {
		return fmt.Errorf("restart %s: %w", unit, err)
	}
	return s.await(ctx, "restart", unit, done)
}

// await waits for a job.
func (s systemd) await(ctx context.Context, what, unit string, done <-chan string) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w", what, unit, ctx.Err())
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s %s: %s; spore logs shows what %s said", what, unit, result, unit)
		}
		return nil
	}
}

func (s systemd) Reload(ctx context.Context, unit, signal string) error {
	ctx, cancel := context.WithTimeout(ctx, restartBound)
	defer cancel()
	can, err := s.bus.Conn().GetUnitPropertyContext(ctx, unit, "CanReload")
	if err != nil {
		return fmt.Errorf("look at %s: %w", unit, err)
	}
	if yes, _ := can.Value.Value().(bool); yes {
		done := make(chan string, 1)
		if _, err := s.bus.Conn().ReloadUnitContext(ctx, unit, "replace", done); err != nil {
			return fmt.Errorf("reload %s: %w", unit, err)
		}
		if err := s.await(ctx, "reload", unit, done); err != nil {
			return err
		}
	}
	number, ok := signals[signal]
	if !ok {
		return fmt.Errorf("internal error: signal %q", signal)
	}
	err = s.bus.Conn().KillUnitWithTarget(ctx, unit, dbus.Main, number)
	if withoutMain(err) {
		return s.Restart(ctx, unit)
	}
	if err != nil {
		return fmt.Errorf("signal %s: %w", unit, err)
	}
	return nil
}

// withoutMain tells whether systemd has refused a signal because the unit has no main process to take it, as one that
// runs a command and stays active (RemainAfterExit=yes).
func withoutMain(err error) bool {
	var e godbus.Error
	return errors.As(err, &e) && e.Name == "org.freedesktop.systemd1.NoSuchProcess"
}

// signals are those of package renewal's table, and those that a role of the configuration's own can name.
var signals = map[string]int32{"HUP": 1, "USR1": 10, "USR2": 12}
