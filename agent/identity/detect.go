// Package identity finds out which node this machine is, and derives what follows from that: the files under /etc, the
// host name, the files of networkd. It probes the node's static addresses, and leaves out those that another machine
// has. Package detect has the rules by which a machine is found.
package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/activate"
	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/network"
	"spore/agent/nic"
	"spore/agent/nocloud"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/systemfiles"
	"spore/agent/wait"
	"spore/storage/atomicfile"
)

// networkUnit is the unit that goes on when only the network can tell.
const networkUnit = "cluster-detect-network.service"

// Detect is phase one, and by the network phase two.
func Detect(ctx context.Context, m *node.Machine, byNetwork bool) error {
	m.ReadBoot()
	m.RaiseClock()
	done := make(chan struct{})
	defer close(done)
	changed, err := nic.Changes(done)
	if err != nil {
		m.Say(err.Error()) // The waits ask from time to time as well.
	}
	cmdline, _ := os.ReadFile(m.Root.At("/proc/cmdline"))
	d := detect.Machine{
		Sys: os.DirFS(m.Root.At("/sys")), Cmdline: string(cmdline), Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), ESPNode: m.Boot.ESPNode,
		Cards: m.Cards, Leases: os.DirFS(m.Root.At("/run/systemd/netif/leases")), Changed: changed, Match: m.Part.Match, Say: m.Say,
		Dev: m.Root.At("/dev"), Virtual: virtual(m.Root.At("/proc/cpuinfo")), FindDisks: m.FindDisks,
		Settled: func(ctx context.Context) error {
			return wait.Udev(ctx, m.Root.At("/run/udev"), detect.UdevBound, m.Say)
		},
	}
	if byNetwork {
		return phaseTwo(ctx, m, d)
	}
	return phaseOne(ctx, m, d)
}

func phaseOne(ctx context.Context, m *node.Machine, d detect.Machine) error {
	id, err := detect.PhaseOne(ctx, d)
	if err != nil {
		return err
	}
	if err := keepDelivered(m, id); err != nil {
		return err
	}
	if err := Derive(m, id); err != nil {
		return err
	}
	if id.Known() || id.Problem != "" {
		if err := os.Remove(m.Root.At(paths.PhaseTwo)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("end phase two: %w", err)
		}
		m.Record("detect")
		return nil
	}
	m.Record("detect")
	return askNetwork(ctx, m)
}

// keepDelivered leaves the bundle and the answer file of NoCloud to who judges them. The identity, which everybody may read,
// leaves them out.
func keepDelivered(m *node.Machine, id detect.Identity) error {
	var found nocloud.Found
	if id.NoCloud != nil {
		found = *id.NoCloud
	}
	for path, data := range map[string][]byte{bootinfo.DeliveredNoCloud: found.Bundle, bootinfo.AnswersNoCloud: found.Answers} {
		if err := keep(m.Root.At(path), data); err != nil {
			return fmt.Errorf("keep what NoCloud has brought: %w", err)
		}
	}
	return nil
}

// keep writes a file for root alone, or removes it where there is nothing to write.
func keep(path string, data []byte) error {
	if len(data) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	_, err := atomicfile.Write(path, data, 0o600)
	return err
}

// maxCPUInfo bounds what is read of /proc/cpuinfo, in bytes: the flags of the first processor are among them.
const maxCPUInfo = 16 << 10

// virtual tells whether a hypervisor says that it runs this machine (CPUID leaf 1, ECX bit 31).
func virtual(cpuinfo string) bool {
	f, err := os.Open(cpuinfo)
	if err != nil {
		return false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCPUInfo))
	for line := range strings.Lines(string(data)) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			return err == nil && slices.Contains(strings.Fields(flags), "hypervisor")
		}
	}
	return false
}

// askNetwork starts phase two. The unit is only enqueued: what waits for detection is ordered after it as well.
func askNetwork(ctx context.Context, m *node.Machine) error {
	if _, err := atomicfile.Write(m.Root.At(paths.PhaseTwo), nil, 0o644); err != nil {
		return err
	}
	bus, err := activate.Connect(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	return bus.Restart(ctx, networkUnit)
}

func phaseTwo(ctx context.Context, m *node.Machine, d detect.Machine) error {
	one, err := m.Identity()
	if err != nil {
		return err
	}
	id, err := detect.PhaseTwo(ctx, d, one)
	if err != nil {
		return err
	}
	if err := Derive(m, id); err != nil {
		return err
	}
	if id.Known() {
		if err := applyNetwork(ctx, m); err != nil {
			m.Say(err.Error())
		}
	}
	m.Record("detect-network")
	return nil
}

// applyNetwork probes the node's static addresses and lets networkd, which runs already, read its files again. A node
// that gets its addresses by DHCP keeps the lease that it was found by.
func applyNetwork(ctx context.Context, m *node.Machine) error {
	_, c, n, err := m.Node()
	if err != nil || len(n.Interfaces) == 0 {
		return err
	}
	used, _ := probe(ctx, m, staticAddresses(n), probeCarrier)
	setConflicts(m, used)
	if _, err := writeNetwork(m, c, n, used); err != nil {
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

// Derive writes everything that follows from the identity.
func Derive(m *node.Machine, id detect.Identity) error {
	c, err := m.Part.Cluster()
	if err != nil {
		return err
	}
	in := systemfiles.Input{Root: m.Root, Cluster: c, Identity: id, Part: bootinfo.ClusterDir}
	in.Resolvers, in.SearchDomain = id.Resolvers()
	if id.Known() {
		if in.Node, err = m.Part.Node(id.Node); err != nil {
			return err
		}
		in.Node = network.Complete(c, network.Given(in.Node, id.Network), id.Card, id.Seen.MACs, id.Seen.IPs)
		if in.Hosts, err = m.Part.Hosts(); err != nil {
			return err
		}
	}
	if _, err := writeNetwork(m, c, in.Node, Conflicts(m)); err != nil {
		return err
	}
	if err := wantProbe(m, in.Node); err != nil {
		return err
	}
	m.Mark(paths.TimeServer, in.Node != nil && c.ServesTime(in.Node.Name))
	if err := systemfiles.Write(in); err != nil {
		return err
	}
	if err := m.SetHostname(systemfiles.Hostname(in.Node, id)); err != nil {
		m.Say("set the host name: " + err.Error())
	}
	// Last, since the other steps go on with it.
	return atomicfile.WriteJSON(m.Root.At(paths.Identity), id)
}
