//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/ntp"
	"spore/builder/vm"
	"spore/test/client"
)

// Scenario 6: a machine as they stand in racks: two cards in a bond, a VLAN on it, a disk of its own for state, an
// address that another machine has, a clock without battery.

const (
	metalConfig = "test/e2e/testdata/metal"
	metalIP     = "10.77.0.21"
	vlanIP      = "10.78.0.21"
	// takenIP is an address of metal-01 for which QEMU's user network answers, from takenMAC (libslirp: 52:55 and the
	// address).
	takenIP     = "10.77.0.3"
	takenMAC    = "52:55:0a:4d:00:03"
	stateSerial = "METALSTATE"
	stateSize   = 2 << 30
	// access is what somebody would see who could log in.
	access = `login:|root@|^(bash|sh)?[^ ]*# ?$`
)

// metal is the image of metalConfig.
type metal struct {
	*plant
	built time.Time
	// noTime says why this host does not answer the machine's questions for the time.
	noTime error
}

func buildMetal(t *testing.T) metal {
	t.Helper()
	out := t.TempDir()
	p, err := buildPlant(metalConfig, out, nil)
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(out, "spore.manifest.json"))
	require.NoError(t, err)
	var manifest struct {
		BuildTime int64 `json:"buildTime"`
	}
	require.NoError(t, json.Unmarshal(data, &manifest))
	require.Positive(t, manifest.BuildTime)
	return metal{plant: p, built: time.Unix(manifest.BuildTime, 0)}
}

// hostIP is this host, as QEMU's user network has it.
const hostIP = "10.77.0.2"

// serveTime has this host answer as a time server, on its loopback alone, unless that takes root or another program
// does it.
func serveTime(t *testing.T) error {
	t.Helper()
	suite.hostTime.Lock()
	t.Cleanup(suite.hostTime.Unlock)
	ctx, cancel := context.WithCancel(context.Background())
	conns, err := ntp.Listen(ctx, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, ntp.Port)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EADDRINUSE) {
		cancel()
		return fmt.Errorf("the machines have no time server: %w", err)
	}
	require.NoError(t, err)
	server := ntp.Server{Now: time.Now, State: func() ntp.State {
		return ntp.State{Stratum: 2, Reference: [4]byte{'T', 'E', 'S', 'T'}, RootDispersion: time.Millisecond, Updated: time.Now()}
	}}
	done := make(chan error)
	go func() { done <- server.Serve(ctx, conns) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return nil
}

// requireTime makes sure that a machine whose clock was wrong has the host's time, and tells it to anybody but the one
// that it follows: the host, whose address the question has.
func (m metal) requireTime(t *testing.T, g *guest, s vm.Status) {
	if m.noTime != nil {
		t.Skip(m.noTime)
	}
	kept := func(s vm.Status) bool { return s.Clock.Synchronized && s.Clock.From != "" }
	if !kept(s) {
		s = g.await("a status line that says who keeps the clock", kept)
	}
	require.Equal(t, hostIP, s.Clock.From)
	require.False(t, s.Clock.Wrong)
	require.Empty(t, s.Clock.Problem)
	text, err := g.Address("udp", metalIP+":123")
	require.NoError(t, err)
	at, err := netip.ParseAddrPort(text)
	require.NoError(t, err)
	var heard ntp.Heard
	require.Eventually(t, func() bool { // It comes with what no role waits for.
		heard, err = ntp.Ask(t.Context(), at, time.Now)
		return errors.Is(err, ntp.ErrNoTime)
	}, 3*time.Minute, time.Second, "the machine tells nobody the time")
	require.EqualValues(t, ntp.LeapAlarm, heard.State.Leap)
}

// machine is metal-01 with an empty boot disk and the disks for state.
func (m metal) machine(t *testing.T, name string, state ...string) vm.Config {
	t.Helper()
	over := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, vm.Overlay(context.Background(), m.image, over, diskSize))
	c := vm.Config{Name: name, Disks: []vm.Disk{bootDisk(over)}, NICs: []vm.NIC{
		{MAC: "52:54:00:77:00:15", Net: network, Hub: 1, Forwards: []vm.Forward{{Protocol: "udp", Guest: metalIP + ":53"}, {Protocol: "udp", Guest: metalIP + ":123"}}},
		{MAC: "52:54:00:77:00:16", Hub: 1},
	}}
	// Each is behind a storage controller whose driver neither stage1, which starts from another disk, nor coldplug's
	// first half loads.
	for _, path := range state {
		c.Disks = append([]vm.Disk{{Path: path, Serial: stateSerial, Bus: "sata"}}, c.Disks...)
	}
	return c
}

// blankDisk is an empty disk of a size in bytes.
func blankDisk(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.img")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, size))
	return path
}

func TestMetal(t *testing.T) {
	inTurn(t)
	m := buildMetal(t)
	m.noTime = serveTime(t)
	t.Run("a bond with a VLAN and a disk for state", m.testLife)
	t.Run("a disk for state that holds something is refused", m.testForeignDisk)
	t.Run("a boot that fails says what it saw and starts again", m.testStage1Failure)
}

// testLife boots a machine with two disks that say that they are the one for state. One of them is taken away, systemd
// hangs, and what the watchdog starts is the first boot with state. Then the machine is started once more, with the disk
// grown and the clock at zero.
func (m metal) testLife(t *testing.T) {
	t.Parallel()
	disk, twin := blankDisk(t, stateSize), blankDisk(t, 1<<30)
	first := vm.Status{}
	t.Run("on the first boot", func(t *testing.T) {
		c := m.machine(t, "metal", disk)
		c.Args = []string{
			"-device", "pcie-root-port,id=behind,chassis=1", "-device", "ahci,id=twin,bus=behind",
			"-blockdev", "driver=file,node-name=twin-file,filename=" + twin, "-blockdev", "driver=raw,node-name=twin-disk,file=twin-file",
			"-device", "ide-hd,bus=twin.0,drive=twin-disk,serial=" + stateSerial,
		}
		c.Watchdog, c.Reboots = true, true
		// systemd would restart the machine itself when it crashes, and is to hang here.
		c.SMBIOS.KernelArguments = []string{"spore.console", "systemd.crash_action=freeze"}
		g := boot(t, c)
		t.Run("two disks for state are none", func(t *testing.T) {
			m.requireRefused(t, g, `2 disks have the serial "METALSTATE"`, "/dev/sda", "/dev/sdb")
			require.Zero(t, blocksOf(t, disk)+blocksOf(t, twin), "nothing was written to either")
		})
		t.Run("a systemd that hangs is restarted by the watchdog", func(t *testing.T) {
			requireWatched(t, g)
			require.NoError(t, g.Monitor("device_del", map[string]any{"id": "twin"}, nil))
			require.Equal(t, []string{"1"}, g.shell("timeout 60 sh -c 'while set -- /sys/block/sd*; [ $# != 1 ]; do sleep 1; done'; echo /sys/block/sd* | wc -w"))
			hangs(t, g)
		})
		first = g.running()
		require.True(t, first.Watchdog.Held, first.Raw)
		require.True(t, first.Watchdog.HasReset, first.Raw)
		m.requireMetal(t, g, first)
		t.Run("one cable is enough", func(t *testing.T) {
			require.NoError(t, g.Cable(0, false))
			requireName(t, g)
			require.NoError(t, g.Cable(0, true))
			require.NoError(t, g.Cable(1, false))
			requireName(t, g)
			require.NoError(t, g.Cable(1, true))
		})
		require.NoError(t, g.CtrlAltDel())
		g.awaitLine(`reboot: Restarting system`)
		g.off()
		require.Zero(t, blocksOf(t, twin), "nothing was written to the one that was taken away")
	})
	require.NotEmpty(t, first.MachineID)
	small, err := vm.FindPartition(disk, "spore-state")
	require.NoError(t, err)
	require.EqualValues(t, stateSize>>20-2, small.Size>>20, "it fills the disk but for the first and the last MiB")
	end := time.Now()

	require.NoError(t, os.Truncate(disk, stateSize+1<<30))
	t.Run("on the second boot with the disk grown", func(t *testing.T) {
		c := m.machine(t, "metal-grown", disk)
		c.RTC = "1970-01-01T00:00:00" // The firmware makes 2070 of it.
		c.Display = true
		c.SMBIOS.KernelArguments = []string{"spore.console"}
		c.SMBIOS.Credentials = map[string][]byte{"spore.bundle": m.bundle(t, "metal-01")}
		g := boot(t, c)
		second := g.running()
		t.Run("it has the host's time, and tells it", func(t *testing.T) { m.requireTime(t, g, second) })
		m.requireMetal(t, g, second)
		m.inspect(t, g, first, end)
		t.Run("its monitor", func(t *testing.T) { hasAMonitor(t, g) })
		g.hasStuckStopJob()
		g.endInOrder()
	})
	t.Run("the partition and the file system on it have grown", func(t *testing.T) {
		large, err := vm.FindPartition(disk, "spore-state")
		require.NoError(t, err)
		require.Equal(t, small.Start, large.Start)
		require.Equal(t, small.UUID, large.UUID)
		require.Equal(t, small.Size+1<<30, large.Size)
		part := fmt.Sprintf("%s?offset=%d", disk, large.Start)
		require.Contains(t, run(t, "e2fsck", "-fn", part), "Pass 5")
		blocks, size := dump(t, part, "Block count"), dump(t, part, "Block size")
		require.Equal(t, large.Size, blocks*size)
	})
}

// requireMetal makes sure of what is the same on every boot.
func (m metal) requireMetal(t *testing.T, g *guest, s vm.Status) {
	t.Helper()
	require.Equal(t, "metal-01", s.Node)
	require.Equal(t, []string{"dns-server"}, s.Roles)
	require.Equal(t, "partition", s.State.Kind)
	require.Equal(t, stateSerial, s.State.Disk)
	require.Empty(t, s.State.Warning)
	require.Equal(t, "DISK0001", s.BootDisk)
	require.Equal(t, []string{metalIP, vlanIP}, s.Addresses)
	require.Len(t, s.Conflicts, 1, s.Raw)
	require.Equal(t, takenIP, s.Conflicts[0].IP)
	require.Equal(t, takenMAC, s.Conflicts[0].MAC)
	require.Less(t, s.Times["activated"], s.Times["network"]+20, "nobody waits for the address that is taken")
	requireName(t, g)
}

// requireName asks the guest's DNS server for its own name.
func requireName(t *testing.T, g *guest) {
	t.Helper()
	addr, err := g.Address("udp", metalIP+":53")
	require.NoError(t, err)
	a, err := client.Ask("udp", addr, "metal-01.metal.example", "A")
	require.NoError(t, err)
	require.Equal(t, []string{"A " + metalIP}, a.Records)
}

// inspect looks around on the console.
func (m metal) inspect(t *testing.T, g *guest, first vm.Status, end time.Time) {
	require.Regexp(t, access, g.loggedIn().Text)
	sh := func(command string) string { return strings.Join(g.shell(command), "\n") }
	t.Run("bond, members and VLAN have the MTU", func(t *testing.T) {
		require.Equal(t, "1400", sh("cat /sys/class/net/bond0/mtu"))
		require.Equal(t, "1400", sh("cat /sys/class/net/plant.20/mtu"))
		require.Equal(t, "1400\n1400", sh("cat /sys/class/net/en*/mtu"))
	})
	t.Run("the bond is the only one and has both cards", func(t *testing.T) {
		require.Equal(t, "bond0", sh("cat /sys/class/net/bonding_masters"))
		require.Len(t, strings.Fields(sh("cat /sys/class/net/bond0/bonding/slaves")), 2)
		require.Equal(t, "active-backup 1", sh("cat /sys/class/net/bond0/bonding/mode"))
	})
	t.Run("kernel parameters are set", func(t *testing.T) {
		require.Equal(t, "7", sh("cat /proc/sys/vm/swappiness"))
		require.Equal(t, "2", sh("cat /proc/sys/net/ipv4/conf/bond0/arp_announce"), "of an interface that is made later")
	})
	t.Run("the kernel takes no advertisement of a router", func(t *testing.T) {
		require.Equal(t, "0", sh("cat /proc/sys/net/ipv6/conf/[!al]*/accept_ra | sort -u"), "nor will a later one; the pattern leaves out all and lo")
	})
	t.Run("the two halves of coldplug load what the whole does", func(t *testing.T) {
		require.Equal(t, "active", sh("timeout 100 sh -c 'until systemctl -q is-active spore-coldplug.service; do sleep 1; done' && echo active"))
		modules := func() []string { return g.shell("udevadm settle; cut -d' ' -f1 /proc/modules | sort") }
		halves := modules()
		require.Contains(t, halves, "aesni_intel", "the processor's own, of the second half")
		sh("udevadm trigger --type=devices --action=add")
		require.Equal(t, halves, modules())
	})
	t.Run("/tmp and the kernel are guarded", func(t *testing.T) {
		require.Regexp(t, `^rw,nosuid,nodev,.*nr_inodes=1048576`, sh("sed -n 's|^tmpfs /tmp tmpfs ||p' /proc/mounts"))
		require.Equal(t, "lockdown,capability,landlock,yama,apparmor,ipe,ima,evm", sh("echo $(cat /sys/kernel/security/lsm)"))
	})
	t.Run("secrets are for root alone and for services that want them", func(t *testing.T) {
		require.Equal(t, "700 0:0", sh("stat -c '%a %u:%g' /run/spore/secrets"))
		require.Empty(t, sh("find /run/spore/secrets -type f ! -perm 600 -o ! -user root"))
		require.Equal(t, "/run/spore/secrets/api/agent-key", sh("grep -rl 'PRIVATE KEY' /run/spore/secrets"), "no service of this node wants one but its API")
	})
	t.Run("the clock is not before what the node has seen", func(t *testing.T) {
		now, err := strconv.ParseInt(sh("date +%s"), 10, 64)
		require.NoError(t, err)
		require.Greater(t, now, m.built.Unix())
		require.Greater(t, now, end.Add(-time.Minute).Unix(), "last time seen")
		require.Less(t, now, end.Add(time.Hour).Unix())
		seen := strings.Fields(sh(`journalctl -q -b -o short-unix | cut -d. -f1 | sort -n | sed -n '1p;$p'`))
		require.GreaterOrEqual(t, seen[0], fmt.Sprint(m.built.Unix()), "of the journal's oldest entry")
		require.LessOrEqual(t, seen[1], fmt.Sprint(end.Add(time.Hour).Unix()), "of its newest")
	})
	t.Run("what the first boot wrote is there", func(t *testing.T) {
		require.Equal(t, first.MachineID, sh("cat /etc/machine-id"))
		require.Equal(t, first.MachineID, sh("ls /var/log/journal"))
		require.Equal(t, "2", sh("journalctl -q --list-boots | wc -l"))
	})
	t.Run("/var stays when its partition is announced as gone", func(t *testing.T) {
		name := sh(`sed -n 's|^/dev/\(\S*\) /var .*|\1|p' /proc/mounts`)
		require.NotEmpty(t, name)
		sh("echo remove > /sys/class/block/" + name + "/uevent")
		require.Equal(t, "gone", sh("timeout 60 sh -c 'while systemctl -q is-active dev-"+name+".device; do sleep 1; done' && echo gone"))
		sh("echo add > /sys/class/block/" + name + "/uevent")
		require.Equal(t, "back", sh("timeout 60 sh -c 'until systemctl -q is-active dev-"+name+".device; do sleep 1; done' && echo back"))
		require.Equal(t, "active\nactive", sh("systemctl is-active var.mount spore-agent.service"))
		require.Equal(t, "0", sh("journalctl -q -b -u var.mount | grep -c -i unmount"))
	})
	t.Run("/var is as large as the disk", func(t *testing.T) {
		mib, err := strconv.Atoi(strings.TrimSpace(sh("df -BM --output=size /var | tail -n1 | tr -d M")))
		require.NoError(t, err)
		require.Greater(t, mib, 2700)
	})
}

// testForeignDisk gives the machine a disk that somebody else uses, and a clock that is far too late.
func (m metal) testForeignDisk(t *testing.T) {
	t.Parallel()
	disk := blankDisk(t, 1<<30)
	run(t, "mke2fs", "-q", "-t", "ext4", "-L", "precious", disk)
	before := hashFile(t, disk)
	c := m.machine(t, "metal-foreign", disk)
	c.RTC, c.Reboots, c.SMBIOS.KernelArguments = "2106-02-07T06:00:00", true, []string{"spore.console"}
	g := boot(t, c)
	g.awaitLine(`spore stage1: .*the clock said 2\d\d\d-.*; set it to the time of the image, ` + m.built.UTC().Format(time.RFC3339))
	m.requireRefused(t, g, `serial METALSTATE`, "it holds an ext2, ext3 or ext4 file system", "nothing was changed", "spore reset metal-01 --disk METALSTATE")
	g.loggedIn()
	t.Run("a kernel that panics restarts the machine", func(t *testing.T) { panicsAndRestarts(t, g) })
	g.off()
	require.Equal(t, before, hashFile(t, disk), "it is as it was")
}

// requireRefused makes sure that the machine runs without state, and says why.
func (m metal) requireRefused(t *testing.T, g *guest, why ...string) {
	t.Helper()
	s := g.running()
	if len(s.Addresses) < 2 { // Without roles nothing waits for the network.
		s = g.await("a status line with both addresses", func(s vm.Status) bool { return s.System == "running" && len(s.Addresses) == 2 })
	}
	require.Equal(t, "metal-01", s.Node)
	require.Empty(t, s.Roles)
	require.Len(t, s.Held, 1, "no role begins anew beside data that is out of reach: %s", s.Raw)
	require.Equal(t, "tmpfs", s.State.Kind)
	require.True(t, s.State.Refused)
	for _, w := range append(why, "/var is a tmpfs and its content will be lost") {
		require.Contains(t, s.State.Warning, w)
	}
	require.Equal(t, []string{metalIP, vlanIP}, s.Addresses)
}

// testStage1Failure boots a disk whose table does not have the root that the kernel's command line names.
func (m metal) testStage1Failure(t *testing.T) {
	t.Parallel()
	const other = "deadbeef-0000-4000-8000-000000000001"
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, vm.Copy(m.image, disk, 0))
	run(t, "sgdisk", "-u", "2:"+other, disk)
	c := m.machine(t, "metal-no-root")
	c.Disks, c.RTC = []vm.Disk{bootDisk(disk)}, "2001-01-01T00:00:00"
	g := boot(t, c)
	g.awaitLine(`spore stage1: .*the clock said 2001-01-01T.*; set it to the time of the image, ` + m.built.UTC().Format(time.RFC3339))
	failed := g.awaitLine(`spore stage1: .*FAILED: `)
	g.awaitLine(`spore stage1: .*command line: .*roothash=`)
	g.awaitLine(`spore stage1: .*modules loaded: .*virtio_blk`)
	g.awaitLine(`spore stage1: .*disk seen: .*DISK0001`)
	g.awaitLine(`spore stage1: .*partition 2: ` + other)
	again := g.awaitLine(`spore stage1: .*starting the machine again in 10 seconds`)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, g.Wait(ctx), "it resets the machine by itself, which ends QEMU here")
	g.requireNoAccess()
	t.Logf("%s (%.1f s, %.1f s)", failed.Text, failed.Wall.Seconds(), again.Wall.Seconds())
}

// awaitShell waits until the shell of the console answers: what is typed between the login and its first prompt is
// lost. From then on the kernel writes nothing there but why it dies: a busy host makes it say, in the middle of a
// line, that its clocks were read late. Its journal has all of it.
func (g *guest) awaitShell() {
	g.t.Helper()
	answer := regexp.MustCompile(`^shell 42$`)
	end := time.Now().Add(bootLimit)
	for {
		require.NoError(g.t, g.Type("echo shell $((6 * 7))\r"))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, mark, err := g.Console.AwaitMatch(ctx, g.mark, answer)
		cancel()
		if err == nil {
			g.mark = mark
			g.shell("dmesg -n 1")
			return
		}
		require.True(g.t, time.Now().Before(end), "no shell on the console: %v", err)
	}
}

// loggedIn waits for the login on the console, which may have come before the status line that was awaited last:
// nothing orders the two.
func (g *guest) loggedIn() vm.Line {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	line, mark, err := g.Console.AwaitMatch(ctx, 0, regexp.MustCompile(`login: root \(automatic login\)`))
	require.NoError(g.t, err)
	g.mark = max(g.mark, mark)
	g.awaitShell()
	return line
}

// shell types a command on the console and returns what it prints.
func (g *guest) shell(command string) []string {
	g.t.Helper()
	mark := g.mark
	require.NoError(g.t, g.Type("("+command+") 2>&1 | sed 's/^/>> /'; echo '>> 'end $((6 * 7))\r"))
	g.awaitLine(`^>> end 42$`)
	var out []string
	for _, l := range g.Console.Lines(mark) {
		if text, ok := strings.CutPrefix(l.Text, ">> "); ok && text != "end 42" {
			out = append(out, text)
		}
	}
	return out
}

// requireNoAccess makes sure that nobody was ever asked in. The machine has ended: a prompt is no line before.
func (g *guest) requireNoAccess() {
	g.t.Helper()
	line, seen := g.Console.Find(0, regexp.MustCompile(access))
	require.False(g.t, seen, line.Text)
}

// stuck is a service whose stop job does not end.
const stuck = `[Service]\nExecStart=/bin/sleep infinity\nExecStop=/bin/sleep infinity\nTimeoutStopSec=infinity\n`

// hasStuckStopJob makes sure that a restart does not wait for a job that does not end, as long as it has to wait for
// Kafka at the most, and has such a job and a short bound in this start.
func (g *guest) hasStuckStopJob() {
	g.t.Helper()
	require.Equal(g.t, []string{"8min", "reboot-force"}, g.shell("systemctl show -P JobTimeoutUSec -P JobTimeoutAction reboot.target"))
	g.shell("mkdir -p /run/systemd/system/reboot.target.d; printf '[Unit]\nJobTimeoutSec=15\n' > /run/systemd/system/reboot.target.d/60-test.conf; " +
		"printf '" + stuck + "' > /run/systemd/system/stuck.service; systemctl daemon-reload; systemctl start stuck")
	require.Equal(g.t, []string{"active"}, g.shell("systemctl is-active stuck"))
}

// endInOrder lets the guest reboot, which ends QEMU here.
func (g *guest) endInOrder() {
	g.t.Helper()
	require.NoError(g.t, g.CtrlAltDel())
	g.awaitLine(`reboot: Restarting system`)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(g.t, g.Wait(ctx))
	g.release()
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", out)
	return string(out)
}

// blocksOf is how many blocks of a sparse file have ever been written.
func blocksOf(t *testing.T, path string) int64 {
	t.Helper()
	var s unix.Stat_t
	require.NoError(t, unix.Stat(path, &s))
	return s.Blocks
}

func hashFile(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	h, err := vm.HashRange(path, 0, info.Size())
	require.NoError(t, err)
	return h
}

// dump is a number of the superblock as e2fsprogs read it.
func dump(t *testing.T, part, key string) int64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + key + `:\s+(\d+)$`).FindStringSubmatch(run(t, "dumpe2fs", "-h", part))
	require.NotNil(t, m)
	n, err := strconv.ParseInt(m[1], 10, 64)
	require.NoError(t, err)
	return n
}
