package nspawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/bootinfo"
	"spore/agent/stage1/machineid"
	"spore/builder/vm"
	"spore/cluster/facts"
)

const (
	// bootLimit is how long a node may take until its roles run, stopLimit how long until it is down.
	bootLimit = 6 * time.Minute
	stopLimit = 2 * time.Minute
	// execLimit bounds a program that a test runs on a node.
	execLimit = 2 * time.Minute
	// inside is where a node finds what replaces its disk.
	inside = "/run/lab"
)

// Node is a node of a lab; it is not started at first. What cannot be done ends the test.
type Node struct {
	Facts facts.Node
	// Bundle is what the firmware has for the node at its next start; without one, the node has what it sealed itself.
	Bundle []byte
	// Console has the lines of the boot that runs or ran last; their times are since its start, in the CPU time of all of the
	// node's processes.
	Console *vm.Console
	lab     *Lab
	// dir holds the disk with /var and, for one boot, what the machine gives the node.
	dir     string
	disk    *disk
	group   string
	cmd     *exec.Cmd
	ended   chan struct{}
	started time.Time
	mark    int
}

func (l *Lab) newNode(f facts.Node, dir string) *Node {
	l.t.Helper()
	require.Len(l.t, f.MACs, 1, "%s must have one network card, by which it is known", f.Name)
	n := &Node{Facts: f, lab: l, dir: dir}
	n.NewBundle()
	t := l.t
	var err error
	n.disk, err = newDisk(filepath.Join(dir, "disk"), n.Var())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.disk.unmount()) })
	t.Cleanup(func() {
		if n.Console == nil {
			return
		}
		if t.Failed() {
			t.Logf("console of %s ends with:\n%s\nand its journal with:\n%s", f.Name, n.Console.Tail(), n.journal())
		}
		if n.Up() {
			n.PowerLoss()
		}
	})
	return n
}

// NewBundle lets the firmware have a bundle with a serial number of its own.
func (n *Node) NewBundle() {
	n.lab.t.Helper()
	var err error
	n.Bundle, err = n.lab.Keys.BundleFor(&n.lab.Cluster, &n.Facts, time.Now())
	require.NoError(n.lab.t, err)
}

// Var is the node's /var, where the host has mounted its disk.
func (n *Node) Var() string { return filepath.Join(n.dir, "var") }

// IP is the node's first address.
func (n *Node) IP() string { return n.Facts.IPs[0] }

// Up tells whether the node has power.
func (n *Node) Up() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// card is the name of its network card, of 15 characters at most.
func (n *Node) card() string { return "n" + strings.ReplaceAll(n.Facts.MACs[0], ":", "") }

// Start switches the node on and returns at once.
func (n *Node) Start() {
	n.lab.t.Helper()
	require.False(n.lab.t, n.Up(), "%s runs already", n.Facts.Name)
	require.NoError(n.lab.t, n.start(), n.Facts.Name)
}

func (n *Node) start() error {
	boot := filepath.Join(n.dir, "boot")
	if err := n.prepare(boot); err != nil {
		return err
	}
	mac, card := n.Facts.MACs[0], n.card()
	cut(n.port())
	if err := n.lab.cable(card, n.port(), mac); err != nil {
		return err
	}
	n.group = filepath.Join(os.Getenv(groupVariable), n.Facts.Name)
	if err := os.Mkdir(n.group, 0o755); err != nil {
		return err
	}
	group, err := os.Open(n.group)
	if err != nil {
		return err
	}
	defer group.Close()
	args := []string{
		"--quiet", "--register=no", "--keep-unit", "--boot", "--console=read-only", "--read-only", "--directory=" + n.lab.root,
		"--overlay=+/etc:" + filepath.Join(boot, "etc") + ":/etc",
		"--bind-ro=" + n.lab.part + ":" + bootinfo.ClusterDir,
		"--bind-ro=" + filepath.Join(boot, "boot.json") + ":" + bootinfo.Path,
		"--bind-ro=" + filepath.Join(boot, "state.json") + ":" + inside + "/state.json",
		"--bind=" + n.Var() + ":" + inside + "/var",
		"--network-interface=" + card,
		// The agent cannot set it: /proc/sys is read-only in a container.
		"--hostname=" + n.Facts.Hostname,
		"--timezone=off", "--resolv-conf=off", "--link-journal=no",
	}
	if n.Bundle != nil {
		args = append(args, "--load-credential=spore.bundle:"+filepath.Join(boot, "bundle"))
	}
	n.cmd = exec.Command("unshare", append([]string{
		"--mount", "--propagation=private", "--", "sh", "-ec", withoutOthers, "sh", strings.Join(n.lab.othersDisks(n), " ")}, args...)...)
	// Control groups of version 2, whatever the host's own systemd has.
	n.cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	n.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	n.cmd.Stdout, n.cmd.Stderr = in, in
	n.started, n.mark, n.ended = time.Now(), 0, make(chan struct{})
	if err := n.cmd.Start(); err != nil {
		out.Close()
		n.cmd = nil
		return fmt.Errorf("%w; run make deps", err)
	}
	began, of := n.started, n.group
	n.Console = vm.Collect(out, io.Discard, func() (time.Duration, time.Duration) { return time.Since(began), usedBy(of) })
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // The exit code says how, and whoever ended it knows.
		close(ended)
	}(n.cmd, n.ended)
	return nil
}

// withoutOthers starts a node where the disks of the others are not mounted: a container keeps the mounts that it was
// started beside until it ends, and another node's file system must be able to end before.
const withoutOthers = `others=$1; shift; [ -z "$others" ] || umount $others; exec systemd-nspawn "$@"`

// othersDisks is where the disks of all nodes but one are mounted.
func (l *Lab) othersDisks(n *Node) []string {
	var out []string
	for _, other := range l.nodes {
		if other != n {
			out = append(out, other.Var())
		}
	}
	return out
}

// port is the name of the bridge's end of the node's cable.
func (n *Node) port() string { return "p" + strings.ReplaceAll(n.Facts.MACs[0], ":", "") }

// prepare lays out anew what is only of one boot: what stage1 and the firmware give the node, and what stands for its disk.
func (n *Node) prepare(boot string) error {
	if err := os.RemoveAll(boot); err != nil {
		return err
	}
	source, ok := machineid.Choose(machineid.Hardware{NICs: []machineid.NIC{{MAC: n.Facts.MACs[0]}}})
	if !ok {
		return errors.New("the MAC gives no machine id")
	}
	id := machineid.Derive(strings.ToLower(n.lab.Cluster.ID), source)
	const units = "etc/systemd/system/"
	for name, text := range map[string]string{
		"etc/machine-id": id + "\n",
		// systemd sets it at its start; the agent may not in a container. Two API servers of one name take each other's lease.
		"etc/hostname": n.Facts.Hostname + "\n",
		// There is no disk that spore-state.service could find: this is its answer.
		units + "spore-state.service.d/lab.conf": "[Service]\nExecStart=\nExecStart=/usr/bin/cp " + inside + "/state.json /run/spore/state.json\n",
		"state.json":                             `{"kind":"partition","device":"a disk of the host"}` + "\n",
		// Nor is there one that var.mount could mount.
		units + "var.mount.d/lab.conf": "[Mount]\nWhat=" + inside + "/var\nType=none\nOptions=bind\n",
		"bundle":                       string(n.Bundle),
	} {
		path := filepath.Join(boot, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, unit := range n.lab.options.Masked {
		if err := os.Symlink("/dev/null", filepath.Join(boot, units, unit)); err != nil {
			return err
		}
	}
	info := n.lab.started
	info.MachineID, info.MachineIDFrom = id, source.From
	return bootinfo.Write(filepath.Join(boot, "boot.json"), info)
}

// usedBy is the CPU time that the processes of a control group have used.
func usedBy(group string) time.Duration {
	data, err := os.ReadFile(filepath.Join(group, "cpu.stat"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "usage_usec "); ok {
			us, _ := strconv.ParseInt(text, 10, 64)
			return time.Duration(us) * time.Microsecond
		}
	}
	return 0
}

// CPU is what the node has used since its start.
func (n *Node) CPU() time.Duration { return usedBy(n.group) }

// Await waits for the next status line of the agent that ok accepts.
func (n *Node) Await(what string, ok func(vm.Status) bool) vm.Status {
	n.lab.t.Helper()
	s, _ := n.await(what, ok)
	return s
}

func (n *Node) await(what string, ok func(vm.Status) bool) (vm.Status, vm.Line) {
	n.lab.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	s, line, mark, err := n.Console.AwaitStatus(ctx, n.mark, what, ok)
	require.NoError(n.lab.t, err, n.Facts.Name)
	n.mark = mark
	return s, line
}

// Running waits until the node has done all that it does by itself, and holds that nothing failed and no role is held.
func (n *Node) Running() vm.Status {
	n.lab.t.Helper()
	s, line := n.await("a status line of a settled system", func(s vm.Status) bool {
		return s.System == "running" || s.System == "degraded"
	})
	require.Equal(n.lab.t, "running", s.System, s.Raw)
	require.Empty(n.lab.t, s.Failed, s.Raw)
	require.Empty(n.lab.t, s.Held, s.Raw)
	require.Equal(n.lab.t, n.Facts.Name, s.Node)
	n.lab.t.Logf("%s runs after %.1f s and %.2f CPU seconds", n.Facts.Name, line.Wall.Seconds(), line.CPU.Seconds())
	return s
}

// Exec runs a program on the node and returns what it prints.
func (n *Node) Exec(args ...string) (string, error) {
	leader, err := n.leader()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), execLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", leader, "-m", "-u", "-i", "-n", "-p", "-C", "--"}, args...)...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%s: %s: %w: %s", n.Facts.Name, strings.Join(args, " "), err, text)
	}
	return text, nil
}

// MustExec is Exec of what has to work.
func (n *Node) MustExec(args ...string) string {
	n.lab.t.Helper()
	out, err := n.Exec(args...)
	require.NoError(n.lab.t, err)
	return out
}

// Dial connects from where the node is: to what listens on its loopback, too.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	leader, err := n.leader()
	if err != nil {
		return nil, err
	}
	its, err := os.Open(filepath.Join("/proc", leader, "ns/net"))
	if err != nil {
		return nil, err
	}
	defer its.Close()
	runtime.LockOSThread()
	here, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer here.Close()
	if err := unix.Setns(int(its.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("enter the network of %s: %w", n.Facts.Name, err)
	}
	// A socket stays in the network in which it was made.
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if unix.Setns(int(here.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread() // else the thread ends with this goroutine
	}
	return conn, err
}

// leader is the PID of the node's systemd: the child of systemd-nspawn that is the first of its own namespace.
func (n *Node) leader() (string, error) {
	if !n.Up() {
		return "", fmt.Errorf("%s has no power", n.Facts.Name)
	}
	pid := strconv.Itoa(n.cmd.Process.Pid)
	children, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if err != nil {
		return "", err
	}
	for _, child := range strings.Fields(string(children)) {
		status, err := os.ReadFile(filepath.Join("/proc", child, "status"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if f := strings.Fields(line); len(f) > 2 && f[0] == "NSpid:" && f[len(f)-1] == "1" {
				return child, nil
			}
		}
	}
	return "", fmt.Errorf("%s has not started its systemd yet", n.Facts.Name)
}

// Stop switches the node off in order.
func (n *Node) Stop() {
	n.lab.t.Helper()
	require.True(n.lab.t, n.Up(), "%s has no power", n.Facts.Name)
	// systemd-nspawn has systemd stop everything; a second signal would cut that short.
	require.NoError(n.lab.t, n.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-n.ended:
	case <-time.After(stopLimit):
		require.FailNow(n.lab.t, n.Facts.Name+" does not stop", "%s", n.Console.Tail())
	}
	n.gone()
}

// PowerLoss is that of Lab, of this node alone.
func (n *Node) PowerLoss() {
	n.lab.t.Helper()
	n.lab.PowerLoss(n)
}

// PowerLoss takes the power from nodes at the same moment. All of their processes end, and what they had not synced
// is lost.
func (l *Lab) PowerLoss(nodes ...*Node) {
	l.t.Helper()
	for _, n := range nodes {
		require.True(l.t, n.Up(), "%s has no power", n.Facts.Name)
	}
	for _, n := range nodes {
		require.NoError(l.t, kill(n.group))
	}
	for _, n := range nodes {
		require.NoError(l.t, awaitEmpty(n.group))
		<-n.ended
		require.NoError(l.t, n.disk.cut())
	}
	for _, n := range nodes {
		n.gone()
		require.NoError(l.t, n.disk.renew(n.disk.mount))
	}
}

func (n *Node) gone() {
	n.lab.t.Helper()
	cut(n.port())
	require.NoError(n.lab.t, removeGroup(n.group))
	n.cmd = nil
}

// WipeState gives a node without power a new disk.
func (n *Node) WipeState() {
	n.lab.t.Helper()
	require.False(n.lab.t, n.Up(), "%s runs", n.Facts.Name)
	require.NoError(n.lab.t, n.disk.renew(n.disk.format))
}

// journal is the end of the node's journal, for messages.
func (n *Node) journal() string {
	args := []string{"--no-pager", "--lines=150", "--output=short-monotonic"}
	if n.Up() {
		out, _ := n.Exec(append([]string{"journalctl"}, args...)...)
		return out
	}
	out, _ := exec.Command("journalctl", append(args, "--directory="+filepath.Join(n.Var(), "log", "journal"))...).CombinedOutput()
	return string(out)
}
