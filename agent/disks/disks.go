// Package disks has the disks that the node's file gives to services prepared, tells what became of them, and gives up
// what is on a disk when an operator says so. Packages datadisk and state do the work on a disk.
package disks

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"spore/agent/activate"
	"spore/agent/datadisk"
	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/services"
	cephunit "spore/services/ceph/unit"
)

// encryptionKey is the entry of the bundle that opens encrypted disks.
const encryptionKey = "ceph-osd-encryption-key"

// Prepare prepares the node's disks of one use.
func Prepare(ctx context.Context, m *node.Machine, use string) error {
	m.ReadBoot()
	_, c, n, err := m.Node()
	if err != nil {
		return err
	}
	if n == nil {
		return fmt.Errorf("%w, so it has no disks for services", detect.ErrUnmatched)
	}
	return prepareDisks(ctx, m, c, n, use)
}

// prepareDisks makes or finds the disks, says what became of them, and starts what works on them. It fails at its end
// when there is anything wrong with one.
func prepareDisks(ctx context.Context, m *node.Machine, c *facts.Cluster, n *facts.Node, use string) error {
	o := options(m, c, n, use)
	w, err := whose(c, use)
	if err != nil {
		return err
	}
	o.Mounts = m.Root.At(w.mounts)
	var infos []datadisk.Info
	if len(datadisk.Of(n.Disks, use)) > 0 {
		if err := w.give(&o); err != nil {
			return err
		}
		bus, err := activate.Connect(ctx)
		if err != nil {
			return err
		}
		defer bus.Close()
		o.Mount = func(ctx context.Context, device, dir string) error {
			return mountFor(ctx, bus, device, dir, w.units)
		}
		o.Unmount = bus.Unmount
		m.FindDisks(ctx)
		if infos, err = datadisk.Run(ctx, o); err != nil {
			return err
		}
		if use == datadisk.OSD {
			defer func() {
				if err := startOSDs(ctx, bus, infos); err != nil {
					m.Say(err.Error())
				}
			}()
		}
	}
	if err := datadisk.Write(m.Root, use, infos); err != nil {
		return err
	}
	return datadisk.Problems(infos)
}

// OurUses are what services of ours have disks for, sorted.
func OurUses() []string { return slices.Sorted(maps.Keys(owners)) }

// Uses are what the cluster's services and its own roles have disks for.
func Uses(c *facts.Cluster) []string {
	out := OurUses()
	for _, name := range services.Of(c).OwnNames() {
		if ownRole(c, name) != nil {
			out = append(out, name)
		}
	}
	return out
}

// options are those of one use. Units of several uses run at the same time, so each use has definitions of its own: who
// writes them removes those that were there.
func options(m *node.Machine, c *facts.Cluster, n *facts.Node, use string) datadisk.Options {
	o := datadisk.Options{
		ClusterID: c.ID, ClusterName: c.Name, Node: n.Name, Disks: n.Disks, Use: use, List: m.Disks,
		Definitions: m.Root.At(paths.Disks + "/repart.d/" + use),
		Temp:        m.Root.At("/run/spore/tmp"), Exec: node.Exec, Say: m.Say,
	}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		o.KeyFile = filepath.Join(dir, "secret_"+encryptionKey)
	}
	if m.Boot.BootDisk.Path != "" {
		o.BootDisk = filepath.Base(m.Boot.BootDisk.Path)
	}
	return o
}

// mountFor has systemd mount the device, so that it is seen outside of this unit's namespace and stays until the
// service that works on it has stopped. What is mounted there already is left.
func mountFor(ctx context.Context, bus *activate.Bus, device, dir string, services []string) error {
	var on, dev unix.Stat_t
	if unix.Stat(dir, &on) == nil && unix.Stat(device, &dev) == nil && on.Dev == dev.Rdev {
		return nil
	}
	return bus.Mount(ctx, activate.Mount{What: device, Where: dir, Type: "ext4", Options: "noatime,nodev,nosuid,noexec,errors=remount-ro", Before: services})
}

// startOSDs enqueues the OSD of each disk that can be used; it does not wait, since they are ordered after this unit.
func startOSDs(ctx context.Context, bus *activate.Bus, infos []datadisk.Info) error {
	return activate.Start(ctx, bus, OSDUnits(infos))
}

// osdUnit is the service of the OSD on a disk.
func osdUnit(number int) string { return fmt.Sprintf("ceph-osd-disk@%d.service", number) }

// All reads what became of all disks that services have, so far as it is known.
func All(m *node.Machine) []datadisk.Info {
	var out []datadisk.Info
	for _, use := range datadisk.Uses(m.Root) {
		infos, err := datadisk.Read(m.Root, use)
		if err != nil {
			continue // Its unit writes it.
		}
		for _, i := range infos {
			if use == datadisk.OSD {
				i.OSD = cephunit.OSD(m, i.Number)
			}
			out = append(out, i)
		}
	}
	return out
}

// OSDUnits lists the services of the OSDs that were started.
func OSDUnits(disks []datadisk.Info) []string {
	var out []string
	for _, i := range disks {
		if i.Use == datadisk.OSD && i.Problem == "" {
			out = append(out, osdUnit(i.Number))
		}
	}
	return out
}
