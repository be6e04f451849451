//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/chance"
	"spore/test/client"
	"spore/test/faults"
)

// Rows of machines that run.

// running is the machine that rows use one after the other: each leaves it as it found it.
const running = "a machine that runs"

// theRunning is that machine; the first row that asks starts it.
func (l *faultLab) theRunning(t *testing.T) *subject {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		c := l.machine(t, "running", l.over(l.outer, l.installed))
		c.Dir, c.Reboots = l.outer.TempDir(), true
		c.SMBIOS.KernelArguments = []string{"spore.console"}
		s := l.start(l.outer, c)
		s.guest.t = t
		s.whole(true)
		s.loggedIn()
		l.running = s
	}
	s := l.running
	s.guest.t, s.began = t, time.Now()
	return s
}

// sh runs a command on the console.
func (s *subject) sh(command string) string { return strings.Join(s.shell(command), "\n") }

// again waits until the broker and the DNS server answer after a fault, and says how long it took.
func (s *subject) again() faults.Outcome {
	s.t.Helper()
	end := s.began.Add(2 * time.Minute)
	for {
		err := s.answer1()
		if err == nil {
			break
		}
		require.True(s.t, time.Now().Before(end), "%v", err)
		time.Sleep(300 * time.Millisecond)
	}
	took := time.Since(s.began)
	return faults.Outcome{After: faults.Whole, Took: took, Lost: s.serves(true)}
}

// answer1 asks both programs once.
func (s *subject) answer1() error {
	addr, err := s.Address("tcp", edgeIP+":53")
	if err != nil {
		return err
	}
	if _, err := client.Ask("tcp", addr, "edge-01."+suite.cluster.Domain, "A"); err != nil {
		return err
	}
	c, err := s.lab.dial(s.t, s.guest, edgeIP, "edge-01", "operator", nil)
	if err == nil {
		c.Close()
	}
	return err
}

func servingRows() []faultRow {
	return []faultRow{
		{Doing: faults.Serving, Happens: "power cut; the disk loses what it had not flushed", Want: faults.Whole, CPU: aBoot, Run: cutWhileItServes},
		{Doing: faults.Serving, Happens: "the kernel kills the broker", Want: faults.Whole, CPU: aTouch, Shares: running, Run: killed("mosquitto.service")},
		{Doing: faults.Serving, Happens: "the kernel kills the DNS server", Want: faults.Whole, CPU: aTouch, Shares: running, Run: killed("coredns.service")},
		{Doing: faults.Serving, Happens: "the kernel kills the agent", Want: faults.Whole, CPU: aTouch, Shares: running, Run: killed("spore-agent.service")},
		{Doing: faults.Serving, Happens: "the kernel kills the program of the node's API", Want: faults.Whole, CPU: aTouch, Shares: running, Run: killed("spore-api.service")},
		{Doing: faults.Serving, Happens: "the network is gone for ten seconds", Want: faults.Whole, CPU: aTouch, Shares: running, Run: cableOut},
		{Doing: faults.Serving, Happens: "the clock jumps to 2106 and back", Want: faults.Whole, CPU: aTouch, Shares: running, Run: clockJumps},
		{Doing: faults.Serving, Happens: "the machine stands still for twenty seconds, as a virtual one that is moved", Want: faults.Whole, CPU: aTouch, Shares: running, Run: standsStill},
		{Doing: faults.Serving, Happens: "/var is full", Want: faults.Whole, CPU: aTouch, Shares: running, Run: fullState},
		{Doing: faults.Serving, Happens: "the kernel panics", Want: faults.Whole, CPU: 2 * aBoot, Run: panics},
		{Doing: faults.Serving, Happens: "the first program, systemd, is killed by a signal", Want: faults.Whole, CPU: 2 * aBoot, Run: systemdDies},
	}
}

func cutWhileItServes(t *testing.T, l *faultLab) faults.Outcome {
	return l.afterThisCut(t, l.log.CutAtEnd(chance.Seed(t)), true)
}

// killed kills the main process of a unit.
func killed(unit string) func(*testing.T, *faultLab) faults.Outcome {
	return func(t *testing.T, l *faultLab) faults.Outcome {
		s := l.theRunning(t)
		before := s.sh("systemctl show -P MainPID " + unit)
		require.NotEqual(t, "0", before)
		s.began = time.Now()
		s.sh("kill -9 " + before)
		require.Equal(t, "up", s.sh("timeout 60 sh -c 'until [ $(systemctl is-active "+unit+") = active ] && [ $(systemctl show -P MainPID "+unit+") != "+before+" ]; do sleep 0.2; done' && echo up"))
		return s.again()
	}
}

func cableOut(t *testing.T, l *faultLab) faults.Outcome {
	s := l.theRunning(t)
	require.NoError(t, s.Cable(0, false))
	time.Sleep(10 * time.Second)
	require.NoError(t, s.Cable(0, true))
	s.began = time.Now()
	return s.again()
}

func clockJumps(t *testing.T, l *faultLab) faults.Outcome {
	s := l.theRunning(t)
	s.sh("date -s '2106-02-07 06:00:00'; sleep 5")
	s.sh("date -s '" + time.Now().UTC().Format("2006-01-02 15:04:05") + "'")
	s.began = time.Now()
	return s.again()
}

func standsStill(t *testing.T, l *faultLab) faults.Outcome {
	s := l.theRunning(t)
	require.NoError(t, s.Freeze())
	time.Sleep(20 * time.Second)
	require.NoError(t, s.Thaw())
	s.began = time.Now()
	return s.again()
}

// fullState fills /var while a client publishes, and frees it again.
func fullState(t *testing.T, l *faultLab) faults.Outcome {
	s := l.theRunning(t)
	s.sh("fallocate -l $(($(df -B1 --output=avail /var | tail -n1) - 65536)) /var/lib/full || fallocate -l $(($(df -B1 --output=avail /var | tail -n1) / 2)) /var/lib/full2; head -c 1M /dev/zero > /var/lib/full3")
	require.Equal(t, "full", s.sh("df --output=pcent /var | grep -q 100% && echo full"))
	require.Empty(t, s.serves(false))
	s.sh("rm -f /var/lib/full /var/lib/full2 /var/lib/full3; sync")
	s.began = time.Now()
	return s.again()
}

// shellOf starts the installed machine with a shell on its console.
func (l *faultLab) withShell(t *testing.T, name string, disk vm.Disk) *subject {
	t.Helper()
	c := l.machine(t, name, disk)
	c.Reboots = true
	c.SMBIOS.KernelArguments = []string{"spore.console"}
	s := l.start(t, c)
	s.whole(true)
	s.loggedIn()
	return s
}

func panics(t *testing.T, l *faultLab) faults.Outcome {
	s := l.withShell(t, "panic", l.fresh(t))
	s.began = time.Now()
	require.NoError(t, s.Type("echo c > /proc/sysrq-trigger\r"))
	s.awaitLine(`Kernel panic - not syncing`)
	return s.end(s.whole(true))
}

func systemdDies(t *testing.T, l *faultLab) faults.Outcome {
	s := l.withShell(t, "systemd", l.fresh(t))
	s.began = time.Now()
	require.NoError(t, s.Type("kill -SEGV 1\r"))
	s.awaitLine(`Kernel panic - not syncing|Freezing execution|reboot: Restarting system|Rebooting`)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	_, _, err := s.Console.Await(ctx, s.mark, "another start", func(l vm.Line) bool { return strings.Contains(l.Text, "Linux version") })
	require.NoError(t, err)
	return s.end(s.whole(true))
}
