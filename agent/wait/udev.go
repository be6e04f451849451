package wait

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// Udev waits until udev has worked off what coldplug queued, so that drivers are loaded and disks have their names.
//
// run is /run/udev. udev keeps the file queue there while events wait; but right after coldplug it may not have read the
// first event yet. Every coldplug has an event for the loopback interface, whose index is always 1 and for which udev
// always leaves a database entry: it is there when udev has begun. Without udev (a container) there is nothing to wait for.
func Udev(ctx context.Context, run string, bound time.Duration, say func(string)) error {
	if _, err := os.Stat(filepath.Join(run, "control")); err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(run, name))
		return err == nil
	}
	return Until(ctx, Condition{
		For: "udev to find disks and network cards", Bound: bound, Say: say, Patience: 5 * time.Second, Every: 200 * time.Millisecond,
		Met:     func() bool { return exists("data/n1") && !exists("queue") },
		Changes: Dir(ctx, run, filepath.Join(run, "data")),
	})
}
