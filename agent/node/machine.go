// Package node is this machine for all commands of spore-agent and spore-etcd: its root, what stage1 found, its cluster
// part, which node it is, the secrets of the unit that a command runs in, how other nodes are asked, and how it is said
// what is waited for. What a command does with these lies in a package of its own.
package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/activate"
	"spore/agent/bootinfo"
	"spore/agent/clock"
	"spore/agent/clusterpart"
	"spore/agent/coldplug"
	"spore/agent/detect"
	"spore/agent/network"
	"spore/agent/nic"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/cluster/facts"
	"spore/storage/atomicfile"
	"spore/storage/disk"
)

// Machine is what all commands look at and act on.
type Machine struct {
	Root paths.Root
	Boot bootinfo.Info
	Part clusterpart.Part
	Say  func(string)
	// SetHostname sets the kernel's host name.
	SetHostname func(string) error
	// Restart restarts the machine, and returns when that has begun.
	Restart func(context.Context) error
	// PowerOff switches the machine off, and returns when that has begun.
	PowerOff func(context.Context) error
	// Group returns the number of a user's group.
	Group func(user string) (int, error)
	// Now is the time.
	Now func() time.Time
	// Spawn is the CPU time in milliseconds that was spent in this process before main.
	Spawn float64
}

// New is the machine whose file system begins at root; what it says begins with the name of the program.
func New(program string, root paths.Root) *Machine {
	m := &Machine{
		Root: root, Part: clusterpart.Mounted(root),
		SetHostname: sethostname, Now: time.Now, Group: groupOf,
		Restart: restart, PowerOff: powerOff,
		Say: func(s string) { fmt.Fprintln(os.Stderr, program+":", s) },
	}
	return m
}

// restartBound is how long systemd may take to begin a restart or a shutdown. One that hangs never answers.
const restartBound = time.Minute

// restart has systemd restart the machine.
func restart(ctx context.Context) error {
	return leave(ctx, (*activate.Bus).Reboot, unix.LINUX_REBOOT_CMD_RESTART)
}

// powerOff has systemd switch the machine off.
func powerOff(ctx context.Context) error {
	return leave(ctx, (*activate.Bus).PowerOff, unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// leave has systemd end everything, which takes what was said last to the console and to the disk. Where systemd cannot
// be asked, or does not answer, it is done at once.
func leave(ctx context.Context, ask func(*activate.Bus, context.Context) error, command int) error {
	ctx, cancel := context.WithTimeout(ctx, restartBound)
	defer cancel()
	bus, err := activate.Connect(ctx)
	if err == nil {
		defer bus.Close()
		if err = ask(bus, ctx); err == nil {
			return nil
		}
	}
	unix.Sync()
	return errors.Join(err, unix.Reboot(command))
}

// ReadBoot reads what stage1 found. Without it (a container, a rehearsal) the rest goes on with what there is.
func (m *Machine) ReadBoot() {
	info, err := bootinfo.Read(m.Root.At(bootinfo.Path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.Say(err.Error())
	}
	m.Boot = info
}

// sethostname goes by the file: unlike sethostname(2), that takes no CAP_SYS_ADMIN.
func sethostname(name string) error {
	return os.WriteFile("/proc/sys/kernel/hostname", []byte(name), 0o644)
}

// RaiseClock keeps the clock from lying before the build time and the last time seen.
func (m *Machine) RaiseClock() {
	if m.Boot.BuildTime == 0 {
		return
	}
	m.RaiseClockTo(clock.Floor(time.Unix(m.Boot.BuildTime, 0), clock.Read(m.Root.At(paths.Clock))))
}

// RaiseClockTo keeps the clock from lying before a time that is known to be past.
func (m *Machine) RaiseClockTo(past time.Time) {
	if m.Boot.BuildTime == 0 {
		return
	}
	now := m.Now()
	raised, err := clock.Raise(now, past, clock.Set)
	if err != nil {
		m.Say(err.Error())
	} else if raised {
		if clock.FarOff(now, past) {
			m.Mark(paths.ClockWrong, true)
		}
		m.Say("the clock was wrong; set to " + past.UTC().Format(time.RFC3339) + " until a time server answers")
	}
}

// Mark makes or removes a file that says yes.
func (m *Machine) Mark(path string, yes bool) {
	err := os.Remove(m.Root.At(path))
	if yes {
		_, err = atomicfile.Write(m.Root.At(path), nil, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.Say(err.Error())
	}
}

// Cards lists the network cards.
func (m *Machine) Cards() ([]nic.Card, error) { return nic.List(m.Root.At("/run/systemd/container")) }

// Identity reads the result of detection.
func (m *Machine) Identity() (detect.Identity, error) {
	var id detect.Identity
	if err := atomicfile.ReadJSON(m.Root.At(paths.Identity), &id); err != nil {
		return id, fmt.Errorf("read which node this is (has `spore-agent detect` run?): %w", err)
	}
	return id, nil
}

// Node reads cluster and node; both are nil for a machine that does not match any node.
func (m *Machine) Node() (detect.Identity, *facts.Cluster, *facts.Node, error) {
	id, err := m.Identity()
	if err != nil || !id.Known() {
		return id, nil, nil, err
	}
	c, err := m.Part.Cluster()
	if err != nil {
		return id, nil, nil, err
	}
	n, err := m.Part.Node(id.Node)
	if err != nil {
		return id, nil, nil, err
	}
	return id, c, network.Complete(c, network.Given(n, id.Network), id.Card, id.Seen.MACs, id.Seen.IPs), nil
}

// Record notes that a step is done.
func (m *Machine) Record(step string) {
	if err := status.Record(m.Root, step, m.Cost(status.SinceBoot())); err != nil {
		m.Say(err.Error())
	}
}

// Cost is a step of this process that is done at a time.
func (m *Machine) Cost(at float64) status.Step {
	return status.Step{At: at, CPU: status.Milliseconds(status.UsedCPU() - m.Spawn), Spawn: m.Spawn}
}

// FindDisks has udev find the disks that coldplug left out, before one of them is looked for.
func (m *Machine) FindDisks(ctx context.Context) {
	if err := coldplug.Storage(ctx, m.Root.At("/run/udev"), detect.UdevBound, Exec); err != nil {
		m.Say(err.Error()) // Who looks for a disk waits for it, and says which one is missing.
	}
}

// groupOf is the number of the group of a user of the image.
func groupOf(name string) (int, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Gid)
}

// BootID is the kernel's name for this boot; empty where it has none.
func (m *Machine) BootID() string {
	data, err := os.ReadFile(m.Root.At(paths.BootID))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Disks lists the disks.
func (m *Machine) Disks() ([]disk.Disk, error) {
	return disk.List(os.DirFS(m.Root.At("/sys")), os.DirFS(m.Root.At("/run/udev")))
}

// Memory is the machine's memory in bytes; 0 where the kernel does not say.
func Memory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}

// Self is this node, which is one of a cluster's.
func (m *Machine) Self() (*facts.Cluster, *facts.Node, error) {
	_, c, n, err := m.Node()
	if err == nil && n == nil {
		err = detect.ErrUnmatched
	}
	return c, n, err
}
