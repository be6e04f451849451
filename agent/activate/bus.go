package activate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

// busBound is the longest wait for systemd's answer that a job is queued.
const busBound = 15 * time.Second

// Bus is systemd, by its private socket: the image has no message bus.
type Bus struct{ conn *dbus.Conn }

// Connect connects to systemd. The connection lives as long as ctx.
func Connect(ctx context.Context) (*Bus, error) {
	conn, err := dbus.NewSystemdConnectionContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to systemd: %w", err)
	}
	return &Bus{conn}, nil
}

// Close ends the connection.
func (b *Bus) Close() { b.conn.Close() }

// Conn is the connection itself.
func (b *Bus) Conn() *dbus.Conn { return b.conn }

// Reboot has systemd stop everything and restart the machine, and returns when that has begun.
func (b *Bus) Reboot(ctx context.Context) error {
	if _, err := b.conn.StartUnitContext(ctx, "reboot.target", "replace-irreversibly", nil); err != nil {
		return fmt.Errorf("restart the machine: %w", err)
	}
	return nil
}

// PowerOff has systemd stop everything and switch the machine off, and returns when that has begun.
func (b *Bus) PowerOff(ctx context.Context) error {
	if _, err := b.conn.StartUnitContext(ctx, "poweroff.target", "replace-irreversibly", nil); err != nil {
		return fmt.Errorf("switch the machine off: %w", err)
	}
	return nil
}

// RestartAndWait restarts a unit, or starts one that does not run, and returns when that is done.
func (b *Bus) RestartAndWait(ctx context.Context, unit string) error {
	done := make(chan string, 1)
	if _, err := b.conn.RestartUnitContext(ctx, unit, "replace", done); err != nil {
		return fmt.Errorf("restart %s: %w", unit, err)
	}
	return await(ctx, done, "restart "+unit, unit)
}

// StopAndWait stops a unit, and returns when it has stopped.
func (b *Bus) StopAndWait(ctx context.Context, unit string) error {
	done := make(chan string, 1)
	if _, err := b.conn.StopUnitContext(ctx, unit, "replace", done); err != nil {
		return fmt.Errorf("stop %s: %w", unit, err)
	}
	return await(ctx, done, "stop "+unit, unit)
}

// Start enqueues a start job and returns when it is queued.
func (b *Bus) Start(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, busBound)
	defer cancel()
	if _, err := b.conn.StartUnitContext(ctx, unit, "replace", nil); err != nil {
		return fmt.Errorf("start %s: %w", unit, err)
	}
	return nil
}

// Restart enqueues a restart job, which starts a unit that does not run.
func (b *Bus) Restart(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, busBound)
	defer cancel()
	if _, err := b.conn.RestartUnitContext(ctx, unit, "replace", nil); err != nil {
		return fmt.Errorf("restart %s: %w", unit, err)
	}
	return nil
}

// TryRestart enqueues a restart job for a unit that runs, and does nothing with one that does not.
func (b *Bus) TryRestart(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, busBound)
	defer cancel()
	if _, err := b.conn.TryRestartUnitContext(ctx, unit, "replace", nil); err != nil {
		return fmt.Errorf("restart %s: %w", unit, err)
	}
	return nil
}

// Reload enqueues a reload of a running unit.
func (b *Bus) Reload(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, busBound)
	defer cancel()
	if _, err := b.conn.ReloadUnitContext(ctx, unit, "replace", nil); err != nil {
		return fmt.Errorf("reload %s: %w", unit, err)
	}
	return nil
}

// Starter enqueues units.
type Starter interface {
	Start(ctx context.Context, unit string) error
}

// Start enqueues all targets; one that fails does not keep back the others.
func Start(ctx context.Context, s Starter, targets []string) error {
	var errs []error
	for _, t := range targets {
		errs = append(errs, s.Start(ctx, t))
	}
	return errors.Join(errs...)
}
