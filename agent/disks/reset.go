package disks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"spore/agent/datadisk"
	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/state"
	"spore/agent/volume"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/storage/disk"
)

// Loss is what a reset of a disk deletes.
type Loss struct {
	// Disk is the device, such as /dev/sda, and Name what names it for good: its serial number, or wwn:WWN or id:NAME
	// where it has none.
	Disk string `json:"disk"`
	Name string `json:"name"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// State is true where it is the node's state, which is always in use: the machine is restarted then.
	State bool `json:"state"`
	// Whole is true where everything on the disk goes, and not only its state partitions.
	Whole bool `json:"whole"`
	// Unit is the service of the OSD on the disk.
	Unit string `json:"unit,omitempty"`
	// InUse is true where something works on the disk.
	InUse bool `json:"inUse"`
}

// String says it for people.
func (l Loss) String() string {
	if l.Whole {
		return fmt.Sprintf("everything on %s (serial %s, %d MiB)", l.Disk, l.Name, l.Size>>20)
	}
	return fmt.Sprintf("all state on the boot disk %s (serial %s)", l.Disk, l.Name)
}

// LossOf says what a reset of a disk would delete, and refuses a disk that it does not touch. An empty selector means
// the disk with the node's state: the one that its file names, else the one that the machine was booted from.
func LossOf(m *node.Machine, selector spec.DiskSelector) (Loss, error) {
	m.ReadBoot()
	_, _, n, err := m.Node()
	if err != nil {
		return Loss{}, err
	}
	if n == nil {
		return Loss{}, fmt.Errorf("%w, so it has no disks of its own; nothing was changed", detect.ErrUnmatched)
	}
	disks, err := m.Disks()
	if err != nil {
		return Loss{}, err
	}
	d, err := choose(m, n, disks, selector)
	if err != nil {
		return Loss{}, err
	}
	l := Loss{Disk: d.Path(), Name: strings.Trim(d.Named(), "'"), Size: d.Size}
	boot := filepath.Base(m.Boot.BootDisk.Path)
	switch w := wish(n, disks, d); {
	case d.Name == boot:
		l.State, l.InUse = true, true
	case w == nil:
		return Loss{}, fmt.Errorf("the file of node %s does not name %s (serial %s), and the machine was not booted from it; nothing was changed",
			n.Name, d.Path(), d.Serial())
	case w.Use == "state":
		l.State, l.Whole, l.InUse = true, true, true
	default:
		l.Whole, l.InUse = true, busy(m.Root.At(d.Path()))
		if w.Use == datadisk.OSD {
			l.Unit = osdOn(n, disks, d)
		}
	}
	return l, nil
}

// choose finds the disk.
func choose(m *node.Machine, n *facts.Node, disks []disk.Disk, s spec.DiskSelector) (disk.Disk, error) {
	if s == (spec.DiskSelector{}) {
		for _, w := range n.Disks {
			if w.Use == "state" {
				s = w.Selector
			}
		}
	}
	if s == (spec.DiskSelector{}) {
		for _, d := range disks {
			if d.Name == filepath.Base(m.Boot.BootDisk.Path) {
				return d, nil
			}
		}
		return disk.Disk{}, errors.New("this node keeps no state on a disk; nothing was changed")
	}
	d, err := disk.Select(disks, s)
	if err != nil {
		return disk.Disk{}, fmt.Errorf("%w; nothing was changed", err)
	}
	return d, nil
}

// wish is what the node's file wants of a disk; nil where it does not name it.
func wish(n *facts.Node, disks []disk.Disk, d disk.Disk) *spec.Disk {
	for i, w := range n.Disks {
		if selected, err := disk.Select(disks, w.Selector); err == nil && selected.Name == d.Name {
			return &n.Disks[i]
		}
	}
	return nil
}

// osdOn is the service of the OSD on a disk of the node; they are counted in the order of its file.
func osdOn(n *facts.Node, disks []disk.Disk, d disk.Disk) string {
	number := 0
	for _, w := range n.Disks {
		if w.Use != datadisk.OSD {
			continue
		}
		number++
		if selected, err := disk.Select(disks, w.Selector); err == nil && selected.Name == d.Name {
			return osdUnit(number)
		}
	}
	return ""
}

// busy tells whether a disk is mounted, or a service works on it.
func busy(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_EXCL, 0)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, unix.EBUSY)
}

// Reset gives up what is on a disk: the state on the one that the machine was booted from, all of one that the node's
// file names. It is the only command on a node that deletes data which something else could still read.
func Reset(m *node.Machine, selector spec.DiskSelector, restart bool) error {
	if err := Give(m, selector, restart); err != nil || !restart {
		return err
	}
	return RestartAtOnce()
}

// RestartAtOnce restarts the machine without a shutdown: what runs has lost its state, and must not write to it.
func RestartAtOnce() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) }

// Give is Reset without the restart, which the caller does at once where inUse is true: state is given up although it
// is mounted then.
func Give(m *node.Machine, selector spec.DiskSelector, inUse bool) error {
	m.ReadBoot()
	_, c, n, err := m.Node()
	if err != nil {
		return err
	}
	if n == nil {
		return fmt.Errorf("%w, so it has no disks of its own; nothing was changed", detect.ErrUnmatched)
	}
	disks, err := m.Disks()
	if err != nil {
		return err
	}
	d, err := choose(m, n, disks, selector)
	if err != nil {
		return err
	}
	err = datadisk.Reset(options(m, c, n, ""), d)
	if errors.Is(err, datadisk.ErrNotNamed) {
		err = state.Reset(volume.Options(m, c, n), d, inUse)
	}
	return err
}
