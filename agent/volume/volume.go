// Package volume is the file system for /var of this node: it has package state make or find the partition, opens it by
// the TPM, the host key or the recovery key, mounts it, and then has the bundle taken that lies there. It takes over a
// partition that was refused, when an operator says so.
package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"spore/agent/bootinfo"
	"spore/agent/bundle"
	"spore/agent/detect"
	"spore/agent/hostkey"
	"spore/agent/medium"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/quota"
	"spore/agent/state"
	"spore/agent/unlock"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
)

// Make makes or finds the node's state partition, opens it, mounts it and takes the node's bundle, which lies
// there: one process, since each unit costs as much again before its program begins. var.mount then finds /var mounted;
// where that failed, its own try says why.
func Make(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	_, c, n, err := m.Node()
	var info state.Info
	switch {
	case err != nil:
		info = state.AsInfo(state.Refusal{Reason: err.Error()})
	case n == nil:
		info = state.AsInfo(detect.ErrUnmatched)
	default:
		o := Options(m, c, n)
		if o.Named != nil {
			m.FindDisks(ctx)
		}
		o.Lock = Lock(m, n)
		o.Lock.Clean()
		info = state.Run(ctx, o)
		if err := makeSlots(ctx, m, o, &info); err != nil {
			m.Say("making the second slot: " + err.Error())
		}
	}
	if err := endOpening(ctx, m); err != nil {
		info.Warning = node.Joined(info.Warning, "whatever runs on this machine can have the TPM open the state again: "+err.Error())
	}
	if info.Warning != "" {
		m.Say(info.Warning)
	}
	m.Record("state")
	if err := atomicfile.WriteJSON(m.Root.At(paths.State), info); err != nil {
		return err
	}
	if err := mount(ctx, m, m.Root.At("/var")); err != nil {
		m.Say(err.Error())
		return nil
	}
	unix.Umask(0o077) // Secrets come now.
	return bundle.Take(ctx, m, false)
}

// makeSlots makes room for pushed configurations on the boot disk, where the state is elsewhere.
func makeSlots(ctx context.Context, m *node.Machine, o state.Options, info *state.Info) error {
	if o.Named == nil || m.Boot.BootDisk.Serial != "" && info.Disk == m.Boot.BootDisk.Serial {
		return nil
	}
	warning, err := state.MakeSlots(ctx, o)
	info.Warning = node.Joined(info.Warning, warning)
	return err
}

func Options(m *node.Machine, c *facts.Cluster, n *facts.Node) state.Options {
	o := state.Options{
		ClusterID: c.ID, ClusterName: c.Name, Node: n.Name, Named: named(n), List: m.Disks,
		Definitions: m.Root.At(paths.Repart), Temp: m.Root.At("/run/spore/tmp"), Exec: node.Exec, Say: m.Say,
		Quotas: len(quota.Of(c, n)) > 0,
	}
	if m.Boot.BootDisk.Path != "" {
		o.BootDisk = filepath.Base(m.Boot.BootDisk.Path)
	}
	return o
}

// named is the disk that the node names for state; nil when it names none.
func named(n *facts.Node) *spec.DiskSelector {
	for _, d := range n.Disks {
		if d.Use == "state" {
			return &d.Selector
		}
	}
	return nil
}

// Lock is what opens this node's state.
func Lock(m *node.Machine, n *facts.Node) *unlock.Options {
	machineID, _ := os.ReadFile(m.Root.At("/etc/machine-id"))
	host := hostkey.Keeper{Node: n.Name, MachineID: string(machineID), Fleeting: strings.HasPrefix(m.Boot.MachineIDFrom, bootinfo.FromChance)}
	if m.Boot.ESP != "" {
		host.With = medium.ESP{Device: m.Boot.ESP, Dir: m.Root.At(paths.StateESP), Mount: medium.Mount, Unmount: medium.Unmount}.With
	}
	return &unlock.Options{
		Want: n.State, Node: n.Name, HasTPM: m.HasTPM, Start: func() (unlock.Start, error) { return Measured(m) },
		Spoiled: func() bool { return spoiled(m) }, Restart: m.Restart,
		PublicKey: m.Root.At(paths.PCRPublicKey), Delivered: func(ctx context.Context) (string, error) { return bundle.DeliveredRecoveryKey(ctx, m) }, Host: host,
		Ask: func(ctx context.Context, question string) (string, error) {
			return node.AskPassphrase(ctx, "spore-state", question)
		},
		Dir: m.Root.At(paths.StateKeys), Exec: node.Exec, Say: m.Say,
	}
}

// Adopt makes state that was refused this node's.
func Adopt(m *node.Machine, path, partUUID string) error {
	m.ReadBoot()
	_, c, n, err := m.Node()
	if err != nil {
		return err
	}
	if n == nil {
		return fmt.Errorf("%w, so nothing can be its state", detect.ErrUnmatched)
	}
	disks, err := m.Disks()
	if err != nil {
		return err
	}
	for _, d := range disks {
		if d.Path() == path {
			o := Options(m, c, n)
			o.Lock = Lock(m, n)
			return state.Adopt(o, d, partUUID)
		}
	}
	return fmt.Errorf("there is no disk %s", path)
}

// Candidates lists the state that Adopt could make this node's, and state that it could not, with the reason.
func Candidates(m *node.Machine) ([]state.Candidate, error) {
	m.ReadBoot()
	_, c, n, err := m.Node()
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, fmt.Errorf("%w, so nothing can be its state", detect.ErrUnmatched)
	}
	o := Options(m, c, n)
	o.Lock = Lock(m, n)
	return state.Candidates(o)
}

// Format is mkfs.spore, which systemd-repart(8) calls where Make has it make encrypted state.
func Format(ctx context.Context, device, keyFile string) error {
	return state.Format(ctx, state.Formatting{Device: device, KeyFile: keyFile, Exec: node.Exec})
}

// Mount is mount.spore, the helper that mount(8) calls for var.mount.
func Mount(ctx context.Context, m *node.Machine, dir string) error {
	m.ReadBoot()
	return mount(ctx, m, dir)
}

// mount mounts on dir what stateCommand decided.
func mount(ctx context.Context, m *node.Machine, dir string) error {
	var info state.Info
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); err != nil {
		info = state.AsInfo(state.Refusal{Reason: "it is not known what /var is: " + err.Error()})
	}
	how := state.Mounting{Dir: dir, Exec: node.Exec, Say: m.Say}
	if _, c, n, err := m.Node(); err == nil && n != nil {
		how.Binding = state.Binding{Cluster: c.ID, Node: n.Name, PartUUID: info.PartUUID}
		how.Limits = quota.Of(c, n)
	} else if info.Kind == state.Partition {
		info = state.AsInfo(state.Refusal{Reason: "it is not known which node this is"})
	}
	if info.Kind == state.Partition {
		if err := state.KeepMounted(m.Root.At(paths.MountOptions), info.Device, dir); err != nil {
			m.Say(err.Error())
		}
	}
	info, err := state.Mount(ctx, info, how)
	if err != nil {
		return err
	}
	if info.Warning != "" {
		m.Say(info.Warning)
	}
	m.RaiseClock()
	m.Record("mount")
	return atomicfile.WriteJSON(m.Root.At(paths.State), info)
}
