package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"spore/agent/atomicfile"
	"spore/agent/bootinfo"
	"spore/agent/bundle"
	"spore/agent/hostkey"
	"spore/agent/medium"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/agent/unlock"
	"spore/cluster/facts"
	"spore/cluster/spec"
)

// stateCommand makes or finds the node's state partition, opens it, mounts it and takes the node's bundle, which lies
// there: one process, since each unit costs as much again before its program begins. var.mount then finds /var mounted;
// where that failed, its own try says why.
func stateCommand(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	_, c, n, err := m.Node()
	var info state.Info
	switch {
	case err != nil:
		info = state.AsInfo(state.Refusal{Reason: err.Error()})
	case n == nil:
		info = state.AsInfo(errors.New("this machine is no node"))
	default:
		o := stateOptions(m, c, n)
		if o.Named != nil {
			m.FindDisks(ctx)
		}
		o.Lock = stateLock(m, n)
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
	if err := mountState(m, m.Root.At("/var")); err != nil {
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

func stateOptions(m *node.Machine, c *facts.Cluster, n *facts.Node) state.Options {
	o := state.Options{
		ClusterID: c.ID, ClusterName: c.Name, Node: n.Name, Named: stateDisk(n), List: m.Disks,
		Definitions: m.Root.At(paths.Repart), Temp: m.Root.At("/run/spore/tmp"), Exec: node.Exec, Say: m.Say,
	}
	if m.Boot.BootDisk.Path != "" {
		o.BootDisk = filepath.Base(m.Boot.BootDisk.Path)
	}
	return o
}

// stateDisk is the disk that the node names for state; nil when it names none.
func stateDisk(n *facts.Node) *spec.DiskSelector {
	for _, d := range n.Disks {
		if d.Use == "state" {
			return &d.Selector
		}
	}
	return nil
}

// stateLock is what opens this node's state.
func stateLock(m *node.Machine, n *facts.Node) *unlock.Options {
	machineID, _ := os.ReadFile(m.Root.At("/etc/machine-id"))
	host := hostkey.Keeper{Node: n.Name, MachineID: string(machineID), Fleeting: strings.HasPrefix(m.Boot.MachineIDFrom, bootinfo.FromChance)}
	if m.Boot.ESP != "" {
		host.With = medium.ESP{Device: m.Boot.ESP, Dir: m.Root.At(paths.StateESP), Mount: medium.Mount, Unmount: medium.Unmount}.With
	}
	return &unlock.Options{
		Want: n.State, Node: n.Name, HasTPM: m.HasTPM, Start: func() (unlock.Start, error) { return measuredStart(m) }, PublicKey: m.Root.At(paths.PCRPublicKey), Delivered: func(ctx context.Context) (string, error) { return bundle.DeliveredRecoveryKey(ctx, m) }, Host: host,
		Ask: func(ctx context.Context, question string) (string, error) {
			return node.AskPassphrase(ctx, "spore-state", question)
		},
		Dir: m.Root.At(paths.StateKeys), Exec: node.Exec, Say: m.Say,
	}
}

// adoptCommand makes state that was refused this node's.
func adoptCommand(m *node.Machine, path, partUUID string) error {
	m.ReadBoot()
	_, c, n, err := m.Node()
	if err != nil {
		return err
	}
	if n == nil {
		return errors.New("this machine is no node, so nothing can be its state")
	}
	disks, err := m.Disks()
	if err != nil {
		return err
	}
	for _, d := range disks {
		if d.Path() == path {
			o := stateOptions(m, c, n)
			o.Lock = stateLock(m, n)
			return state.Adopt(o, d, partUUID)
		}
	}
	return fmt.Errorf("there is no disk %s", path)
}

// mountCommand is mount.spore, the helper that mount(8) calls for var.mount.
func mountCommand(m *node.Machine, dir string) error {
	m.ReadBoot()
	return mountState(m, dir)
}

// mountState mounts on dir what stateCommand decided.
func mountState(m *node.Machine, dir string) error {
	var info state.Info
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); err != nil {
		info = state.AsInfo(state.Refusal{Reason: "it is not known what /var is: " + err.Error()})
	}
	var want state.Binding
	if _, c, n, err := m.Node(); err == nil && n != nil {
		want = state.Binding{Cluster: c.ID, Node: n.Name, PartUUID: info.PartUUID}
	} else if info.Kind == state.Partition {
		info = state.AsInfo(state.Refusal{Reason: "it is not known which node this is"})
	}
	if info.Kind == state.Partition {
		if err := state.KeepMounted(m.Root.At(paths.MountOptions), info.Device, dir); err != nil {
			m.Say(err.Error())
		}
	}
	info, err := state.Mount(info, dir, want)
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
