package nspawn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/builder/vm"
)

const (
	// guestMemory is in MiB: enough for the roles of a test without what runs pods.
	guestMemory = 2560
	// guestDisk is the size of its disk in bytes: larger than the image, so that there is room for state.
	guestDisk = 12 << 30
	// quiet has systemd leave the console to the shell.
	quiet = "systemd.show_status=no"
	// shellLimit bounds a command on its console, and guestLimit what takes most of a boot or an API server in emulation: ten times
	// of what a host needs that does nothing else.
	shellLimit = 2 * time.Minute
	guestLimit = 10 * time.Minute
)

// Guest is a node of a lab as a machine in QEMU, which boots the very image that the containers were unpacked from and is plugged
// into the same bridge. It is for what a container does not have: a kernel and clocks of its own, which stand still when it
// is stopped as a whole.
type Guest struct {
	*vm.Machine
	Node *Node
	lab  *Lab
	mark int
}

// Boot starts a node as a machine, with a root shell on its console, and returns at once. The options of the lab must have Image.
// The node must not run as a container.
func (l *Lab) Boot(n *Node) *Guest {
	l.t.Helper()
	require.True(l.t, l.options.Image, "the lab keeps no image")
	require.False(l.t, n.Up(), "%s runs already", n.Facts.Name)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	accel, err := vm.DetectAccel(ctx)
	require.NoError(l.t, err)
	disk := filepath.Join(n.dir, "disk.qcow2")
	require.NoError(l.t, vm.Overlay(ctx, l.image(), disk, guestDisk))
	require.NoError(l.t, tap(n.port()))
	m, err := vm.Start(ctx, vm.Config{
		Name: n.Facts.Name, Dir: n.dir, Accel: accel, Memory: guestMemory,
		Disks:  []vm.Disk{{Path: disk, Format: "qcow2", BootIndex: 1}},
		NICs:   []vm.NIC{{MAC: n.Facts.MACs[0], Tap: n.port()}},
		SMBIOS: vm.SMBIOS{KernelArguments: []string{"spore.console", quiet}, Credentials: map[string][]byte{"spore.bundle": n.Bundle}},
	})
	require.NoError(l.t, err)
	t := l.t
	t.Cleanup(func() {
		m.Kill()
		cut(n.port())
		if t.Failed() {
			t.Logf("console of %s ends with:\n%s", n.Facts.Name, m.Console.Tail())
		}
	})
	return &Guest{Machine: m, Node: n, lab: l}
}

// tap makes a TAP device for a machine and plugs it into the bridge.
func tap(port string) error {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("the network card of a machine: %w", err)
	}
	device := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: port}, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI}
	if err := netlink.LinkAdd(device); err != nil {
		return fmt.Errorf("make the network card of a machine: %w", err)
	}
	// The kernel has kept the device; QEMU opens it itself.
	for _, f := range device.Fds {
		if err := f.Close(); err != nil {
			return fmt.Errorf("make the network card of a machine: %w", err)
		}
	}
	return plug(port)
}

// AwaitShell waits until the shell on the console answers: what is typed between the login and its first prompt is lost. The kernel
// writes nothing there from then on, which could cut into an answer; its journal has it.
func (g *Guest) AwaitShell() {
	g.lab.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), guestLimit)
	defer cancel()
	// The boot loader takes what is typed, too.
	_, _, mark, err := g.Console.AwaitStatus(ctx, 0, "a status line", func(vm.Status) bool { return true })
	require.NoError(g.lab.t, err)
	g.mark = mark
	answer := regexp.MustCompile(`^shell 42$`)
	for end := time.Now().Add(guestLimit); ; {
		require.NoError(g.lab.t, g.Type("echo shell $((6 * 7))\r"))
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		line, mark, err := g.Console.AwaitMatch(ctx, g.mark, answer)
		cancel()
		if err == nil {
			g.mark = mark
			g.lab.t.Logf("%s has a shell after %.1f s and %.1f CPU seconds", g.Node.Facts.Name, line.Wall.Seconds(), line.CPU.Seconds())
			g.Shell("dmesg -n 1")
			return
		}
		require.False(g.lab.t, !errors.Is(err, context.DeadlineExceeded) || time.Now().After(end), "no shell on the console: %v", err)
	}
}

// Shell types a command on the console and returns what it prints.
func (g *Guest) Shell(command string) string {
	g.lab.t.Helper()
	from := g.mark
	require.NoError(g.lab.t, g.Type("("+command+") 2>&1 | sed 's/^/>> /'; echo '>> 'end $((6 * 7))\r"))
	ctx, cancel := context.WithTimeout(context.Background(), shellLimit)
	defer cancel()
	_, mark, err := g.Console.AwaitMatch(ctx, from, regexp.MustCompile(`^>> end 42$`))
	require.NoError(g.lab.t, err, command)
	g.mark = mark
	var out []string
	for _, l := range g.Console.Lines(from)[:mark-from] {
		if text, ok := strings.CutPrefix(l.Text, ">> "); ok && text != "end 42" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n")
}

// Mask takes units away that the lab's containers do without as well.
func (g *Guest) Mask() {
	g.lab.t.Helper()
	units := strings.Join(g.lab.options.Masked, " ")
	// Not systemctl mask: ours are in /etc, where it finds a file in its way.
	g.Shell("cd /etc/systemd/system && for u in " + units + "; do ln -sf /dev/null $u; done; systemctl daemon-reload; systemctl stop --no-block " + units)
}
