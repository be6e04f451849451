//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/watchdog"
	"spore/builder/vm"
)

// What hangs is reset by the hardware watchdog, and what waits is not.

const (
	// earlyWatch is how long the watchdogs of machines wait where stage1 alone runs: an emulated machine on a busy host
	// can stand still for ten seconds.
	earlyWatch = 20 * time.Second
	// resetLimit is for a reset by a watchdog, until the kernel starts again.
	resetLimit = watchdog.Timeout + bootLimit
	// prompt is how long nobody types a passphrase, promptSoak in `make soak`.
	prompt, promptSoak = watchdog.Timeout * 3 / 2, 10 * time.Minute
)

// watchedFor is the word that has the watchdog wait for so long.
func watchedFor(d time.Duration) string {
	return "systemd.watchdog_sec=" + strings.TrimSuffix(d.String(), "s")
}

// stays makes sure that a machine that cannot restart without its end goes on for so long.
func (g *guest) stays(d time.Duration) {
	g.t.Helper()
	time.Sleep(d)
	require.True(g.t, g.Running(), "the machine was reset; its console ends with:\n%s", g.Console.Tail())
}

// awaitUntil waits for a line of the console for so long.
func (g *guest) awaitUntil(limit time.Duration, pattern string) (vm.Line, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	line, mark, err := g.Console.AwaitMatch(ctx, g.mark, regexp.MustCompile(pattern))
	if err == nil {
		g.mark = mark
	}
	return line, err
}

// isReset waits for the reset of a machine that cannot restart.
func (g *guest) isReset() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	require.NoError(g.t, g.Wait(ctx))
}

// throttle lets the guest's disk read and write so many bytes a second; 0 is all that it can.
func (g *guest) throttle(disk string, rate int) {
	g.t.Helper()
	var blocks []struct {
		QDev     string `json:"qdev"`
		Inserted struct {
			Node string `json:"node-name"`
		} `json:"inserted"`
	}
	require.NoError(g.t, g.Monitor("query-block", nil, &blocks))
	for _, b := range blocks {
		if b.Inserted.Node == disk {
			require.NoError(g.t, g.Monitor("block_set_io_throttle", map[string]any{
				"id": b.QDev, "bps": rate, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0,
			}, nil))
			return
		}
	}
	require.Fail(g.t, "no such disk", "%s in %+v", disk, blocks)
}

// directly is a machine that starts the suite's kernel without firmware.
func directly(t *testing.T, name string, words ...string) vm.Config {
	t.Helper()
	folder := filepath.Join(filepath.Dir(suite.image), "netboot")
	cmdline, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	require.NoError(t, err)
	words = append(append([]string{strings.TrimSpace(string(cmdline))}, suite.accel.KernelArguments...), words...)
	return vm.Config{
		Name: name, Kernel: filepath.Join(folder, "vmlinuz"), Initrd: filepath.Join(folder, "initrd"), Append: strings.Join(words, " "), Watchdog: true,
	}
}

// requireWatched makes sure that a machine that runs has its watchdog from stage1 on.
func requireWatched(t *testing.T, g *guest) {
	t.Helper()
	_, ok := g.Console.Find(0, regexp.MustCompile(`stage1: .*hardware watchdog "i6300ESB timer": the machine restarts when it hangs for `+watchdog.Timeout.String()))
	require.True(t, ok)
	statuses := g.Console.Statuses(0)
	s := statuses[len(statuses)-1]
	require.NotNil(t, s.Watchdog, s.Raw)
	require.Equal(t, "i6300ESB timer", s.Watchdog.Identity)
	require.Equal(t, int(watchdog.Timeout.Seconds()), s.Watchdog.Seconds, "systemd has the same time")
	require.True(t, s.Watchdog.Held, s.Raw)
	require.False(t, s.Watchdog.HasReset, s.Raw)
	g.loggedIn()
	require.Equal(t, []string{"1"}, g.shell(`ls -l /proc/1/fd | grep -c /dev/watchdog0`), "systemd holds it")
	require.Equal(t, []string{"10 1"}, g.shell(`echo $(cat /proc/sys/kernel/panic /proc/sys/kernel/panic_on_oops)`))
}

// hangs has systemd hang, by the shell on the console, and waits for the start that follows.
func hangs(t *testing.T, g *guest) {
	t.Helper()
	g.shell("kill -SEGV 1")
	if _, err := g.awaitUntil(resetLimit, `Linux version`); err != nil {
		// The shell needs no systemd.
		require.NoError(t, err, "%v", g.shell("grep State /proc/1/status; cat /proc/1/wchan; ls -l /proc/1/fd; cat /sys/class/watchdog/watchdog0/*"))
	}
	g.awaitLine(`stage1: .*the hardware watchdog has restarted this machine`)
}

// panicsAndRestarts has the kernel panic, by the shell on the console, and waits for the start that follows.
func panicsAndRestarts(t *testing.T, g *guest) {
	t.Helper()
	require.NoError(t, g.Type("echo c > /proc/sysrq-trigger\r"))
	g.awaitLine(`Kernel panic - not syncing: sysrq triggered crash`)
	g.awaitLine(`Linux version`)
}

func TestAStartThatHangsIsReset(t *testing.T) {
	inTurn(t)
	c := directly(t, "hung-disk", watchedFor(earlyWatch))
	c.Disks = []vm.Disk{bootDisk(overlay(t))}
	g := boot(t, c)
	g.throttle("disk0", 1) // Nothing answers: a kernel waits for such a disk for ever.
	g.awaitLine(`stage1: .*hardware watchdog "i6300ESB timer": the machine restarts when it hangs for ` + earlyWatch.String())
	fed := g.awaitLine(`stage1: .*nothing has gone on for \S+: the watchdog is not fed any more`)
	g.isReset()
	t.Logf("nothing was fed after %s", fed.Wall)
}

func TestAStartThatWaitsForAServerIsNotReset(t *testing.T) {
	inTurn(t)
	c := directly(t, "no-server", watchedFor(earlyWatch), "spore.url=http://10.77.0.99/")
	c.NICs = []vm.NIC{{MAC: edgeMAC, Net: network, DHCPStart: "10.77.0.60"}}
	g := boot(t, c)
	g.awaitLine(`stage1: .*hardware watchdog "i6300ESB timer": the machine restarts when it hangs for ` + earlyWatch.String())
	g.awaitLine(`stage1: .*waiting for root\.verity: .*; trying again`)
	g.stays(watchdog.Bound(earlyWatch) + earlyWatch)
	g.awaitLine(`stage1: .*waiting for root\.verity: .*; trying again`)
	_, hungry := g.Console.Find(0, regexp.MustCompile(`is not fed any more`))
	require.False(t, hungry, g.Console.Tail())
	g.off()
}

// nobodyTypes leaves a machine at its question for longer than its watchdog waits.
func (g *guest) nobodyTypes() {
	g.t.Helper()
	if os.Getenv("SPORE_SOAK") != "" {
		g.stays(promptSoak)
		return
	}
	g.stays(prompt)
}
