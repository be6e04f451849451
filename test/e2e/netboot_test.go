//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/builder/vm"
)

// Machines without a disk that start over the network, from the real `spore serve` in a network of its own.

// serverIP is the address of the server there: that of the nodes' gateway.
const serverIP = "10.77.0.2"

// wire is a network namespace with a switch in it: the server's end is the bridge itself, a machine's the tap device.
type wire struct {
	t  *testing.T
	ns *os.File
}

const (
	bridge = "boot"
	tap    = "machine"
)

func newWire(t *testing.T) *wire {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network of its own, with ports below 1024 and a machine on it, takes root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("there is no /dev/net/tun for a machine's network card: " + err.Error())
	}
	w := &wire{t: t}
	inThread(t, func() {
		require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
		w.ns = ownNamespace(t)
	})
	t.Cleanup(func() { w.ns.Close() })
	w.ip("link set lo up", "link add "+bridge+" type bridge forward_delay 0", "tuntap add "+tap+" mode tap", "link set "+tap+" master "+bridge,
		"address add "+serverIP+"/24 dev "+bridge, "link set "+tap+" up", "link set "+bridge+" up")
	return w
}

// ip runs commands of ip(8).
func (w *wire) ip(commands ...string) {
	w.t.Helper()
	for _, args := range commands {
		w.in(func() {
			out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
			require.NoError(w.t, err, "ip %s: %s", args, out)
		})
	}
}

// dnsmasqIP is the address of the DHCP server that is there already.
const dnsmasqIP = "10.77.0.1"

// dnsmasq is that server: Debian's dnsmasq on a machine of its own, which gives edge-01 its address and others one of a
// range. config are further lines of its configuration, and again starts it anew with others.
func (w *wire) dnsmasq(config string) (again func(config string)) {
	w.t.Helper()
	own := &wire{t: w.t}
	inThread(w.t, func() {
		require.NoError(w.t, unix.Unshare(unix.CLONE_NEWNET))
		own.ns = ownNamespace(w.t)
	})
	w.t.Cleanup(func() { own.ns.Close() })
	w.ip("link add cable type veth peer name dhcp", "link set cable master "+bridge+" up", fmt.Sprintf("link set dhcp netns /proc/%d/fd/%d", os.Getpid(), own.ns.Fd()))
	own.ip("address add "+dnsmasqIP+"/24 dev dhcp", "link set dhcp up")

	dir := w.t.TempDir()
	file := filepath.Join(dir, "dnsmasq.conf")
	start := func(config string) (stop func()) {
		require.NoError(w.t, os.WriteFile(file, []byte("port=0\ninterface=dhcp\nbind-interfaces\nno-ping\nno-resolv\nno-hosts\nlog-dhcp\nuser=root\npid-file=\ndhcp-authoritative\ndhcp-leasefile="+
			filepath.Join(dir, "leases")+"\ndhcp-range=10.77.0.100,10.77.0.150,1h\ndhcp-host="+edgeMAC+","+edgeIP+"\n"+config), 0o600))
		return w.daemon(own, exec.Command("dnsmasq", "--keep-in-foreground", "--log-facility=-", "--conf-file="+file))
	}
	stop := start(config)
	return func(config string) {
		stop()
		stop = start(config)
	}
}

// daemon runs a program on a network until the returned function is called, or the test ends; what it said is shown
// when that failed.
func (w *wire) daemon(on *wire, cmd *exec.Cmd) (stop func()) {
	w.t.Helper()
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	in, err := cmd.StdinPipe() // Open, and nobody types.
	require.NoError(w.t, err)
	on.in(func() { require.NoError(w.t, cmd.Start(), "run make deps") })
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		in.Close()
	})
	w.t.Cleanup(func() {
		stop()
		if w.t.Failed() {
			w.t.Logf("%s said:\n%s", cmd.Args[0], said.String())
		}
	})
	return stop
}

func ownNamespace(t *testing.T) *os.File {
	f, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	return f
}

// inThread runs body in a thread that has its own network namespace back afterwards. The thread stays: programs that
// are started from it die with it (prctl(2), PR_SET_PDEATHSIG).
func inThread(t *testing.T, body func()) {
	runtime.LockOSThread()
	own := ownNamespace(t)
	defer func() {
		defer own.Close()
		if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // No other test may get this thread.
		}
		runtime.UnlockOSThread()
	}()
	body()
}

// in runs body in the namespace. What it starts belongs there.
func (w *wire) in(body func()) {
	inThread(w.t, func() {
		require.NoError(w.t, unix.Setns(int(w.ns.Fd()), unix.CLONE_NEWNET))
		body()
	})
}

// card is a machine's network card on the wire, from which the firmware boots: by HTTP alone or, with pxe, by PXE
// alone.
func (w *wire) card(mac string, pxe bool) []string {
	args := []string{
		"-netdev", "tap,id=wire,ifname=" + tap + ",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=wire,mac=" + mac + ",romfile=,bootindex=1",
		"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=no",
	}
	if !pxe {
		args = append(args, "-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=no")
	}
	return args
}

func (w *wire) boot(c vm.Config) (g *guest) {
	w.in(func() { g = boot(w.t, c) })
	return g
}

// serve runs `spore serve` for an output folder, with a mode of DHCP, until the returned function is called or the test
// ends.
func (w *wire) serve(out, mode string, args ...string) (stop func()) {
	w.t.Helper()
	stop = w.daemon(w, exec.Command(flashTool(w.t), append([]string{"serve", out, "--interface", bridge, "--dhcp", mode}, args...)...))
	require.Eventually(w.t, func() (answers bool) {
		w.in(func() {
			c, err := net.DialTimeout("tcp", serverIP+":80", time.Second)
			if answers = err == nil; answers {
				c.Close()
			}
		})
		return answers
	}, 30*time.Second, 50*time.Millisecond, "spore serve does not answer")
	return stop
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// netbootFolder is an output folder of a test's own, with the files of the suite's image in it.
func netbootFolder(t *testing.T) string {
	t.Helper()
	out, from := t.TempDir(), filepath.Join(filepath.Dir(suite.image), "netboot")
	require.NoError(t, filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(filepath.Dir(from), path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(out, name), 0o755)
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		to, err := os.Create(filepath.Join(out, name))
		if err != nil {
			return err
		}
		_, err = io.Copy(to, in)
		return errors.Join(err, to.Close())
	}))
	return out
}

// TestANodeStartsByHTTPAndGetsItsSecretsAfterApproval takes the server away in the middle of the download, too.
func TestANodeStartsByHTTPAndGetsItsSecretsAfterApproval(t *testing.T) {
	inTurn(t)
	w, out := newWire(t), netbootFolder(t)
	stop := w.serve(out, "full", "--tftp-port", "off")
	g := w.boot(vm.Config{Name: "http", Args: w.card(edgeMAC, false)})
	g.awaitLine(`spore stage1:.*the image comes from the network: the firmware started .*/MAC\(52540077000b,0x1\)/IPv4\(.*\)/Uri\(`)
	g.awaitLine(`spore stage1:.*DHCP: ` + edgeIP + `/24 on \S+ \(` + edgeMAC + `\) from ` + serverIP + `, http://` + serverIP + `/`)
	g.awaitLine(`spore stage1:.* root\.verity: `)
	time.Sleep(200 * time.Millisecond) // A megabyte of the root in emulation, and not all of it on a fast machine.
	stop()
	g.awaitLine(`spore stage1:.*waiting for root\.squashfs: .*; trying again in `)
	w.serve(out, "full", "--tftp-port", "off")
	g.awaitLine(`spore stage1:.* root\.squashfs: \d+\.\d MiB in `)
	g.awaitLine(`spore stage1:.* the image is in memory: loop0, loop1, loop2`)
	g.awaitLine(`spore stage1:.* mapped root: verity on /dev/loop0`)

	s := g.await("the fingerprint of a key that waits for approval", func(s vm.Status) bool {
		return s.Bundle.Fingerprint != "" && strings.Contains(s.Bundle.Problem, "waiting for the operator") && s.Times["running"] > 0
	})
	require.Equal(t, "edge-01", s.Node)
	require.Equal(t, "mac", s.Matched.By)
	require.Equal(t, []string{edgeIP}, s.Addresses, "networkd began anew")
	require.Equal(t, "running", s.System, s.Raw)
	require.Empty(t, s.BootDisk)
	require.Len(t, s.Held, 1, s.Raw)
	require.Equal(t, "mqtt-broker", s.Held[0].Role)
	require.Contains(t, s.Held[0].Reason, s.Bundle.Fingerprint, "it says what to do")

	said, err := exec.Command(flashTool(t), "approve", out, s.Bundle.Fingerprint, "--pki", suite.dir).CombinedOutput()
	require.NoError(t, err, "%s", said)
	s = g.await("the roles that waited for the approval", func(s vm.Status) bool {
		return s.Bundle.Serial > 0 && len(s.Held) == 0 && s.Services["mosquitto.service"] == "active"
	})
	require.Equal(t, "network", s.Bundle.From)
	require.Empty(t, s.Bundle.Fingerprint)
	require.Empty(t, s.Bundle.Problem)
	require.ElementsMatch(t, []string{"mqtt-broker", "dns-server"}, s.Roles)
	require.Empty(t, s.Failed)
}

// TestAMachineInstallsItselfFromTheNetworkBesideAnotherDHCPServer begins with the firmware's PXE, which loads iPXE, and
// a server that has one byte wrong.
func TestAMachineInstallsItselfFromTheNetworkBesideAnotherDHCPServer(t *testing.T) {
	inTurn(t)
	w, out := newWire(t), netbootFolder(t)
	root := filepath.Join(out, "netboot", "root.squashfs")
	const at = 5_000_000
	flip := func() {
		f, err := os.OpenFile(root, os.O_RDWR, 0)
		require.NoError(t, err)
		defer f.Close()
		b := make([]byte, 1)
		_, err = f.ReadAt(b, at)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
		require.NoError(t, err)
	}
	flip()
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(disk, nil, 0o600))
	require.NoError(t, os.Truncate(disk, diskSize))
	w.dnsmasq("")
	w.in(func() {
		said, err := exec.Command(flashTool(t), "serve", out, "--interface", bridge, "--dhcp", "full").CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(said), dnsmasqIP+" gives out addresses on "+bridge+" already; use --dhcp proxy beside it")
	})
	w.serve(out, "proxy", "--install", "edge-01="+innerDisk)
	g := w.boot(vm.Config{Name: "ipxe", Args: w.card(edgeMAC, true), Reboots: true, Disks: []vm.Disk{{Path: disk, Serial: innerDisk, BootIndex: 2}}})

	g.awaitLine(`spore stage1:.*the image comes from the network: the kernel command line says spore\.url=http://` + serverIP + `/`)
	g.awaitLine(`spore stage1:.*DHCP: ` + edgeIP + `/24 on \S+ \(` + edgeMAC + `\) from ` + dnsmasqIP)
	g.awaitLine(fmt.Sprintf(`spore stage1:.*waiting for root\.squashfs: GET \S+: block %d: it is not what the root hash of this kernel stands for; trying again`, at/4096))
	g.awaitLine(fmt.Sprintf(`spore stage1:.*FAILED: cannot find the image: GET \S+/root\.squashfs: block %d: it is not what the root hash of this kernel stands for; given up after %d good bytes`, at/4096, at/4096*4096))
	flip()

	g.awaitLine(`spore-agent: installing on /dev/vda .*serial ` + innerDisk + `\), which holds: nothing`)
	g.awaitLine(`spore-agent: installed on /dev/vda: .*read back and compared`)
	g.awaitLine(`spore stage1:.* boot disk /dev/vda`)
	s := g.running()
	require.Equal(t, "edge-01", s.Node)
	require.Equal(t, innerDisk, s.BootDisk)
	require.Equal(t, "partition", s.State.Kind, s.Raw)
	require.Contains(t, s.Services, "coredns.service")

	// The firmware prefers the card again, as QEMU tells it at each start, and is to go on to its next choice and not into
	// its menu. That is HTTP boot here, and not the disk: QEMU ranks all that a card can do together.
	require.NoError(t, g.Reset())
	g.awaitLine(`Spore: edge-01 is installed and starts from its disk`)
	g.awaitLine(`BdsDxe: failed to start \S+ "UEFI PXEv4`)
}
