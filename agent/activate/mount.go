package activate

import (
	"context"
	"fmt"

	"github.com/coreos/go-systemd/v22/dbus"
	"github.com/coreos/go-systemd/v22/unit"
	godbus "github.com/godbus/dbus/v5"
)

// Mount is a mount that systemd makes and keeps until the machine goes down.
type Mount struct {
	// What is a device, Where a directory, Type a file system and Options those of mount(8).
	What, Where, Type, Options string
	// Before are units that are stopped before it is unmounted.
	Before []string
}

// Mount mounts, and returns when it is mounted. It is for callers that the mount is not ordered after.
//
// The mount outlives the device's unit (systemd.mount(5), x-systemd.device-bound=): when a table was written, udev has
// the kernel take the disk's partitions away for a moment.
func (b *Bus) Mount(ctx context.Context, m Mount) error {
	property := func(name string, value any) dbus.Property {
		return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
	}
	name := mountUnit(m.Where)
	done := make(chan string, 1)
	_, err := b.conn.StartTransientUnitContext(ctx, name, "replace", []dbus.Property{
		property("Description", m.Where),
		property("What", m.What), property("Type", m.Type), property("Options", m.Options+",x-systemd.device-bound=no"),
		property("Before", m.Before), property("CollectMode", "inactive-or-failed"),
	}, done)
	if err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.What, m.Where, err)
	}
	return await(ctx, done, fmt.Sprintf("mount %s on %s", m.What, m.Where), name)
}

// Unmount unmounts what Mount has mounted.
func (b *Bus) Unmount(ctx context.Context, where string) error {
	name := mountUnit(where)
	done := make(chan string, 1)
	if _, err := b.conn.StopUnitContext(ctx, name, "replace", done); err != nil {
		return fmt.Errorf("unmount %s: %w", where, err)
	}
	return await(ctx, done, "unmount "+where, name)
}

func mountUnit(where string) string { return unit.UnitNamePathEscape(where) + ".mount" }

func await(ctx context.Context, done <-chan string, what, name string) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s: the job of systemd ended with %q; see the journal of %s", what, result, name)
		}
		return nil
	}
}
