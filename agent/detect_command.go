package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"spore/agent/activate"
	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/network"
	"spore/agent/nic"
	"spore/agent/paths"
	"spore/agent/systemfiles"
	"spore/agent/wait"
	"spore/storage/atomicfile"
)

// networkUnit is the unit that goes on when only the network can tell.
const networkUnit = "cluster-detect-network.service"

// detectCommand is phase one, and with --network phase two.
func detectCommand(ctx context.Context, m *machine, args []string) error {
	byNetwork := len(args) == 1 && args[0] == "--network"
	if len(args) > 0 && !byNetwork {
		return usageError{"usage: spore-agent detect [--network]"}
	}
	m.readBoot()
	m.raiseClock()
	done := make(chan struct{})
	defer close(done)
	changed, err := nic.Changes(done)
	if err != nil {
		m.say(err.Error()) // The waits ask from time to time as well.
	}
	cmdline, _ := os.ReadFile(m.root.At("/proc/cmdline"))
	d := detect.Machine{
		Sys: os.DirFS(m.root.At("/sys")), Cmdline: string(cmdline), Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), ESPNode: m.boot.ESPNode,
		Cards: m.cards, Leases: os.DirFS(m.root.At("/run/systemd/netif/leases")), Changed: changed, Match: m.part.Match, Say: m.say,
		Settled: func(ctx context.Context) error {
			return wait.Udev(ctx, m.root.At("/run/udev"), detect.UdevBound, m.say)
		},
	}
	if byNetwork {
		return phaseTwo(ctx, m, d)
	}
	return phaseOne(ctx, m, d)
}

func phaseOne(ctx context.Context, m *machine, d detect.Machine) error {
	id, err := detect.PhaseOne(ctx, d)
	if err != nil {
		return err
	}
	if err := derive(m, id); err != nil {
		return err
	}
	if id.Known() || id.Problem != "" {
		if err := os.Remove(m.root.At(paths.PhaseTwo)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("end phase two: %w", err)
		}
		m.record("detect")
		return nil
	}
	m.record("detect")
	return askNetwork(ctx, m)
}

// askNetwork starts phase two. The unit is only enqueued: what waits for detection is ordered after it as well.
func askNetwork(ctx context.Context, m *machine) error {
	if _, err := atomicfile.Write(m.root.At(paths.PhaseTwo), nil, 0o644); err != nil {
		return err
	}
	bus, err := activate.Connect(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	return bus.Restart(ctx, networkUnit)
}

func phaseTwo(ctx context.Context, m *machine, d detect.Machine) error {
	one, err := m.identity()
	if err != nil {
		return err
	}
	id, err := detect.PhaseTwo(ctx, d, one)
	if err != nil {
		return err
	}
	if err := derive(m, id); err != nil {
		return err
	}
	if id.Known() {
		if err := applyNetwork(ctx, m); err != nil {
			m.say(err.Error())
		}
	}
	m.record("detect-network")
	return nil
}

// applyNetwork probes the node's static addresses and lets networkd, which runs already, read its files again. A node
// that gets its addresses by DHCP keeps the lease that it was found by.
func applyNetwork(ctx context.Context, m *machine) error {
	_, c, n, err := m.node()
	if err != nil || len(n.Interfaces) == 0 {
		return err
	}
	used, _ := probe(ctx, m, staticAddresses(n), probeCarrier)
	m.setConflicts(used)
	if _, err := m.writeNetwork(c, n, used); err != nil {
		return err
	}
	return reloadNetwork(ctx)
}

func reloadNetwork(ctx context.Context) error {
	bus, err := activate.Connect(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	return bus.Reload(ctx, "systemd-networkd.service")
}

// derive writes everything that follows from the identity.
func derive(m *machine, id detect.Identity) error {
	c, err := m.part.Cluster()
	if err != nil {
		return err
	}
	in := systemfiles.Input{Root: m.root, Cluster: c, Identity: id, Part: bootinfo.ClusterDir}
	if id.Known() {
		if in.Node, err = m.part.Node(id.Node); err != nil {
			return err
		}
		in.Node = network.Complete(c, in.Node, id.Card, id.Seen.MACs, id.Seen.IPs)
		if in.Hosts, err = m.part.Hosts(); err != nil {
			return err
		}
	}
	if _, err := m.writeNetwork(c, in.Node, m.conflicts()); err != nil {
		return err
	}
	if err := wantProbe(m, in.Node); err != nil {
		return err
	}
	m.mark(paths.TimeServer, in.Node != nil && c.ServesTime(in.Node.Name))
	if err := systemfiles.Write(in); err != nil {
		return err
	}
	if err := m.setHostname(systemfiles.Hostname(in.Node, id)); err != nil {
		m.say("set the host name: " + err.Error())
	}
	// Last, since the other steps go on with it.
	return atomicfile.WriteJSON(m.root.At(paths.Identity), id)
}
