package disks

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"spore/agent/datadisk"
	"spore/agent/node"
	"spore/agent/state"
	"spore/agent/volume"
	"spore/cluster/spec"
	"spore/storage/disk"
)

// Reset gives up what is on a disk: the state on the one that the machine was booted from, all of one that the node's
// file names. It is the only command on a node that deletes data which something else could still read.
func Reset(m *node.Machine, selector spec.DiskSelector, restart bool) error {
	m.ReadBoot()
	_, c, n, err := m.Node()
	if err != nil {
		return err
	}
	if n == nil {
		return errors.New("this machine is no node, so it has no disks of its own; nothing was changed")
	}
	disks, err := m.Disks()
	if err != nil {
		return err
	}
	d, err := disk.Select(disks, selector)
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	err = datadisk.Reset(options(m, c, n), d)
	if errors.Is(err, datadisk.ErrNotNamed) {
		err = state.Reset(volume.Options(m, c, n), d, restart)
	}
	if err != nil {
		return err
	}
	if restart {
		// At once, without a shutdown: what runs has lost its state, and must not write to it.
		return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	}
	return nil
}
