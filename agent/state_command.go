package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"spore/agent/atomicfile"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/disk"
)

// stateCommand makes or finds the node's state partition; with adopt or reset it deals with one that was refused.
func stateCommand(ctx context.Context, m *machine, args []string) error {
	m.readBoot()
	_, c, n, err := m.node()
	if len(args) > 0 {
		return foreignCommand(ctx, m, c, n, err, args)
	}
	var info state.Info
	switch {
	case err != nil:
		info = state.AsInfo(state.Refusal{Reason: err.Error()})
	case n == nil:
		info = state.AsInfo(errors.New("this machine is no node"))
	default:
		info = state.Run(ctx, stateOptions(m, c, n))
	}
	if info.Warning != "" {
		m.say(info.Warning)
	}
	m.record("state")
	return atomicfile.WriteJSON(m.root.At(paths.State), info)
}

func stateOptions(m *machine, c *facts.Cluster, n *facts.Node) state.Options {
	o := state.Options{
		ClusterID: c.ID, ClusterName: c.Name, Node: n.Name, Named: stateDisk(n), List: m.disks,
		Definitions: m.root.At(paths.Repart), Temp: m.root.At("/run/spore/tmp"), Exec: execProgram, Say: m.say,
	}
	if m.boot.BootDisk.Path != "" {
		o.BootDisk = filepath.Base(m.boot.BootDisk.Path)
	}
	return o
}

func (m *machine) disks() ([]disk.Disk, error) {
	return disk.List(os.DirFS(m.root.At("/sys")), os.DirFS(m.root.At("/run/udev")))
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

// foreignCommand adopts or deletes state that was refused.
func foreignCommand(ctx context.Context, m *machine, c *facts.Cluster, n *facts.Node, err error, args []string) error {
	if len(args) != 3 || args[0] != "adopt" && args[0] != "reset" {
		return usageError{"usage: spore-agent state [adopt|reset DISK PARTUUID|SERIAL]"}
	}
	if err != nil {
		return err
	}
	if n == nil {
		return errors.New("this machine is no node, so nothing can be its state")
	}
	disks, err := m.disks()
	if err != nil {
		return err
	}
	for _, d := range disks {
		if d.Path() != args[1] {
			continue
		}
		act := state.Reset
		if args[0] == "adopt" {
			act = state.Adopt
		}
		if err := act(stateOptions(m, c, n), d, args[2]); err != nil {
			return err
		}
		fmt.Println("Done. Restart the machine to use it.")
		return nil
	}
	return fmt.Errorf("there is no disk %s", args[1])
}

// mountCommand is mount.spore, the helper that mount(8) calls for var.mount: SOURCE DIR [-o OPTIONS] and flags.
func mountCommand(_ context.Context, m *machine, args []string) error {
	if len(args) < 2 {
		return usageError{"usage: mount.spore SOURCE DIRECTORY [-o OPTIONS]"}
	}
	m.readBoot()
	var info state.Info
	if err := atomicfile.ReadJSON(m.root.At(paths.State), &info); err != nil {
		info = state.AsInfo(state.Refusal{Reason: "it is not known what /var is: " + err.Error()})
	}
	var want state.Binding
	if _, c, n, err := m.node(); err == nil && n != nil {
		want = state.Binding{Cluster: c.ID, Node: n.Name, PartUUID: info.PartUUID}
	} else if info.Kind == state.Partition {
		info = state.AsInfo(state.Refusal{Reason: "it is not known which node this is"})
	}
	if info.Kind == state.Partition {
		if err := state.KeepMounted(m.root.At(paths.MountOptions), info.Device, args[1]); err != nil {
			m.say(err.Error())
		}
	}
	info, err := state.Mount(info, args[1], want)
	if err != nil {
		return err
	}
	if info.Warning != "" {
		m.say(info.Warning)
	}
	m.raiseClock()
	m.record("mount")
	return atomicfile.WriteJSON(m.root.At(paths.State), info)
}
