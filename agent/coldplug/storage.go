// Package coldplug has udev look at devices that the coldplug at the boot's start leaves out.
package coldplug

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// StorageClass matches mass storage controllers, by the attribute class of their PCI devices (PCI Code and ID Assignment,
// 1.2 base class 01h). The drop-in of systemd-udev-trigger.service leaves the same out.
const StorageClass = "0x01*"

// Storage loads the drivers of storage controllers and waits, bound at most, until udev has named the disks behind them. A
// node that keeps its state on its boot disk, the driver of which came with the initramfs, has no use for them before its
// roles, and some controllers take longer to start than all of the boot. So whoever looks for another disk asks first. It may
// be called again. run is /run/udev; without udev (a container) there is nothing to do. exec runs a program.
func Storage(ctx context.Context, run string, bound time.Duration, exec func(ctx context.Context, env []string, name string, args ...string) error) error {
	if _, err := os.Stat(filepath.Join(run, "control")); err != nil {
		return nil
	}
	if err := exec(ctx, nil, "udevadm", "trigger", "--type=devices", "--action=add", "--attr-match=class="+StorageClass); err != nil {
		return fmt.Errorf("look for storage controllers: %w", err)
	}
	if err := exec(ctx, nil, "udevadm", "settle", fmt.Sprintf("--timeout=%d", int(bound.Seconds()))); err != nil {
		return fmt.Errorf("wait for the disks of storage controllers: %w", err)
	}
	return nil
}
