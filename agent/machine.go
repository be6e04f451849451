package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/activate"
	"spore/agent/arp"
	"spore/agent/atomicfile"
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
	"spore/services"
)

// machine is what all subcommands look at and act on.
type machine struct {
	root paths.Root
	boot bootinfo.Info
	part clusterpart.Part
	say  func(string)
	// setHostname sets the kernel's host name.
	setHostname func(string) error
	// restart restarts the machine, and returns when that has begun.
	restart func(context.Context) error
	// group returns the number of a user's group.
	group func(user string) (int, error)
	// now is the time.
	now func() time.Time
	// spawn is the CPU time in milliseconds that was spent in this process before main.
	spawn float64
}

func newMachine(root paths.Root) *machine {
	m := &machine{
		root: root, part: clusterpart.Mounted(root),
		setHostname: sethostname, now: time.Now, group: groupOf,
		restart: restart,
		say:     func(s string) { fmt.Fprintln(os.Stderr, "spore-agent:", s) },
	}
	return m
}

// restart has systemd restart the machine, which takes what was said last to the console and to the disk. Where systemd cannot
// be asked it is done at once.
func restart(ctx context.Context) error {
	bus, err := activate.Connect(ctx)
	if err == nil {
		defer bus.Close()
		if err = bus.Reboot(ctx); err == nil {
			return nil
		}
	}
	unix.Sync()
	return errors.Join(err, unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART))
}

// readBoot reads what stage1 found. Without it (a container, a rehearsal) the rest goes on with what there is.
func (m *machine) readBoot() {
	info, err := bootinfo.Read(m.root.At(bootinfo.Path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.say(err.Error())
	}
	m.boot = info
}

// sethostname goes by the file: unlike sethostname(2), that takes no CAP_SYS_ADMIN.
func sethostname(name string) error {
	return os.WriteFile("/proc/sys/kernel/hostname", []byte(name), 0o644)
}

// raiseClock keeps the clock from lying before the build time and the last time seen.
func (m *machine) raiseClock() {
	if m.boot.BuildTime == 0 {
		return
	}
	m.raiseClockTo(clock.Floor(time.Unix(m.boot.BuildTime, 0), clock.Read(m.root.At(paths.Clock))))
}

// raiseClockTo keeps the clock from lying before a time that is known to be past.
func (m *machine) raiseClockTo(past time.Time) {
	if m.boot.BuildTime == 0 {
		return
	}
	now := m.now()
	raised, err := clock.Raise(now, past, clock.Set)
	if err != nil {
		m.say(err.Error())
	} else if raised {
		if clock.FarOff(now, past) {
			m.mark(paths.ClockWrong, true)
		}
		m.say("the clock was wrong; set to " + past.UTC().Format(time.RFC3339) + " until a time server answers")
	}
}

// mark makes or removes a file that says yes.
func (m *machine) mark(path string, yes bool) {
	err := os.Remove(m.root.At(path))
	if yes {
		_, err = atomicfile.Write(m.root.At(path), nil, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.say(err.Error())
	}
}

// cards lists the network cards.
func (m *machine) cards() ([]nic.Card, error) { return nic.List(m.root.At("/run/systemd/container")) }

// identity reads the result of detection.
func (m *machine) identity() (detect.Identity, error) {
	var id detect.Identity
	if err := atomicfile.ReadJSON(m.root.At(paths.Identity), &id); err != nil {
		return id, fmt.Errorf("read which node this is (has `spore-agent detect` run?): %w", err)
	}
	return id, nil
}

// node reads cluster and node; both are nil for a machine that is no node.
func (m *machine) node() (detect.Identity, *facts.Cluster, *facts.Node, error) {
	id, err := m.identity()
	if err != nil || !id.Known() {
		return id, nil, nil, err
	}
	c, err := m.part.Cluster()
	if err != nil {
		return id, nil, nil, err
	}
	n, err := m.part.Node(id.Node)
	if err != nil {
		return id, nil, nil, err
	}
	return id, c, network.Complete(c, n, id.Card, id.Seen.MACs, id.Seen.IPs), nil
}

// record notes that a step is done.
func (m *machine) record(step string) {
	if err := status.Record(m.root, step, m.cost(status.SinceBoot())); err != nil {
		m.say(err.Error())
	}
}

// cost is a step of this process that is done at a time.
func (m *machine) cost(at float64) status.Step {
	return status.Step{At: at, CPU: status.Milliseconds(status.UsedCPU() - m.spawn), Spawn: m.spawn}
}

// writeNetwork writes the files of networkd for a node, or for DHCP on every card when it is nil. Addresses of used are
// left out.
func (m *machine) writeNetwork(c *facts.Cluster, n *facts.Node, used []arp.Used) (changed bool, err error) {
	cards, err := m.cards()
	if err != nil {
		return false, err
	}
	o := network.Options{
		Current: map[string]bool{}, Withheld: map[netip.Addr]bool{}, SendHostname: n != nil, AskNTP: len(c.Network.NTPServers) == 0,
		Pods: n != nil && services.RunsPods(n),
	}
	for _, card := range cards {
		if !card.Permanent {
			o.Current[card.MAC] = true
		}
	}
	for _, u := range used {
		o.Withheld[u.IP] = true
	}
	files := network.Everywhere(o)
	if n != nil {
		files = network.ForNode(n.Interfaces, o)
	}
	return network.Write(m.root.At(network.Dir), files)
}

// conflicts reads what the last probe found.
func (m *machine) conflicts() []arp.Used {
	var used []arp.Used
	_ = atomicfile.ReadJSON(m.root.At(paths.Conflicts), &used) // No file means no conflict.
	return used
}

// execProgram runs a program; its output goes to the journal, and the last of it into the error.
// findDisks has udev find the disks that coldplug left out, before one of them is looked for.
func (m *machine) findDisks(ctx context.Context) {
	if err := coldplug.Storage(ctx, m.root.At("/run/udev"), detect.UdevBound, execProgram); err != nil {
		m.say(err.Error()) // Who looks for a disk waits for it, and says which one is missing.
	}
}

func execProgram(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		if i := strings.LastIndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return nil
}
